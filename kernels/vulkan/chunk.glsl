// What chunk_prepare and chunk_scan share; kernels/simt/chunk.h says how the chunked form works. Positions from
// `tokens` on are replaced by a select, never multiplied away: what memory holds there may be a NaN.

const uint at_once = 4u;  // elements whose loads are on their way together; divides key_dim and the chunk

// Rows of chunk `index` that are there: at least one.
uint valid_rows(uint64_t index) {
  const uint64_t left = args.tokens - index * args.chunk;
  return left < args.chunk ? uint(left) : args.chunk;
}

// Where element c of row i stands in shared memory. Each row is turned by one more, so that threads which read the same
// element of different rows are kept off each other's banks; key_dim is a power of two.
uint turned(uint i, uint c) {
  return i * args.key_dim + ((c + i) & (args.key_dim - 1u));
}
