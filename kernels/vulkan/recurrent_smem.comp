// The recurrence with v_per_block columns of the state in shared memory, read once and written once.
#version 460
#include "kernels/vulkan/recurrent_smem_arguments.glsl"
//
#include "dialect.glsl"
#include "math.glsl"

#define KDART_COLUMN uint
float get_column(uint at) {
  return kdart_shared[at];
}
void set_column(uint at, float s) {
  kdart_shared[at] = s;
}
#include "recurrent.glsl"

// A thread copies the columns it steps, so no barrier is needed. An odd stride keeps threads off each other's shared
// memory banks.
float step_value(uint64_t matrix, uint i, float v, float beta) {
  const uint key_dim = args.key_dim;
  const uint column = 3u * key_dim + i * (key_dim + 1u);
  uint64_t at = matrix;
  [[dont_unroll]] for (uint c = 0u; c < key_dim; c += kdart_at_once) {
    float s[kdart_at_once];
    [[unroll]] for (uint e = 0u; e < kdart_at_once; ++e, at += args.value_dim) s[e] = load_state(at);
    [[unroll]] for (uint e = 0u; e < kdart_at_once; ++e) kdart_shared[column + c + e] = s[e];
  }
  const float sum = step_column(column, 1u, key_dim, v, beta);
  at = matrix;
  [[dont_unroll]] for (uint c = 0u; c < key_dim; ++c, at += args.value_dim) store_state(at, kdart_shared[column + c]);
  return sum;
}

void main() {
  step_heads(args.v_per_block);
}
