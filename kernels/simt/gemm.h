// The projections, C = A B^T + bias, for one row, a few rows and many. All three add in one order, so a row has the same
// bits in each: an output is 64 partial sums, partial l over the 8-element groups of the K axis with (group mod 64) = l in
// ascending order, and a tree adds l+32, l+16, .. l+1 to l. An empty partial is +0 and no partial is -0, so adding or
// leaving out an empty one makes no difference.
#pragma once

#include "kernels/simt/placement.h"

namespace kdart_simt {

constexpr u32 partial_count = 64;
constexpr u32 partial_stride = 65;  // odd, so that threads are kept off each other's shared memory banks

// Sums 64 partials in place.
KDART_DEVICE float add_partials(float* partials) {
  for (u32 step = partial_count / 2; step > 0; step /= 2) {
    for (u32 l = 0; l < step; ++l) partials[l] = partials[l] + partials[l + step];
  }
  return partials[0];
}

KDART_DEVICE kdart_bf16 finish_output(float sum, const kdart_bf16* bias, u64 n) {
  return round_to_bf16(bias != nullptr ? sum + widen(bias[n]) : sum);
}

// Partial l of `rows` x `outputs` dot products. Rows from `row_count` on are left 0; outputs from `n` on repeat the last.
template <u32 rows, u32 outputs>
KDART_DEVICE void sum_partial(float (&sums)[rows][outputs], u32 l, const kdart_bf16* a, u64 lda, u32 row_count,
                              const kdart_bf16* b, u64 first, u64 n, u32 k) {
  KDART_UNROLL
  for (u32 r = 0; r < rows; ++r) {
    KDART_UNROLL
    for (u32 o = 0; o < outputs; ++o) sums[r][o] = 0.0f;
  }
  for (u64 at = static_cast<u64>(l) * 8; at < k; at += partial_count * 8) {
    Eight weights[outputs];
    KDART_UNROLL
    for (u32 o = 0; o < outputs; ++o) {
      const u64 output = first + o < n ? first + o : n - 1;
      weights[o] = load_eight(b + output * k + at);
    }
    KDART_UNROLL
    for (u32 r = 0; r < rows; ++r) {
      if (r >= row_count) continue;
      const Eight inputs = load_eight(a + static_cast<u64>(r) * afresh(lda) + at);
      KDART_UNROLL
      for (u32 e = 0; e < 8; ++e) {
        KDART_UNROLL
        for (u32 o = 0; o < outputs; ++o) sums[r][o] = sums[r][o] + inputs.x[e] * weights[o].x[e];
      }
      KDART_UNROLL
      for (u32 o = 0; o < outputs; ++o) settle(sums[r][o]);
    }
  }
}

KDART_KERNEL(dense_gemv_bf16) {
  KDART_BLOCK(block);
  constexpr u32 outputs = 32;  // of one block
  constexpr u32 together = 4;  // of one thread, to hide the latency of the adds
  float* partials = block.shared();
  KDART_FOR_BLOCKS(row, y, m) {
    KDART_FOR_BLOCKS(tile, x, ceil_div(n, outputs)) {
      const u64 first = tile * outputs;
      block.barrier();  // the previous tile's partials are read
      KDART_FOR_THREADS(l, partial_count) {
        for (u32 o = 0; o < outputs; o += together) {
          float sums[1][together];
          sum_partial(sums, l, a + row * lda, 0, 1, b, first + o, n, k);
          KDART_UNROLL
          for (u32 i = 0; i < together; ++i) partials[(o + i) * partial_stride + l] = sums[0][i];
        }
      }
      block.barrier();
      KDART_FOR_THREADS(o, outputs) {
        if (first + o < n) {
          c[row * ldc + first + o] = finish_output(add_partials(partials + o * partial_stride), bias, first + o);
        }
      }
    }
  }
}

// One tile of outputs of dense_gemv_bf16_batchm for up to `rows` rows.
template <u32 rows>
KDART_DEVICE void sum_batch(const Block& block, float* partials, const kdart_bf16* a, u64 lda, u32 m,
                            const kdart_bf16* b, u64 first, u64 n, u32 k) {
  constexpr u32 outputs = 4;
  KDART_FOR_THREADS(l, partial_count) {
    float sums[rows][outputs];
    sum_partial(sums, l, a, lda, m, b, first, n, k);
    KDART_UNROLL
    for (u32 r = 0; r < rows; ++r) {
      if (r >= m) continue;
      KDART_UNROLL
      for (u32 o = 0; o < outputs; ++o) partials[(r * outputs + o) * partial_stride + l] = sums[r][o];
    }
  }
}

KDART_KERNEL(dense_gemv_bf16_batchm) {
  KDART_BLOCK(block);
  constexpr u32 outputs = 4;
  float* partials = block.shared();
  KDART_FOR_BLOCKS(tile, x, ceil_div(n, outputs)) {
    const u64 first = tile * outputs;
    block.barrier();  // the previous tile's partials are read
    if (m <= 4) {
      sum_batch<4>(block, partials, a, lda, m, b, first, n, k);
    } else if (m <= 8) {
      sum_batch<8>(block, partials, a, lda, m, b, first, n, k);
    } else {
      sum_batch<16>(block, partials, a, lda, m, b, first, n, k);
    }
    block.barrier();
    KDART_FOR_THREADS(i, m * outputs) {
      const u64 o = first + i % outputs;
      if (o < n)
        c[static_cast<u64>(i / outputs) * ldc + o] =
            finish_output(add_partials(partials + i * partial_stride), bias, o);
    }
  }
}

// The many-row kernel visits the partials in the order in which the tree takes them (0, 32, 16, 48, 8, ..: bits reversed).
// Then the tree is a binary counter: a finished partial is added to the pending sums as a carry ripples, and six pending
// sums per output are enough.
KDART_DEVICE u32 reverse_bits(u32 leaf) {
  u32 out = 0;
  KDART_UNROLL
  for (u32 i = 0; i < 6; ++i) out = out | (((leaf >> i) & 1u) << (5u - i));
  return out;
}

// Adds finished partial number `leaf` of the visit. After the 64th, `sum` is the result.
template <u32 rows>
KDART_DEVICE void ripple(Lanes<rows> (&pending)[6], Lanes<rows>& sum, u32 leaf) {
  bool carry = true;
  KDART_UNROLL
  for (u32 level = 0; level < 6; ++level) {
    if (carry && ((leaf >> level) & 1u) != 0) {
      sum.add(pending[level]);
    } else if (carry) {
      pending[level] = sum;
      carry = false;
    }
  }
}

// Where a visit of the K axis stands: round j of partial reverse_bits(leaf) is group reverse_bits(leaf) + 64 j.
struct Visit {
  u32 leaf, round;

