// The second half of conv_decode for the outputs of conv_prefill.
#version 460
#include "kernels/vulkan/l2_arguments.glsl"
//
#include "dialect.glsl"
//
#include "conv.glsl"

void main() {
  KDART_FOR_BLOCKS(t, y, args.tokens) {
    KDART_FOR_TILES(first, x, args.channels) {
      const uint64_t c = first + KDART_THREAD;
      float value = 0.0;
      if (c < args.channels) value = load_in(t * args.in_stride + c);
      normalise_and_store(value, c, c < args.channels, t * args.out_stride + c);
    }
  }
}
