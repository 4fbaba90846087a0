// Included once per KDART_ROWS: partial `l` of KDART_SUM_BATCH's rows and four outputs. Sums that a loop can not index
// dynamically stay in registers, so their number is fixed.

void KDART_SUM_BATCH(uint l, uint64_t first) {
  vec4 sums[KDART_ROWS];
  [[unroll]] for (uint r = 0u; r < KDART_ROWS; ++r) sums[r] = vec4(0.0);
  [[dont_unroll]] for (uint64_t at = l * 8u; at < args.k; at += partial_count * 8u) {
    const Weights weights = load_weights(first, at);
    [[unroll]] for (uint r = 0u; r < KDART_ROWS; ++r) {
      if (r < args.m) sums[r] = add_eight(sums[r], uint64_t(r) * args.lda + at, weights);
    }
  }
  [[unroll]] for (uint r = 0u; r < KDART_ROWS; ++r) {
    if (r < args.m) {
      [[unroll]] for (uint o = 0u; o < 4u; ++o) kdart_shared[(r * 4u + o) * partial_stride + l] = sums[r][o];
    }
  }
}
