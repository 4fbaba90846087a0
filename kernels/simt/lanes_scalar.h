// Lanes as single floats, for the GPU dialects: a GPU's compiler keeps each of them in a register.
#pragma once

namespace kdart_simt {

// N floats that one thread works on together.
template <unsigned int N>
struct Lanes {
  float x[N];

  KDART_DEVICE void clear() {
    KDART_UNROLL
    for (unsigned int i = 0; i < N; ++i) x[i] = 0.0f;
  }
  // this += p[0..N) * factor
  KDART_DEVICE void multiply_add(const float* p, float factor) {
    KDART_UNROLL
    for (unsigned int i = 0; i < N; ++i) x[i] = x[i] + p[i] * factor;
  }
  // this = other + this
  KDART_DEVICE void add(const Lanes& other) {
    KDART_UNROLL
    for (unsigned int i = 0; i < N; ++i) x[i] = other.x[i] + x[i];
  }
  KDART_DEVICE float get(unsigned int i) const { return x[i]; }
};

constexpr unsigned int gemm_rows = 8;

}  // namespace kdart_simt
