// The recurrence, one token per row. A thread owns columns of the state; both kernels step a column with the same code,
// so they give the same bits.
#pragma once

#include "kernels/simt/math.h"

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

KDART_KERNEL(recurrent) {
  KDART_BLOCK(block);
  float* shared = block.shared();
  KDART_FOR_BLOCKS(row, z, rows) {
    const u32 slot = slots != nullptr ? slots[row] : static_cast<u32>(row);
    KDART_FOR_BLOCKS(h, x, value_heads) {
      float* out_head = out + row * out_stride + h * value_dim;
      if (slot >= slot_count) {  // the same for every thread of the block
        KDART_FOR_THREADS(i, value_dim) out_head[i] = 0.0f;
        continue;
      }
      const u64 key = key_head_of(h, key_heads, value_heads) * key_dim;
      load_head(block, shared, key_dim, q + row * q_stride + key, k + row * k_stride + key,
                gate + row * gate_stride + key);
      const float* v_head = v + row * v_stride + h * value_dim;
      const float beta_head = beta[row * beta_stride + h];
      float* matrix = state + slot * slot_stride + h * key_dim * value_dim;
      KDART_FOR_THREADS(i, value_dim) {
        out_head[i] = step_column(matrix + i, value_dim, shared, shared + key_dim, shared + 2 * key_dim, key_dim,
                                  v_head[i], beta_head) *
                      scale;
      }
    }
  }
}

KDART_KERNEL(recurrent_smem) {
  KDART_BLOCK(block);
  float* shared = block.shared();
  float* columns = shared + 3 * key_dim;
  KDART_FOR_BLOCKS(row, z, rows) {
    const u32 slot = slots != nullptr ? slots[row] : static_cast<u32>(row);
    KDART_FOR_BLOCKS(h, x, value_heads) {
      float* out_head = out + row * out_stride + h * value_dim;
      if (slot >= slot_count) {  // the same for every thread of the block
        KDART_FOR_BLOCKS(part, y, value_dim / v_per_block) {
          KDART_FOR_THREADS(i, v_per_block) out_head[part * v_per_block + i] = 0.0f;
        }
        continue;
      }
      const u64 key = key_head_of(h, key_heads, value_heads) * key_dim;
      load_head(block, shared, key_dim, q + row * q_stride + key, k + row * k_stride + key,
                gate + row * gate_stride + key);
      const float* v_head = v + row * v_stride + h * value_dim;
      const float beta_head = beta[row * beta_stride + h];
      float* matrix = state + slot * slot_stride + h * key_dim * value_dim;
      KDART_FOR_BLOCKS(part, y, value_dim / v_per_block) {
        KDART_FOR_THREADS(i, v_per_block) {
          // A thread copies the columns it steps, so no barrier is needed. An odd stride keeps threads off each other's
          // shared memory banks.
          const u64 at = part * v_per_block + i;
          float* column = columns + static_cast<u64>(i) * (key_dim + 1);
          for (u32 c = 0; c < key_dim; ++c) column[c] = matrix[static_cast<u64>(c) * value_dim + at];
          out_head[at] =
              step_column(column, 1, shared, shared + key_dim, shared + 2 * key_dim, key_dim, v_head[at], beta_head) *
              scale;
          for (u32 c = 0; c < key_dim; ++c) matrix[static_cast<u64>(c) * value_dim + at] = column[c];
        }
      }
    }
  }
}

}  // namespace kdart_simt
