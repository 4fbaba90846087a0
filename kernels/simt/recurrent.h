// The recurrence, one token per row. A thread owns columns of the state; both kernels step a column with the same code,
// so they give the same bits.
#pragma once

#include "kernels/simt/math.h"
#include "kernels/simt/placement.h"

namespace kdart_simt {

// S = decay S; d = beta (v - S^T k); S = S + k d^T; returns S^T q, all for one column. Sums ascend over the key index.
KDART_DEVICE float step_column(float* column, u32 stride, const float* q, const float* k, const float* decay,
                               u32 key_dim, float v, float beta) {
  float seen = 0.0f;
  for (u32 c = 0; c < key_dim; ++c) {
    const float s = column[static_cast<u64>(c) * stride] * decay[c];
    column[static_cast<u64>(c) * stride] = s;
    seen = seen + s * k[c];
  }
  const float d = beta * (v - seen);
  float out = 0.0f;
  for (u32 c = 0; c < key_dim; ++c) {
    const float s = column[static_cast<u64>(c) * stride] + k[c] * d;
    column[static_cast<u64>(c) * stride] = s;
    out = out + s * q[c];
  }
  return out;
}

// What both kernels are given, as the contract names it.
struct Recurrence {
  const float* q;
  const float* k;
  const float* v;
  const float* gate;
  const float* beta;
  float* state;
  float* out;
  const u32* slots;
  u64 slot_stride;
  u32 slot_count, rows, key_heads, value_heads, key_dim, value_dim;
  float scale;
  u32 q_stride, k_stride, v_stride, gate_stride, beta_stride, out_stride;
};

// Brings one head's q, k and exp(gate) into shared memory. Every thread of the block calls it.
KDART_DEVICE void load_head(const Block& block, float* shared, u32 key_dim, const float* q, const float* k,
                            const float* gate) {
  block.barrier();  // the previous head's values are read
  KDART_FOR_THREADS(c, key_dim) {
    shared[c] = q[c];
    shared[key_dim + c] = k[c];
    shared[2 * key_dim + c] = exp(gate[c]);
  }
  block.barrier();
}

// What both kernels do around a step: every head of every row, `part_size` values at a time. step(column, i, v, beta) steps
// the column of state at `column`, the i-th of its part, and returns its S^T q.
template <class Step>
KDART_DEVICE void step_heads(const Block& block, float* shared, const Recurrence& at, u32 part_size, Step step) {
  KDART_FOR_BLOCKS(row, z, at.rows) {
    const u32 slot = at.slots != nullptr ? at.slots[row] : static_cast<u32>(row);
    KDART_FOR_BLOCKS(h, x, at.value_heads) {
      float* out = at.out + row * at.out_stride + h * at.value_dim;
      if (slot >= at.slot_count) {  // a padding row, for every thread of the block
        KDART_FOR_BLOCKS(part, y, at.value_dim / part_size) {
          KDART_FOR_THREADS(i, part_size) out[part * part_size + i] = 0.0f;
        }
        continue;
      }
      const u64 key = key_head_of(h, at.key_heads, at.value_heads) * at.key_dim;
      load_head(block, shared, at.key_dim, at.q + row * at.q_stride + key, at.k + row * at.k_stride + key,
                at.gate + row * at.gate_stride + key);
      const float* v = at.v + row * at.v_stride + h * at.value_dim;
      const float beta = at.beta[row * at.beta_stride + h];
      float* matrix = at.state + slot * at.slot_stride + h * at.key_dim * at.value_dim;
      KDART_FOR_BLOCKS(part, y, at.value_dim / part_size) {
        KDART_FOR_THREADS(i, part_size) {
          const u64 value = part * part_size + i;
          out[value] = step(matrix + value, i, v[value], beta) * at.scale;
        }
      }
    }
  }
}

KDART_KERNEL(recurrent) {
  KDART_BLOCK(block);
  float* shared = block.shared();
  const Recurrence at = {in_thread(q),   in_thread(k), in_thread(v), in_thread(gate), beta,     in_thread(state),
                         in_thread(out), slots,        slot_stride,  slot_count,      rows,     key_heads,
                         value_heads,    key_dim,      value_dim,    scale,           q_stride, k_stride,
                         v_stride,       gate_stride,  beta_stride,  out_stride};
  step_heads(block, shared, at, value_dim, [&](float* column, u32, float v_i, float beta_h) {
    return step_column(column, value_dim, shared, shared + key_dim, shared + 2 * key_dim, key_dim, v_i, beta_h);
  });
}

KDART_KERNEL(recurrent_smem) {
  KDART_BLOCK(block);
  float* shared = block.shared();
  const Recurrence at = {in_thread(q),   in_thread(k), in_thread(v), in_thread(gate), beta,     in_thread(state),
                         in_thread(out), slots,        slot_stride,  slot_count,      rows,     key_heads,
                         value_heads,    key_dim,      value_dim,    scale,           q_stride, k_stride,
                         v_stride,       gate_stride,  beta_stride,  out_stride};
  step_heads(block, shared, at, v_per_block, [&](float* matrix, u32 i, float v_i, float beta_h) {
    // A thread copies the columns it steps, so no barrier is needed. An odd stride keeps threads off each other's shared
    // memory banks.
    float* column = shared + 3 * key_dim + static_cast<u64>(i) * (key_dim + 1);
    for (u32 c = 0; c < key_dim; ++c) column[c] = matrix[static_cast<u64>(c) * value_dim];
    const float out_i = step_column(column, 1, shared, shared + key_dim, shared + 2 * key_dim, key_dim, v_i, beta_h);
    for (u32 c = 0; c < key_dim; ++c) matrix[static_cast<u64>(c) * value_dim] = column[c];
    return out_i;
  });
}

}  // namespace kdart_simt
