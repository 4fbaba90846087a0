// The chunked form of the recurrence for prefill: chunk_prepare does what is independent of the state for all chunks at
// once, chunk_scan then takes the chunks of a head in order.
//
// Positions from `tokens` on are replaced by a select, never multiplied away: what memory holds there may be a NaN.
// Exponents are differences of cumulative gates taken so that they are never positive.
#pragma once

#include "kernels/simt/math.h"
#include "kernels/simt/placement.h"

namespace kdart_simt {

// The tokens of one chunk: which are there, and where their rows lie in [tokens, heads, dim].
struct ChunkRows {
  u64 first;   // token
  u32 valid;   // rows that are there
  u64 stride;  // from one token's row to the next

  KDART_DEVICE u64 at(u32 i) const { return (first + i) * stride; }
};

KDART_DEVICE ChunkRows chunk_rows(u64 index, u32 chunk, u32 tokens, u64 stride) {
  const u64 first = index * chunk;
  const u64 left = tokens - first;
  return {first, left < chunk ? static_cast<u32>(left) : chunk, stride};
}

KDART_DEVICE ChunkRows afresh(const ChunkRows& rows) {
  return {afresh(rows.first), afresh(rows.valid), afresh(rows.stride)};
}

// sum_c a_c b_c exp(ga_c - gb_c), c ascending. Eight terms at a time, so that host compilers vectorise all but the adds.
KDART_DEVICE float decayed_dot(const float* a, const float* b, const float* ga, const float* gb, u32 dim) {
  float sum = 0.0f;
  for (u32 c = 0; c < dim; c += 8) {
    float terms[8];
    KDART_UNROLL
    for (u32 e = 0; e < 8; ++e) terms[e] = a[c + e] * b[c + e] * exp(ga[c + e] - gb[c + e]);
    KDART_UNROLL
    for (u32 e = 0; e < 8; ++e) sum = sum + terms[e];
  }
  return sum;
}

// One column of (I - A)^-1 X by forward substitution, A strictly lower triangular. `right_side(i)` is the column of X,
// `out` the result's, rows `stride` apart.
template <u32 C, class RightSide>
KDART_DEVICE void substitute(const float* a, RightSide right_side, float* out, u32 stride) {
  float x[C];
  const float* rows = shared_in_thread(a);
  const u32 pitch = afresh(stride);
  KDART_UNROLL
  for (u32 i = 0; i < C; ++i) {
    x[i] = right_side(i);
    KDART_UNROLL
    for (u32 j = 0; j < i; ++j) x[i] = x[i] + rows[i * C + j] * x[j];
    out[i * pitch] = x[i];
    KDART_SCHEDULING_FENCE();
  }
}

// What chunk_prepare reads for one head, and the tiles that it writes for one chunk and head.
struct PrepareChunk {
  const float* k;
  const float* v;
  const float* gate;
  const float* beta;
  float* gc;  // [C, key_dim]
  float* u;   // [C, value_dim]
  float* w;   // [C, key_dim]
};

template <u32 C>
KDART_DEVICE void prepare_chunk(const Block& block, const PrepareChunk& at, const ChunkRows& keys,
                                const ChunkRows& values, const ChunkRows& betas, u32 key_dim, u32 value_dim) {
  float* cumulative = block.shared();   // [C, key_dim]
  float* a = cumulative + C * key_dim;  // [C, C]
  float* beta_rows = a + C * C;         // [C]
  block.barrier();                      // the previous chunk's values are read
  KDART_FOR_THREADS(c, key_dim) {
    const ChunkRows rows = afresh(keys);
    const u32 pitch = afresh(key_dim);
    float sum = 0.0f;
    for (u32 i = 0; i < C; ++i) {
      sum = sum + (i < rows.valid ? at.gate[rows.at(i) + c] : 0.0f);
      cumulative[i * pitch + c] = sum;
      at.gc[i * pitch + c] = sum;
    }
  }
  KDART_FOR_THREADS(i, C) beta_rows[i] = i < betas.valid ? at.beta[betas.at(i)] : 0.0f;
  block.barrier();
  KDART_FOR_THREADS(pair, C * (C - 1) / 2) {
    u32 i = 1, j = pair;
    while (j >= i) j -= i++;
    float dot = 0.0f;
    if (i < keys.valid) {
      dot = decayed_dot(at.k + keys.at(i), at.k + keys.at(j), cumulative + i * key_dim, cumulative + j * key_dim,
                        key_dim);
    }
    a[i * C + j] = -(beta_rows[i] * dot);
  }
  block.barrier();
  KDART_FOR_THREADS(c, value_dim) {
    const ChunkRows rows = afresh(values);
    const float* betas_here = shared_in_thread(beta_rows);
    const auto beta_v = [&](u32 i) { return i < rows.valid ? betas_here[i] * at.v[rows.at(i) + c] : 0.0f; };
    substitute<C>(a, beta_v, at.u + c, value_dim);
  }
  KDART_FOR_THREADS(c, key_dim) {
    const ChunkRows rows = afresh(keys);
    const u32 pitch = afresh(key_dim);
    const float* betas_here = shared_in_thread(beta_rows);
    const auto beta_k = [&](u32 i) {
      return i < rows.valid ? betas_here[i] * (at.k[rows.at(i) + c] * exp(cumulative[i * pitch + c])) : 0.0f;
    };
    substitute<C>(a, beta_k, at.w + c, key_dim);
  }
}

KDART_KERNEL(chunk_prepare) {
  KDART_BLOCK(block);
  const u32 chunks = ceil_div(tokens, chunk);
  const PrepareChunk all = {in_thread(k),  in_thread(v), in_thread(gate), in_thread(beta),
                            in_thread(gc), in_thread(u), in_thread(w)};
  KDART_FOR_BLOCKS(h, y, value_heads) {
    const u64 key_head = key_head_of(h, key_heads, value_heads);
    KDART_FOR_BLOCKS(n, x, chunks) {
      const ChunkRows keys = chunk_rows(n, chunk, tokens, static_cast<u64>(key_heads) * key_dim);
      const ChunkRows values = chunk_rows(n, chunk, tokens, static_cast<u64>(value_heads) * value_dim);
      const ChunkRows betas = chunk_rows(n, chunk, tokens, value_heads);
      const u64 tile = (h * chunks + n) * chunk;
      const PrepareChunk at = {
          all.k + key_head * key_dim, all.v + h * value_dim,    all.gate + key_head * key_dim, all.beta + h,
          all.gc + tile * key_dim,    all.u + tile * value_dim, all.w + tile * key_dim};
      const u32 keys_wide = afresh(key_dim), values_wide = afresh(value_dim);
      if (chunk == 16) {
        prepare_chunk<16>(block, at, keys, values, betas, keys_wide, values_wide);
      } else {
        prepare_chunk<32>(block, at, keys, values, betas, keys_wide, values_wide);
      }
    }
  }
}

// What chunk_scan reads of one chunk and head, and writes: pointers to the head's first column.
struct ScanChunk {
  const float* q;
  const float* k;
  const float* gc;  // [C, key_dim]
  const float* u;   // [C, value_dim]
  const float* w;   // [C, key_dim]
  float* out;
  ChunkRows keys, values;
};

// One chunk of one head; the thread owns column block.thread() of the state.
template <u32 C>
KDART_DEVICE void scan_chunk(const Block& block, const ScanChunk& at, float* state, u32 key_dim, u32 value_dim,
                             float scale) {
  float* first = block.shared();        // [key_dim, C]: q exp(gc); then exp(gc_last)
  float* second = first + C * key_dim;  // [key_dim, C]: w; then k exp(gc_last - gc)
  float* p = second + C * key_dim;      // [C, C]: tril(q k^T exp(gc_i - gc_j))
  const u32 column = block.thread();
  const u32 valid = at.keys.valid;

  block.barrier();  // the previous chunk's values are read
  KDART_FOR_THREADS(c, key_dim) {
    const ChunkRows rows = afresh(at.keys);
    const u32 pitch = afresh(key_dim);
    for (u32 i = 0; i < C; ++i) {
      first[c * C + i] = i < rows.valid ? at.q[rows.at(i) + c] * exp(at.gc[i * pitch + c]) : 0.0f;
      second[c * C + i] = at.w[i * pitch + c];
    }
  }
  KDART_FOR_THREADS(pair, C * (C + 1) / 2) {
    u32 i = 0, j = pair;
    while (j > i) j -= ++i;
    float dot = 0.0f;
    if (i < valid) {
      dot = decayed_dot(at.q + at.keys.at(i), at.k + at.keys.at(j), at.gc + i * key_dim, at.gc + j * key_dim, key_dim);
    }
    p[i * C + j] = dot;
  }
  block.barrier();

  float v_new[C] = {};  // v' of this column
  if (column < value_dim) {
    const ChunkRows rows = afresh(at.values);
    const u32 pitch = afresh(value_dim);
    Lanes<C> from_w, from_q;
    from_w.clear();
    from_q.clear();
    for (u32 c = 0; c < key_dim; ++c) {
      const float s = state[static_cast<u64>(c) * value_dim + column];
      from_w.multiply_add(second + c * C, s);
      from_q.multiply_add(first + c * C, s);
    }
    KDART_UNROLL
    for (u32 i = 0; i < C; ++i) v_new[i] = at.u[i * pitch + column] - from_w.get(i);
    KDART_UNROLL
    for (u32 i = 0; i < C; ++i) {
      const float* row = shared_in_thread(p + i * C);
      float inside = 0.0f;
      KDART_UNROLL
      for (u32 j = 0; j <= i; ++j) inside = inside + row[j] * v_new[j];
      if (i < rows.valid) {
        at.out[rows.at(i) + column] = scale * (from_q.get(i) + inside);
      }
    }
  }
  block.barrier();

  const float* last = at.gc + (C - 1) * key_dim;
  KDART_FOR_THREADS(c, key_dim) {
    first[c] = exp(last[c]);
    const ChunkRows rows = afresh(at.keys);
    const u32 pitch = afresh(key_dim);
    for (u32 i = 0; i < C; ++i) {
      second[c * C + i] = i < rows.valid ? at.k[rows.at(i) + c] * exp(last[c] - at.gc[i * pitch + c]) : 0.0f;
    }
  }
  block.barrier();
  if (column < value_dim) {
    for (u32 c = 0; c < key_dim; ++c) {
      float s = first[c] * state[static_cast<u64>(c) * value_dim + column];
      KDART_UNROLL
      for (u32 i = 0; i < C; ++i) s = s + second[c * C + i] * v_new[i];
      state[static_cast<u64>(c) * value_dim + column] = s;
    }
  }
}

KDART_KERNEL(chunk_scan) {
  KDART_BLOCK(block);
  KDART_FOR_BLOCKS(h, x, value_heads) {
    const u64 key_head = key_head_of(h, key_heads, value_heads);
    for (u64 n = 0; n < chunks; ++n) {
      const u64 tile = (h * chunks + n) * chunk;
      const ScanChunk at = {in_thread(q + key_head * key_dim),
                            in_thread(k + key_head * key_dim),
                            in_thread(gc + tile * key_dim),
                            in_thread(u + tile * value_dim),
                            in_thread(w + tile * key_dim),
                            in_thread(out + h * value_dim),
                            chunk_rows(n, chunk, tokens, static_cast<u64>(key_heads) * key_dim),
                            chunk_rows(n, chunk, tokens, static_cast<u64>(value_heads) * value_dim)};
      float* matrix = in_thread(state + h * key_dim * value_dim);
      const u32 keys_wide = afresh(key_dim), values_wide = afresh(value_dim);
      if (chunk == 16) {
        scan_chunk<16>(block, at, matrix, keys_wide, values_wide, scale);
      } else {
        scan_chunk<32>(block, at, matrix, keys_wide, values_wide, scale);
      }
    }
  }
}

}  // namespace kdart_simt
