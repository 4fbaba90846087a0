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

// Any window, read anew for each token.
void convolve(uint64_t c) {
  [[dont_unroll]] for (uint64_t t = 0ul; t < args.tokens; ++t) {
    precise float sum = 0.0;
    [[dont_unroll]] for (uint j = 0u; j < args.taps; ++j) {
      sum = sum + tap_input(t, j, c) * widen(load_w(c * args.taps + j));
    }
    store_out(t * args.out_stride + c, silu(positive_zero(sum)));
  }
}

// The window of four that models have, kept in registers; the same operations.
void convolve_four(uint64_t c) {
  const uint at_once = 8u;  // tokens, so that loads are on their way together
  vec4 w;
  [[unroll]] for (uint j = 0u; j < 4u; ++j) w[j] = widen(load_w(c * 4u + j));
  vec4 window = vec4(0.0, load_state(c * 4u + 1u), load_state(c * 4u + 2u), load_state(c * 4u + 3u));
  [[dont_unroll]] for (uint64_t t = 0ul; t < args.tokens; t += at_once) {
    float inputs[at_once];
    [[unroll]] for (uint i = 0u; i < at_once; ++i) {
      inputs[i] = 0.0;
      if (t + i < args.tokens) inputs[i] = widen(load_x((t + i) * args.x_stride + c));
    }
    [[unroll]] for (uint i = 0u; i < at_once; ++i) {
      window = vec4(window.yzw, inputs[i]);
      precise float sum = 0.0;
      [[unroll]] for (uint j = 0u; j < 4u; ++j) sum = sum + window[j] * w[j];
      if (t + i < args.tokens) store_out((t + i) * args.out_stride + c, silu(positive_zero(sum)));
    }
  }
}

void main() {
  KDART_FOR_TILES(first, x, args.channels) {
    const uint64_t c = first + KDART_THREAD;
    if (c >= args.channels || args.tokens == 0u) continue;
    if (args.taps == 4u) {
      convolve_four(c);
    } else {
      convolve(c);
    }
    // In ascending order: slot j takes from a slot after it, which is still the old one.
    [[dont_unroll]] for (uint j = 0u; j < args.taps; ++j) {
      store_state(c * args.taps + j, tap_input(args.tokens - 1ul, j, c));
    }
  }
}
