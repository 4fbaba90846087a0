// Copies `height` rows of `width` bytes, everything a multiple of 16: between places in device memory, where some drivers'
// vkCmdCopyBuffer runs at a fraction of the memory's speed.
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

layout(local_size_x = 256) in;

layout(buffer_reference, std430, buffer_reference_align = 16) buffer Vector {
  uvec4 value;
};

layout(push_constant, std430) uniform Arguments {
  uint64_t dst, src;
  uint64_t dst_pitch, src_pitch;
  uint64_t width, height;
}
args;

void main() {
  const uint64_t stride = 4096ul * uint64_t(gl_NumWorkGroups.x);
  for (uint64_t row = gl_WorkGroupID.y; row < args.height; row += gl_NumWorkGroups.y) {
    const uint64_t to = args.dst + row * args.dst_pitch;
    const uint64_t from = args.src + row * args.src_pitch;
    for (uint64_t at = 16ul * uint64_t(gl_GlobalInvocationID.x); at < args.width; at += stride) {
      Vector(to + at).value = Vector(from + at).value;
    }
  }
}
