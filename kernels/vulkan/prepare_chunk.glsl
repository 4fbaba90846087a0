// Included once per chunk size KDART_C, which fixes how many values a thread keeps: KDART_PREPARE_CHUNK prepares one
// chunk of one head. Shared memory: the cumulative gate [C, key_dim], turned, which becomes its exp; A [C, C]; beta
// [C].

#define KDART_A (KDART_C * args.key_dim)
#define KDART_BETA (KDART_A + KDART_C * KDART_C)

// Row i of x, so far the right side, becomes row i of (I - A)^-1 x; A is strictly lower triangular. For ascending i.
#define KDART_SUBSTITUTE(i, x)                                                   \
  [[unroll]] for (uint j = 0u; j < KDART_C; ++j) {                               \
    if (j < (i)) x[i] = x[i] + kdart_shared[KDART_A + (i) * KDART_C + j] * x[j]; \
  }

void KDART_PREPARE_CHUNK(Chunk at) {
  const uint key_dim = args.key_dim;
  const uint value_dim = args.value_dim;
  barrier();  // the previous chunk's values are read
  KDART_FOR_THREADS(c, key_dim) {
    precise float sum = 0.0;
    [[dont_unroll]] for (uint i = 0u; i < KDART_C; ++i) {
      float log_decay = 0.0;
      if (i < at.valid) log_decay = load_gate(at.keys + i * at.key_stride + c);
      sum = sum + log_decay;
      kdart_shared[turned(i, c)] = sum;
      store_gc(at.tile * key_dim + i * key_dim + c, sum);
    }
  }
  KDART_FOR_THREADS(i, KDART_C) {
    float beta = 0.0;
    if (i < at.valid) beta = load_beta(at.betas + uint64_t(i) * args.value_heads);
    kdart_shared[KDART_BETA + i] = beta;
  }
  barrier();
  KDART_FOR_THREADS(pair, KDART_C * (KDART_C - 1u) / 2u) {
    uint i = 1u, j = pair;
    [[dont_unroll]] while (j >= i) j -= i++;
    precise float dot = 0.0;
    if (i < at.valid) {
      [[dont_unroll]] for (uint c = 0u; c < key_dim; c += at_once) {
        float k_i[at_once], k_j[at_once];
        [[unroll]] for (uint e = 0u; e < at_once; ++e) {
          k_i[e] = load_k(at.keys + i * at.key_stride + c + e);
          k_j[e] = load_k(at.keys + j * at.key_stride + c + e);
        }
        [[unroll]] for (uint e = 0u; e < at_once; ++e) {
          precise float difference = kdart_shared[turned(i, c + e)] - kdart_shared[turned(j, c + e)];
          dot = dot + k_i[e] * k_j[e] * kdart_exp(difference);
        }
      }
    }
    precise float a = -(kdart_shared[KDART_BETA + i] * dot);
    kdart_shared[KDART_A + i * KDART_C + j] = a;
  }
  barrier();
  KDART_FOR_THREADS(c, value_dim) {
    precise float x[KDART_C];
    [[unroll]] for (uint i = 0u; i < KDART_C; ++i) {
      x[i] = 0.0;
      if (i < at.valid) x[i] = kdart_shared[KDART_BETA + i] * load_v(at.values + i * at.value_stride + c);
      KDART_SUBSTITUTE(i, x)
      store_u((at.tile + i) * value_dim + c, x[i]);
    }
  }
  KDART_FOR_THREADS(c, key_dim) {
    // In a loop of its own: unrolled with the rest, exp would be there KDART_C times.
    [[dont_unroll]] for (uint i = 0u; i < KDART_C; ++i) {
      kdart_shared[turned(i, c)] = kdart_exp(kdart_shared[turned(i, c)]);
    }
    precise float x[KDART_C];
    [[unroll]] for (uint i = 0u; i < KDART_C; ++i) {
      x[i] = 0.0;
      if (i < at.valid) {
        x[i] = kdart_shared[KDART_BETA + i] * (load_k(at.keys + i * at.key_stride + c) * kdart_shared[turned(i, c)]);
      }
      KDART_SUBSTITUTE(i, x)
      store_w((at.tile + i) * key_dim + c, x[i]);
    }
  }
}

#undef KDART_A
#undef KDART_BETA
#undef KDART_SUBSTITUTE
#undef KDART_PREPARE_CHUNK
#undef KDART_C
