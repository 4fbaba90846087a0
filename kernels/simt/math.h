// exp, log1p, sigmoid and softplus from adds, multiplies, IEEE divide and square root alone, so that every compiler gives
// the same bits. No branches: host compilers vectorise them.
#pragma once

#include "kernels/simt/dialect.h"

namespace kdart_simt {

// Within 1.5 units in the last place. exp(-inf) = 0, overflow is infinity, denormal results are rounded once, a NaN stays.
KDART_DEVICE float exp(float x) {
  // Beyond these the result is infinity or 0 anyway, and 2^n below stays a product of two normal numbers.
  const float low = x < -110.0f ? -110.0f : x;
  const float y = low > 100.0f ? 100.0f : low;
  // y = n ln2 + r. Adding 1.5 * 2^23 rounds to an integer, which then stands in the low bits.
  const float shifter = 12582912.0f;
  const float shifted = y * 1.44269504f + shifter;
  const float n = shifted - shifter;
  const float r = (y - n * 0.693359375f) - n * -2.12194440e-4f;  // n * the first is exact
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float e = (p * (r * r) + r) + 1.0f;
  // Times 2^n in two steps, so that only the second can round. Unsigned: a NaN's n is anything.
  const u32 exponent = bits_of(shifted) - bits_of(shifter) + 256u;
  const u32 half = exponent >> 1;
  const float first = float_from_bits((half - 128u + 127u) << 23);
  const float second = float_from_bits((exponent - half - 128u + 127u) << 23);
  return e * first * second;
}

// log(1 + x) for 0 <= x <= 1: 2 atanh(x / (2 + x)).
KDART_DEVICE float log1p(float x) {
  const float s = x / (2.0f + x);
  const float t = s * s;
  float p = 1.0f / 17.0f;
  p = p * t + 1.0f / 15.0f;
  p = p * t + 1.0f / 13.0f;
  p = p * t + 1.0f / 11.0f;
  p = p * t + 1.0f / 9.0f;
  p = p * t + 1.0f / 7.0f;
  p = p * t + 1.0f / 5.0f;
  p = p * t + 1.0f / 3.0f;
  return 2.0f * (s + s * (t * p));
}

// exp's argument is never positive, so neither end overflows and small results keep their digits.
KDART_DEVICE float sigmoid(float x) {
  const float e = exp(x < 0.0f ? x : -x);
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

// log(1 + exp(x))
KDART_DEVICE float softplus(float x) {
  const float e = exp(x < 0.0f ? x : -x);
  return (x < 0.0f ? 0.0f : x) + log1p(e);
}

KDART_DEVICE float silu(float x) {
  return x * sigmoid(x);
}

}  // namespace kdart_simt
