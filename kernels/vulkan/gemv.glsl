// Partials of a few rows and outputs, for the one-row kernel and the one for a few rows.
#include "gemm.glsl"

// Sums in place the 64 partials that begin at `first` in shared memory.
float add_partials(uint first) {
  [[dont_unroll]] for (uint step = partial_count / 2u; step > 0u; step /= 2u) {
    [[dont_unroll]] for (uint l = first; l < first + step; ++l) {
      precise float sum = kdart_shared[l] + kdart_shared[l + step];
      kdart_shared[l] = sum;
    }
  }
  return kdart_shared[first];
}

// Four rows of B, whose products with one element of A are added to four sums at once.
struct Weights {
  vec4 even[4], odd[4];  // [pair of elements], a component per row of B
};

// Elements `at` to `at` + 7 of the rows `first` to `first` + 3 of B. Rows from n on repeat the last.
Weights load_weights(uint64_t first, uint64_t at) {
  uvec4 words[4];
  [[unroll]] for (uint o = 0u; o < 4u; ++o) {
    const uint64_t row = first + o < args.n ? first + o : args.n - 1ul;
    words[o] = load_b_words(row * args.k + at);
  }
  Weights weights;
  [[unroll]] for (uint i = 0u; i < 4u; ++i) {
    const uvec4 pair = uvec4(words[0][i], words[1][i], words[2][i], words[3][i]);
    weights.even[i] = widen_even(pair);
    weights.odd[i] = widen_odd(pair);
  }
  return weights;
}

// Eight elements of A, from its element `at` on.
struct Inputs {
  vec4 even, odd;
};

Inputs load_inputs(uint64_t at) {
  const uvec4 words = load_a_words(at);
  return Inputs(widen_even(words), widen_odd(words));
}

// `sums` plus the products of eight elements of A with `weights`.
vec4 add_eight(vec4 sums, Inputs inputs, Weights weights) {
  precise vec4 result = sums;
  [[unroll]] for (uint i = 0u; i < 4u; ++i) {
    result = result + weights.even[i] * vec4(inputs.even[i]);
    result = result + weights.odd[i] * vec4(inputs.odd[i]);
  }
  return result;
}
