#version 460
#include "kernels/vulkan/split_widen_arguments.glsl"
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
        store_q(t * args.key_channels + c, widen(load_qkv(row + c)));
        store_k(t * args.key_channels + c, widen(load_qkv(row + args.key_channels + c)));
      }
      if (c < args.value_channels) {
        store_v(t * args.value_channels + c, widen(load_qkv(row + 2ul * args.key_channels + c)));
      }
    }
  }
}
