// The dialect for the host's compiler: a kernel is a function of one thread, and the CPU engine calls it for each.
#pragma once

#define KDART_DEVICE inline __attribute__((always_inline))
#if defined(KDART_KEEP_LOOPS)  // sanitizers multiply the code that unrolling multiplies
#define KDART_UNROLL
#else
#define KDART_UNROLL _Pragma("GCC unroll 64")
#endif
#define KDART_KERNEL(name) \
  static inline            \
      __attribute__((always_inline)) void kdart_kernel_##name(KDART_PARAMS_##name, kdart_cpu_thread* kdart_self)
#define KDART_SCHEDULING_FENCE() static_cast<void>(0)
#define KDART_BLOCK(name) const Block name(kdart_self)

namespace kdart_simt {

class Block {
 public:
  explicit Block(kdart_cpu_thread* self) : self_(self), thread_(self->thread_idx[0]), threads_(self->block_dim[0]) {}

  unsigned int thread() const { return thread_; }
  unsigned int threads() const { return threads_; }
  unsigned int index_x() const { return self_->block_idx[0]; }
  unsigned int index_y() const { return self_->block_idx[1]; }
  unsigned int index_z() const { return self_->block_idx[2]; }
  unsigned int blocks_x() const { return self_->grid_dim[0]; }
  unsigned int blocks_y() const { return self_->grid_dim[1]; }
  unsigned int blocks_z() const { return self_->grid_dim[2]; }
  void barrier() const { self_->barrier(self_); }
  float* shared() const { return static_cast<float*>(self_->shared); }

 private:
  kdart_cpu_thread* self_;
  unsigned int thread_, threads_;
};

KDART_DEVICE float square_root(float x) {
  return __builtin_sqrtf(x);
}

KDART_DEVICE Words load_words(const kdart_bf16* p) {
  Words words;
  __builtin_memcpy(&words, __builtin_assume_aligned(p, 16), sizeof words);
  return words;
}

#if defined(__AVX__)
constexpr unsigned int vector_width = 8;
#else
constexpr unsigned int vector_width = 4;
#endif
using Vector [[gnu::vector_size(vector_width * sizeof(float))]] = float;

// N floats that one thread works on together. Vectors by hand: compilers keep an array of accumulators in memory.
template <unsigned int N>
struct Lanes {
  static_assert(N % vector_width == 0);
  Vector x[N / vector_width];

  KDART_DEVICE void clear() {
    KDART_UNROLL
    for (unsigned int i = 0; i < N / vector_width; ++i) x[i] = Vector{};
  }
  // this += p[0..N) * factor; p is aligned to a vector
  KDART_DEVICE void multiply_add(const float* p, float factor) {
    KDART_UNROLL
    for (unsigned int i = 0; i < N / vector_width; ++i, p += vector_width) {
      Vector y;
      __builtin_memcpy(&y, __builtin_assume_aligned(p, sizeof y), sizeof y);
      x[i] = x[i] + y * factor;
    }
  }
  // this = other + this
  KDART_DEVICE void add(const Lanes& other) {
    KDART_UNROLL
    for (unsigned int i = 0; i < N / vector_width; ++i) x[i] = other.x[i] + x[i];
  }
  KDART_DEVICE float get(unsigned int i) const { return x[i / vector_width][i % vector_width]; }
};

constexpr unsigned int gemm_rows = 32;

}  // namespace kdart_simt
