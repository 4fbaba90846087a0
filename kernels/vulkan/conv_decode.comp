// The causal depthwise convolution with SiLU and the L2 normalisation of q and k by head, one token per row.
#version 460
#include "kernels/vulkan/conv_decode_arguments.glsl"
//
#include "dialect.glsl"
#include "math.glsl"
//
#include "conv.glsl"

void main() {
  KDART_FOR_BLOCKS(row, y, args.rows) {
    const uint slot = has_slots() ? load_slots(row) : uint(row);
    const bool live = slot < args.slot_count;
    KDART_FOR_TILES(first, x, args.channels) {
      const uint64_t c = first + KDART_THREAD;
      float value = 0.0;
      if (live && c < args.channels) {
        const uint64_t window = slot * args.slot_stride + c * args.taps;
        precise float sum = 0.0;
        [[dont_unroll]] for (uint j = 0u; j < args.taps; ++j) {
          float tap;
          if (j + 1u < args.taps) {
            tap = load_state(window + j + 1u);
          } else {
            tap = widen(load_x(row * args.x_stride + c));
          }
          store_state(window + j, tap);
          sum = sum + tap * widen(load_w(c * args.taps + j));
        }
        value = silu(positive_zero(sum));
      }
      normalise_and_store(value, c, c < args.channels, row * args.out_stride + c);
    }
  }
}
