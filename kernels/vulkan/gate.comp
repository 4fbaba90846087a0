// The log-decay of every key channel, by one of two laws.
#version 460
#include "kernels/vulkan/gate_arguments.glsl"
//
#include "dialect.glsl"
#include "math.glsl"

// exp is 0 in f32 below this, and sums over a chunk stay finite and exact. A NaN passes.
float raise_to_floor(float log_decay) {
  return !is_nan(log_decay) && log_decay < -110.0 ? -110.0 : log_decay;
}

void main() {
  const uint64_t channels = uint64_t(args.heads) * args.head_dim;
  KDART_FOR_TILES(first, x, channels) {
    const uint64_t c = first + KDART_THREAD;
    if (c >= channels) continue;
    const float rate = kdart_exp(load_a_log(uint(c) / args.head_dim));
    const float bias = load_dt_bias(c);
    KDART_FOR_BLOCKS(t, y, args.tokens) {
      precise float x = widen(load_f(t * channels + c)) + bias;
      precise float log_decay = args.law == 0u ? -(rate * softplus(x)) : args.lower_bound * sigmoid(rate * x);
      store_out(t * channels + c, raise_to_floor(log_decay));
    }
  }
}
