// What conv_decode and l2 share, so that conv_prefill followed by l2 gives conv_decode's bits.

// Normalises the leading channels of this block by head, where `value` is the thread's channel `c`, and rounds once.
// Heads lie whole inside a block: head_dim divides its width. Shared memory: a value per thread, then a norm per head.
// Every thread of the block calls it; `store` says whether this one has an output, element `at` of out.
void normalise_and_store(float value, uint64_t c, bool store, uint64_t at) {
  const uint i = KDART_THREAD;
  const uint norms = KDART_THREADS;
  barrier();  // the previous tile's values are read
  kdart_shared[i] = value;
  barrier();
  if (c < args.qk_channels && i % args.head_dim == 0u) {
    precise float sum = 0.0;
    [[dont_unroll]] for (uint j = 0u; j < args.head_dim; ++j) sum = sum + kdart_shared[i + j] * kdart_shared[i + j];
    precise float padded = sum + args.l2_eps;
    kdart_shared[norms + i / args.head_dim] = sqrt(padded);
  }
  barrier();
  if (store) {
    precise float normalised = value;
    if (c < args.qk_channels) normalised = value / kdart_shared[norms + i / args.head_dim];
    store_out(at, round_to_bf16(normalised));
  }
}
