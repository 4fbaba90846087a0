#version 460
#include "kernels/vulkan/pack_qkv_arguments.glsl"
//
#include "dialect.glsl"

void main() {
  const uint64_t width = 2ul * args.key_channels + args.value_channels;
  const uint widest = max(args.key_channels, args.value_channels);
  KDART_FOR_BLOCKS(t, y, args.tokens) {
    KDART_FOR_TILES(first, x, widest) {
      const uint64_t c = first + KDART_THREAD;
      const uint64_t row = t * width;
      if (c < args.key_channels) {
        store_out(row + c, load_q(t * args.key_channels + c));
        store_out(row + args.key_channels + c, load_k(t * args.key_channels + c));
      }
      if (c < args.value_channels) {
        store_out(row + 2ul * args.key_channels + c, load_v(t * args.value_channels + c));
      }
    }
  }
}
