// exp, log1p, sigmoid, softplus and silu from adds, multiplies and divides, as in kernels/simt/math.h. A device's own
// functions are too coarse: log near 1 and exp at large arguments lose digits.

// exp(-inf) = 0, overflow is infinity, a NaN stays.
float kdart_exp(float x) {
  // Beyond these the result is infinity or 0 anyway, and 2^n below stays a product of two normal numbers.
  const float low = x < -110.0 ? -110.0 : x;
  const float y = low > 100.0 ? 100.0 : low;
  // y = n ln2 + r. Adding 1.5 * 2^23 rounds to an integer, which then stands in the low bits.
  const float shifter = 12582912.0;
  precise float shifted = y * 1.44269504 + shifter;
  precise float n = shifted - shifter;
  precise float r = (y - n * 0.693359375) - n * -2.12194440e-4;  // n * the first is exact
  precise float p = 1.9875691500e-4;
  p = p * r + 1.3981999507e-3;
  p = p * r + 8.3334519073e-3;
  p = p * r + 4.1665795894e-2;
  p = p * r + 1.6666665459e-1;
  p = p * r + 5.0000001201e-1;
  precise float e = (p * (r * r) + r) + 1.0;
  // Times 2^n in two steps, so that only the second can round.
  const uint exponent = floatBitsToUint(shifted) - floatBitsToUint(shifter) + 256u;
  const uint half_exponent = exponent >> 1;
  const float first = uintBitsToFloat((half_exponent - 128u + 127u) << 23);
  const float second = uintBitsToFloat((exponent - half_exponent - 128u + 127u) << 23);
  precise float result = e * first * second;
  return is_nan(x) ? x : result;
}

// log(1 + x) for 0 <= x <= 1: 2 atanh(x / (2 + x)).
float kdart_log1p(float x) {
  precise float s = x / (2.0 + x);
  precise float t = s * s;
  precise float p = 1.0 / 17.0;
  p = p * t + 1.0 / 15.0;
  p = p * t + 1.0 / 13.0;
  p = p * t + 1.0 / 11.0;
  p = p * t + 1.0 / 9.0;
  p = p * t + 1.0 / 7.0;
  p = p * t + 1.0 / 5.0;
  p = p * t + 1.0 / 3.0;
  precise float result = 2.0 * (s + s * (t * p));
  return result;
}

// exp's argument is never positive, so neither end overflows and small results keep their digits.
float sigmoid(float x) {
  const float e = kdart_exp(x < 0.0 ? x : -x);
  precise float result = (x < 0.0 ? e : 1.0) / (1.0 + e);
  return result;
}

// log(1 + exp(x))
float softplus(float x) {
  const float e = kdart_exp(x < 0.0 ? x : -x);
  precise float result = (x < 0.0 ? 0.0 : x) + kdart_log1p(e);
  return result;
}

float silu(float x) {
  precise float result = x * sigmoid(x);
  return result;
}
