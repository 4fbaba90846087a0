#version 460
#include "kernels/vulkan/fill_arguments.glsl"
//
#include "dialect.glsl"

void main() {
  KDART_FOR_TILES(first, x, args.n) {
    const uint64_t i = first + KDART_THREAD;
    if (i < args.n) store_dst(i, args.value);
  }
}
