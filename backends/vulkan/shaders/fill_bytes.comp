// Fills [dst, dst + bytes) with a repeated pattern: any offset, any length.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "words.glsl"

layout(push_constant, std430) uniform Arguments {
  uint64_t dst;
  uint64_t bytes;
  uint pattern;  // of the word at an address that is a multiple of 4
}
args;

void main() {
  const uint64_t end = args.dst + args.bytes;
  const uint64_t stride = 256ul * uint64_t(gl_NumWorkGroups.x);  // 64 words per group
  uint64_t at = (args.dst & ~3ul) + 4ul * uint64_t(gl_GlobalInvocationID.x);
  for (; at < end; at += stride) store_masked(at, args.pattern, mask_of(at, args.dst, end));
}
