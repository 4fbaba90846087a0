// Included once per KDART_ROWS, the most rows that it takes: KDART_SUM_BATCH leaves partial `l` of four outputs of
// each row in shared memory. The number is fixed because sums stay in registers only where no index is dynamic.

void KDART_SUM_BATCH(uint l, uint64_t first) {
  vec4 sums[KDART_ROWS];
  [[unroll]] for (uint r = 0u; r < KDART_ROWS; ++r) sums[r] = vec4(0.0);
  [[dont_unroll]] for (uint64_t at = l * 8u; at < args.k; at += partial_count * 8u) {
    const Weights weights = load_weights(first, at);
    [[unroll]] for (uint r = 0u; r < KDART_ROWS; ++r) {
      if (r < args.m) sums[r] = add_eight(sums[r], load_inputs(uint64_t(r) * args.lda + at), weights);
    }
  }
  [[unroll]] for (uint r = 0u; r < KDART_ROWS; ++r) {
    if (r < args.m) {
      [[unroll]] for (uint o = 0u; o < 4u; ++o) kdart_shared[(r * 4u + o) * partial_stride + l] = sums[r][o];
    }
  }
}
