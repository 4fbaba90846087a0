// The recurrence, one token per row. A thread owns columns of the state; both kernels step a column with the same
// code, so they give the same bits. Shared memory begins with one head's q, k and exp(gate). The kernel that includes
// this says where a column lies:
//
//   KDART_COLUMN                           type of an index into it
//   float get_column(KDART_COLUMN)
//   void set_column(KDART_COLUMN, float)

const uint kdart_at_once = 8u;  // elements of a column in flight; divides key_dim

// S = decay S; d = beta (v - S^T k); S = S + k d^T; returns S^T q, all for one column of elements `stride` apart. Sums
// ascend over the key index. decay S is computed twice, which costs less than to write it and read it again.
float step_column(KDART_COLUMN column, KDART_COLUMN stride, uint key_dim, float v, float beta) {
  precise float s[kdart_at_once];
  precise float seen = 0.0;
  KDART_COLUMN at = column;
  [[dont_unroll]] for (uint c = 0u; c < key_dim; c += kdart_at_once) {
    [[unroll]] for (uint i = 0u; i < kdart_at_once; ++i, at += stride) s[i] = get_column(at);
    [[unroll]] for (uint i = 0u; i < kdart_at_once; ++i) {
      seen = seen + s[i] * kdart_shared[2u * key_dim + c + i] * kdart_shared[key_dim + c + i];
    }
  }
  precise float d = beta * (v - positive_zero(seen));
  precise float sum = 0.0;
  at = column;
  [[dont_unroll]] for (uint c = 0u; c < key_dim; c += kdart_at_once) {
    KDART_COLUMN from = at;
    [[unroll]] for (uint i = 0u; i < kdart_at_once; ++i, from += stride) s[i] = get_column(from);
    [[unroll]] for (uint i = 0u; i < kdart_at_once; ++i, at += stride) {
      s[i] = s[i] * kdart_shared[2u * key_dim + c + i] + kdart_shared[key_dim + c + i] * d;
      set_column(at, s[i]);
      sum = sum + s[i] * kdart_shared[c + i];
    }
  }
  return positive_zero(sum);
}

// Brings one head's q, k and exp(gate) into shared memory. Every thread of the block calls it.
void load_head(uint64_t row, uint64_t key, uint key_dim) {
  barrier();  // the previous head's values are read
  KDART_FOR_THREADS(c, key_dim) {
    kdart_shared[c] = load_q(row * args.q_stride + key + c);
    kdart_shared[key_dim + c] = load_k(row * args.k_stride + key + c);
    kdart_shared[2u * key_dim + c] = kdart_exp(load_gate(row * args.gate_stride + key + c));
  }
  barrier();
}

// Steps the column of the state that begins at element `matrix`, the i-th of its part, and returns its S^T q.
float step_value(uint64_t matrix, uint i, float v, float beta);

// Every head of every row, `part_size` values at a time.
void step_heads(uint part_size) {
  const uint key_dim = args.key_dim;
  const uint value_dim = args.value_dim;
  KDART_FOR_BLOCKS(row, z, args.rows) {
    const uint slot = has_slots() ? load_slots(row) : uint(row);
    KDART_FOR_BLOCKS(h, x, args.value_heads) {
      const uint64_t to = row * args.out_stride + h * value_dim;
      if (slot >= args.slot_count) {  // a padding row, for every thread of the block
        KDART_FOR_BLOCKS(part, y, value_dim / part_size) {
          KDART_FOR_THREADS(i, part_size) store_out(to + part * part_size + i, 0.0);
        }
        continue;
      }
      load_head(row, key_head_of(h, args.key_heads, args.value_heads) * key_dim, key_dim);
      const uint64_t matrix = slot * args.slot_stride + h * key_dim * value_dim;
      const float beta = load_beta(row * args.beta_stride + h);
      KDART_FOR_BLOCKS(part, y, value_dim / part_size) {
        KDART_FOR_THREADS(i, part_size) {
          const uint64_t value = part * part_size + i;
          const float v = load_v(row * args.v_stride + h * value_dim + value);
          precise float scaled = step_value(matrix + value, i, v, beta) * args.scale;
          store_out(to + value, scaled);
        }
      }
    }
  }
}
