// Thread i ends with (i + rounds) mod the block's size, if every barrier holds. Small integers, exact as floats.
#version 460
#include "kernels/vulkan/rotate_arguments.glsl"

void main() {
  const uint i = gl_LocalInvocationID.x;
  kdart_shared[i] = float(i);
  [[dont_unroll]] for (uint round = 0u; round < args.rounds; ++round) {
    barrier();
    const float value = kdart_shared[(i + 1u) % args.threads];
    barrier();
    kdart_shared[i] = value;
  }
  store_out(uint64_t(gl_WorkGroupID.x) * args.threads + i, uint(kdart_shared[i]));
}