  KDART_DEVICE u32 group() const { return reverse_bits(leaf) + partial_count * round; }
  KDART_DEVICE void next(u32 rounds) {
    if (++round == rounds) {
      round = 0;
      ++leaf;
    }
  }
};

constexpr u32 gemm_stage = 16384 / (sizeof(float) * 8 * gemm_rows);  // groups in shared memory at a time

// Brings the next groups of `gemm_rows` rows of A into shared memory as f32 [group][8][row]. Rows from m on become 0.
KDART_DEVICE void load_stage(const Block& block, float* tile, Visit visit, u32 groups, u32 rounds, const kdart_bf16* a,
                             u64 lda, u64 first_row, u32 m) {
  for (u32 g = 0; g < gemm_stage && visit.leaf < partial_count; ++g, visit.next(rounds)) {
    if (visit.group() >= groups) continue;
    KDART_FOR_THREADS(r, gemm_rows) {
      Eight inputs = {};
      if (first_row + r < m) inputs = load_eight(a + (first_row + r) * lda + static_cast<u64>(visit.group()) * 8);
      KDART_UNROLL
      for (u32 e = 0; e < 8; ++e) tile[(g * 8 + e) * gemm_rows + r] = inputs.x[e];
    }
  }
}

// A block makes 64 outputs of gemm_rows rows; a thread one output of each row.
KDART_KERNEL(dense_gemm_bf16) {
  KDART_BLOCK(block);
  float* tile = block.shared();
  const u32 groups = k / 8;
  const u32 rounds = static_cast<u32>(ceil_div(groups, partial_count));
  KDART_FOR_BLOCKS(row_tile, y, ceil_div(m, gemm_rows)) {
    const u64 first_row = row_tile * gemm_rows;
    KDART_FOR_BLOCKS(column_tile, x, ceil_div(n, 64)) {
      const u64 column = column_tile * 64 + block.thread();
      const kdart_bf16* weight = b + (column < n ? column : n - 1) * k;
      Lanes<gemm_rows> pending[6] = {}, sum;
      sum.clear();
      Visit visit = {0, 0};
      while (visit.leaf < partial_count) {
        block.barrier();  // the previous stage is read
        load_stage(block, tile, visit, groups, rounds, a, lda, first_row, m);
        block.barrier();
        for (u32 g = 0; g < gemm_stage && visit.leaf < partial_count; ++g) {
          if (visit.group() < groups) {
            const Eight weights = load_eight(weight + static_cast<u64>(visit.group()) * 8);
            const float* inputs = shared_in_thread(tile + g * 8 * gemm_rows);
            KDART_UNROLL
            for (u32 e = 0; e < 8; ++e) sum.multiply_add(inputs + e * gemm_rows, weights.x[e]);
          }
          const u32 leaf = visit.leaf;
          visit.next(rounds);
          if (visit.leaf != leaf) {
            ripple(pending, sum, leaf);
            if (visit.leaf < partial_count) sum.clear();
          }
        }
      }
      KDART_UNROLL
      for (u32 r = 0; r < gemm_rows; ++r) {
        if (column < n && first_row + r < m) {
          c[(first_row + r) * ldc + column] = finish_output(sum.get(r), bias, column);
        }
      }
    }
  }
}

}  // namespace kdart_simt
