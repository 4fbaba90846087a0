// Every thread writes its ids and dimensions: 12 numbers.
#version 460
#include "kernels/vulkan/ids_arguments.glsl"
//
#include "place.glsl"

void main() {
  const uint i = thread_number();
  if (i >= args.count) return;
  for (uint d = 0u; d < 3u; ++d) {
    store_out(12ul * i + d, gl_WorkGroupID[d]);
    store_out(12ul * i + 3u + d, gl_LocalInvocationID[d]);
    store_out(12ul * i + 6u + d, gl_NumWorkGroups[d]);
    store_out(12ul * i + 9u + d, gl_WorkGroupSize[d]);
  }
}
