// What chunk_prepare and chunk_scan share; kernels/simt/chunk.h says how the chunked form works. Positions from `tokens` on
// are replaced by a select, never multiplied away: what memory holds there may be a NaN.

// Rows of chunk `index` that are there.
uint valid_rows(uint64_t index) {
  const uint64_t left = args.tokens - index * args.chunk;
  return left < args.chunk ? uint(left) : args.chunk;
}

const uint at_once = 4u;  // elements whose loads are on their way together; divides key_dim
