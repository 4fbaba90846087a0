// Included once per chunk size KDART_C, which fixes how many values a thread keeps: KDART_SCAN_CHUNK runs one chunk of
// one head. The thread owns column KDART_THREAD of the state. Shared memory:
//   first   [C, key_dim]   gc, turned; then q exp(gc); then exp(gc_last) in row 0
//   second  [C, key_dim]   k, turned; then w; then k exp(gc_last - gc)
//   p       [C, C]         tril(q k^T exp(gc_i - gc_j))

#define KDART_SECOND (KDART_C * args.key_dim)
#define KDART_P (2u * KDART_SECOND)
#define KDART_STATES (64u / KDART_C)  // elements of the state at once; with 4 and chunks of 32, AMD's registers run out

void KDART_SCAN_CHUNK(Chunk at) {
  const uint key_dim = args.key_dim;
  const uint value_dim = args.value_dim;
  const uint column = KDART_THREAD;
  const uint64_t gc = at.tile * key_dim;
  // Rows that are not there are read as the last one that is, and then replaced: loads without a branch overlap.
  const uint last_row = at.valid - 1u;

  barrier();  // the previous chunk's values are read
  KDART_FOR_THREADS(c, key_dim) {
    [[dont_unroll]] for (uint first = 0u; first < KDART_C; first += at_once) {
      float k[at_once], gates[at_once];
      [[unroll]] for (uint e = 0u; e < at_once; ++e) {
        k[e] = load_k(at.keys + min(first + e, last_row) * at.key_stride + c);
        gates[e] = load_gc(gc + (first + e) * key_dim + c);
      }
      [[unroll]] for (uint e = 0u; e < at_once; ++e) {
        kdart_shared[turned(first + e, c)] = gates[e];
        kdart_shared[KDART_SECOND + turned(first + e, c)] = first + e < at.valid ? k[e] : 0.0;
      }
    }
  }
  barrier();
  KDART_FOR_THREADS(pair, KDART_C * (KDART_C + 1u) / 2u) {
    uint i = 0u, j = pair;
    [[dont_unroll]] while (j > i) j -= ++i;
    precise float dot = 0.0;
    if (i < at.valid) {
      [[dont_unroll]] for (uint c = 0u; c < key_dim; c += at_once) {
        float q[at_once];
        [[unroll]] for (uint e = 0u; e < at_once; ++e) q[e] = load_q(at.keys + i * at.key_stride + c + e);
        [[unroll]] for (uint e = 0u; e < at_once; ++e) {
          precise float difference = kdart_shared[turned(i, c + e)] - kdart_shared[turned(j, c + e)];
          dot = dot + q[e] * kdart_shared[KDART_SECOND + turned(j, c + e)] * kdart_exp(difference);
        }
      }
    }
    kdart_shared[KDART_P + i * KDART_C + j] = dot;
  }
  barrier();
  KDART_FOR_THREADS(c, key_dim) {
    [[dont_unroll]] for (uint first = 0u; first < KDART_C; first += at_once) {
      float q[at_once], gates[at_once], w[at_once];
      [[unroll]] for (uint e = 0u; e < at_once; ++e) {
        q[e] = load_q(at.keys + min(first + e, last_row) * at.key_stride + c);
        gates[e] = load_gc(gc + (first + e) * key_dim + c);
        w[e] = load_w(gc + (first + e) * key_dim + c);
      }
      [[unroll]] for (uint e = 0u; e < at_once; ++e) {
        precise float decayed = q[e] * kdart_exp(gates[e]);
        kdart_shared[(first + e) * key_dim + c] = first + e < at.valid ? decayed : 0.0;
        kdart_shared[KDART_SECOND + (first + e) * key_dim + c] = w[e];
      }
    }
  }
  barrier();

  precise float v_new[KDART_C];  // v' of this column
  if (column < value_dim) {
    precise float from_w[KDART_C];
    precise float from_q[KDART_C];
    [[unroll]] for (uint i = 0u; i < KDART_C; ++i) from_w[i] = from_q[i] = 0.0;
    uint64_t element = at.state + column;
    [[dont_unroll]] for (uint c = 0u; c < key_dim; c += KDART_STATES) {
      float s[KDART_STATES];
      [[unroll]] for (uint e = 0u; e < KDART_STATES; ++e, element += value_dim) s[e] = load_state(element);
      [[unroll]] for (uint i = 0u; i < KDART_C; ++i) {
        [[unroll]] for (uint e = 0u; e < KDART_STATES; ++e) {
          from_w[i] = from_w[i] + kdart_shared[KDART_SECOND + i * key_dim + c + e] * s[e];
          from_q[i] = from_q[i] + kdart_shared[i * key_dim + c + e] * s[e];
        }
      }
    }
    [[unroll]] for (uint i = 0u; i < KDART_C; ++i) {
      v_new[i] = load_u((at.tile + i) * value_dim + column) - from_w[i];
    }
    [[unroll]] for (uint i = 0u; i < KDART_C; ++i) {
      precise float inside = 0.0;
      [[unroll]] for (uint j = 0u; j < KDART_C; ++j) {
        if (j <= i) inside = inside + kdart_shared[KDART_P + i * KDART_C + j] * v_new[j];
      }
      precise float out_i = args.scale * (from_q[i] + inside);
      if (i < at.valid) store_out(at.values + i * at.value_stride + column, out_i);
    }
  }
  barrier();

  KDART_FOR_THREADS(c, key_dim) {
    const float last = load_gc(gc + (KDART_C - 1u) * key_dim + c);
    kdart_shared[c] = kdart_exp(last);
    [[dont_unroll]] for (uint first = 0u; first < KDART_C; first += at_once) {
      float k[at_once], gates[at_once];
      [[unroll]] for (uint e = 0u; e < at_once; ++e) {
        k[e] = load_k(at.keys + min(first + e, last_row) * at.key_stride + c);
        gates[e] = load_gc(gc + (first + e) * key_dim + c);
      }
      [[unroll]] for (uint e = 0u; e < at_once; ++e) {
        precise float left = last - gates[e];
        precise float decayed = k[e] * kdart_exp(left);
        kdart_shared[KDART_SECOND + (first + e) * key_dim + c] = first + e < at.valid ? decayed : 0.0;
      }
    }
  }
  barrier();
  if (column < value_dim) {
    uint64_t element = at.state + column;
    [[dont_unroll]] for (uint c = 0u; c < key_dim; c += KDART_STATES) {
      precise float s[KDART_STATES];
      uint64_t from = element;
      [[unroll]] for (uint e = 0u; e < KDART_STATES; ++e, from += value_dim) s[e] = load_state(from);
      [[unroll]] for (uint e = 0u; e < KDART_STATES; ++e) s[e] = kdart_shared[c + e] * s[e];
      [[unroll]] for (uint i = 0u; i < KDART_C; ++i) {
        [[unroll]] for (uint e = 0u; e < KDART_STATES; ++e) {
          s[e] = s[e] + kdart_shared[KDART_SECOND + i * key_dim + c + e] * v_new[i];
        }
      }
      [[unroll]] for (uint e = 0u; e < KDART_STATES; ++e, element += value_dim) store_state(element, s[e]);
    }
  }
}

#undef KDART_SECOND
#undef KDART_P
#undef KDART_STATES
#undef KDART_SCAN_CHUNK
#undef KDART_C
