// The convolution and SiLU of conv_decode for the tokens of one sequence in order; l2 does the rest.
#version 460
#include "kernels/vulkan/conv_prefill_arguments.glsl"
//
#include "dialect.glsl"
#include "math.glsl"

// What tap j of channel c meets at token t: an input of this call, or a slot of the state before it.
float tap_input(uint64_t t, uint j, uint64_t c) {
  const uint64_t at = t + j + 1u;  // counted from `taps` tokens before the first
  if (at < args.taps) return load_state(c * args.taps + at);
  return widen(load_x((at - args.taps) * args.x_stride + c));
}

void main() {
  KDART_FOR_TILES(first, x, args.channels) {
    const uint64_t c = first + KDART_THREAD;
    if (c >= args.channels || args.tokens == 0u) continue;
    [[dont_unroll]] for (uint64_t t = 0ul; t < args.tokens; ++t) {
      precise float sum = 0.0;
      [[dont_unroll]] for (uint j = 0u; j < args.taps; ++j) {
        sum = sum + tap_input(t, j, c) * widen(load_w(c * args.taps + j));
      }
      store_out(t * args.out_stride + c, silu(sum));
    }
    // In ascending order: slot j takes from a slot after it, which is still the old one.
    [[dont_unroll]] for (uint j = 0u; j < args.taps; ++j) {
      store_state(c * args.taps + j, tap_input(args.tokens - 1ul, j, c));
    }
  }
}
