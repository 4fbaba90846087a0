// C = A B^T + bias for many rows: a block makes 64 outputs of 8 rows, a thread one output of each row.
//
// The partials are visited in the order in which the tree takes them (0, 32, 16, 48, 8, ..: bits reversed). Then the
// tree is a binary counter: a finished partial is added to the pending sums as a carry ripples, and six pending sums
// per output are enough.
#version 460
#include "kernels/vulkan/dense_gemm_bf16_arguments.glsl"
//
#include "dialect.glsl"
//
#include "gemm.glsl"

const uint rows = 8u;
const uint columns = 64u;
const uint stage = 16384u / (4u * 8u * rows);  // groups in shared memory at a time
const uint levels = 6u;                         // 2^levels = partial_count

struct Sums {
  vec4 low, high;  // a component per row
};

// Where a visit of the K axis stands at `step`: in round (step mod rounds) of its partial.
uint group_at(uint step, uint rounds) {
  const uint leaf = step / rounds;
  return (bitfieldReverse(leaf) >> (32u - levels)) + partial_count * (step - leaf * rounds);
}

// Brings the next groups of this block's rows of A into shared memory as f32 [group][8][row]. Rows from m on become 0.
void load_stage(uint first_step, uint steps, uint rounds, uint64_t first_row) {
  const uint groups = args.k / 8u;
  KDART_FOR_THREADS(i, stage * rows) {
    const uint g = i / rows, r = i % rows;
    const uint group = group_at(first_step + g, rounds);
    if (first_step + g >= steps || group >= groups) continue;
    uvec4 words = uvec4(0u);
    if (first_row + r < args.m) words = load_a_words((first_row + r) * args.lda + uint64_t(group) * 8ul);
    const vec4 even = widen_even(words), odd = widen_odd(words);
    [[unroll]] for (uint e = 0u; e < 4u; ++e) {
      kdart_shared[(g * 8u + 2u * e) * rows + r] = even[e];
      kdart_shared[(g * 8u + 2u * e + 1u) * rows + r] = odd[e];
    }
  }
}

// `sums` plus one element of each of the 8 rows, from `at` on in shared memory, times `weight`.
Sums add_products(Sums sums, uint at, float weight) {
  const vec4 low = vec4(kdart_shared[at], kdart_shared[at + 1u], kdart_shared[at + 2u], kdart_shared[at + 3u]);
  const vec4 high = vec4(kdart_shared[at + 4u], kdart_shared[at + 5u], kdart_shared[at + 6u], kdart_shared[at + 7u]);
  precise vec4 low_sum = sums.low + low * vec4(weight);
  precise vec4 high_sum = sums.high + high * vec4(weight);
  return Sums(low_sum, high_sum);
}

Sums add_group(Sums sums, uint at, uvec4 words) {
  const vec4 even = widen_even(words), odd = widen_odd(words);
  [[unroll]] for (uint e = 0u; e < 4u; ++e) {
    sums = add_products(sums, at + 2u * e * rows, even[e]);
    sums = add_products(sums, at + (2u * e + 1u) * rows, odd[e]);
  }
  return sums;
}

Sums pending[levels];

// Adds finished partial number `leaf` of the visit; after the 64th, the result is the whole sum.
Sums ripple(Sums sums, uint leaf) {
  bool carry = true;
  [[unroll]] for (uint level = 0u; level < levels; ++level) {
    if (carry && ((leaf >> level) & 1u) != 0u) {
      precise vec4 low = pending[level].low + sums.low;
      precise vec4 high = pending[level].high + sums.high;
      sums = Sums(low, high);
    } else if (carry) {
      pending[level] = sums;
      carry = false;
    }
  }
  return sums;
}

// One output of each row, from `weight` on in B.
Sums sum_column(uint64_t weight, uint64_t first_row) {
  const uint groups = args.k / 8u;
  const uint rounds = (groups + partial_count - 1u) / partial_count;
  const uint steps = partial_count * rounds;
  Sums sums = Sums(vec4(0.0), vec4(0.0));
  uint leaf = 0u, left = rounds;  // of this partial
  [[dont_unroll]] for (uint first_step = 0u; first_step < steps; first_step += stage) {
    barrier();  // the previous stage is read
    load_stage(first_step, steps, rounds, first_row);
    barrier();
    [[dont_unroll]] for (uint g = 0u; g < stage && first_step + g < steps; ++g) {
      const uint group = group_at(first_step + g, rounds);
      if (group < groups) {
        sums = add_group(sums, g * 8u * rows, load_b_words(weight + uint64_t(group) * 8ul));
      }
      if (--left == 0u) {
        sums = ripple(sums, leaf);
        left = rounds;
        if (++leaf < partial_count) sums = Sums(vec4(0.0), vec4(0.0));
      }
    }
  }
  return sums;
}

void main() {
  const uint64_t row_tiles = (uint64_t(args.m) + rows - 1u) / rows;
  const uint64_t column_tiles = (uint64_t(args.n) + columns - 1u) / columns;
  KDART_FOR_BLOCKS(row_tile, y, row_tiles) {
    const uint64_t first_row = row_tile * rows;
    KDART_FOR_BLOCKS(column_tile, x, column_tiles) {
      const uint64_t column = column_tile * columns + KDART_THREAD;
      const Sums sums = sum_column((column < args.n ? column : args.n - 1ul) * args.k, first_row);
      [[unroll]] for (uint r = 0u; r < rows; ++r) {
        if (column < args.n && first_row + r < args.m) {
          store_output(r < 4u ? sums.low[r % 4u] : sums.high[r % 4u], (first_row + r) * args.ldc + column, column);
        }
      }
    }
  }
}
