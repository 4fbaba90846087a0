// The recurrence with its state in memory.
#version 460
#include "kernels/vulkan/recurrent_arguments.glsl"
//
#include "dialect.glsl"
#include "math.glsl"

#define KDART_COLUMN uint64_t
float get_column(uint64_t at) {
  return load_state(at);
}
void set_column(uint64_t at, float s) {
  store_state(at, s);
}
#include "recurrent.glsl"

float step_value(uint64_t matrix, uint i, float v, float beta) {
  return step_column(matrix, args.value_dim, args.key_dim, v, beta);
}

void main() {
  step_heads(args.value_dim);
}
