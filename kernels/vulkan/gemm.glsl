// What the three projections share; the order in which all of them add stands in kernels/simt/gemm.h: an output is 64
// partial sums, partial l over the 8-element groups of the K axis with (group mod 64) = l in ascending order, and a
// tree adds l+32, l+16, .. l+1 to l.

const uint partial_count = 64u;
const uint partial_stride = 65u;  // odd, so that threads are kept off each other's shared memory banks

// Eight bf16 in four words: the even ones in the lower halves, the odd ones in the upper.
vec4 widen_even(uvec4 words) {
  return uintBitsToFloat(words << 16);
}
vec4 widen_odd(uvec4 words) {
  return uintBitsToFloat(words & 0xFFFF0000u);
}

void store_output(float sum, uint64_t at, uint64_t n) {
  precise float biased = positive_zero(sum);
  if (has_bias()) biased = biased + widen(load_bias(n));
  store_c(at, round_to_bf16(biased));
}
