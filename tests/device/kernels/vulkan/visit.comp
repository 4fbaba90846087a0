// Every thread adds 1 to a counter of its own.
#version 460
#include "kernels/vulkan/visit_arguments.glsl"
//
#include "place.glsl"

void main() {
  const uint i = thread_number();
  if (i < args.count) store_counts(i, load_counts(i) + 1u);
}
