// Time that nothing can shorten.
#version 460
#include "kernels/vulkan/spin_arguments.glsl"

void main() {
  uint x = load_state(0ul);
  [[dont_unroll]] for (uint i = 0u; i < args.iterations; ++i) {
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
  }
  store_state(0ul, x);
}
