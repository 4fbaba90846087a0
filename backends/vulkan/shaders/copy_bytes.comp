// Copies `height` rows of `width` bytes: any offsets, any pitches. For memory that no buffer of ours covers.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "words.glsl"

layout(push_constant, std430) uniform Arguments {
  uint64_t dst, src;
  uint64_t dst_pitch, src_pitch;
  uint64_t width, height;
}
args;

void main() {
  const uint64_t stride = 256ul * uint64_t(gl_NumWorkGroups.x);
  for (uint64_t row = gl_WorkGroupID.y; row < args.height; row += gl_NumWorkGroups.y) {
    const uint64_t begin = args.dst + row * args.dst_pitch;
    const uint64_t end = begin + args.width;
    const uint64_t source = args.src + row * args.src_pitch;
    for (uint64_t at = (begin & ~3ul) + 4ul * uint64_t(gl_GlobalInvocationID.x); at < end; at += stride) {
      const uint mask = mask_of(at, begin, end);
      // The source bytes of this word; they begin before `source` in the first word. Only words that hold a byte of the
      // source are read.
      const uint64_t from = source + at - begin;
      const uint shift = 8u * uint(from & 3ul);
      const uint64_t first = from & ~3ul;
      uint value = 0u;
      if (first + 4ul > source) value = word_at(first).value >> shift;
      if (shift != 0u && first + 4ul < source + args.width) value |= word_at(first + 4ul).value << (32u - shift);
      store_masked(at, value, mask);
    }
  }
}
