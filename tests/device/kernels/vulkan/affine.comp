// data[i] = data[i] * factor + term for one i per thread.
#version 460
#include "kernels/vulkan/affine_arguments.glsl"
//
#include "place.glsl"

void main() {
  const uint i = thread_number();
  if (i < args.count) store_data(i, load_data(i) * args.factor + args.term);
}
