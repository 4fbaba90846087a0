// Cannot do without scratch memory: more values per thread than there are registers, at indices known only when it runs.
#version 460
#extension GL_EXT_buffer_reference : require

layout(local_size_x = 64) in;
layout(buffer_reference, buffer_reference_align = 4, std430) buffer Floats {
  float x[];
};
layout(push_constant) uniform Arguments {
  Floats data;
  uint count;
}
args;

void main() {
  float values[1024];
  for (uint i = 0; i < args.count; ++i) values[i] = args.data.x[i * 64 + gl_LocalInvocationID.x];
  for (uint i = 0; i < args.count; ++i) args.data.x[i] = values[uint(values[i]) & 1023u];
}
