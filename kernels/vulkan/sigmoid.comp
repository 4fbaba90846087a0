#version 460
#include "kernels/vulkan/sigmoid_arguments.glsl"
//
#include "dialect.glsl"
#include "math.glsl"

void main() {
  KDART_FOR_TILES(first, x, args.n) {
    const uint64_t i = first + KDART_THREAD;
    if (i < args.n) store_out(i, sigmoid(widen(load_b(i))));
  }
}
