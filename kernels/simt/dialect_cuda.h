// The dialect for nvcc.
#pragma once

#define KDART_DEVICE __device__ __forceinline__
#define KDART_UNROLL _Pragma("unroll")
#define KDART_KERNEL(name) \
  extern "C" __global__ void __launch_bounds__(KDART_MAX_THREADS_##name, 1) kdart_##name(KDART_PARAMS_##name)
#define KDART_SCHEDULING_FENCE() static_cast<void>(0)
#define KDART_BLOCK(name) const Block name

namespace kdart_simt {

struct Block {
  __device__ __forceinline__ unsigned int thread() const { return threadIdx.x; }
  __device__ __forceinline__ unsigned int threads() const { return blockDim.x; }
  __device__ __forceinline__ unsigned int index_x() const { return blockIdx.x; }
  __device__ __forceinline__ unsigned int index_y() const { return blockIdx.y; }
  __device__ __forceinline__ unsigned int index_z() const { return blockIdx.z; }
  __device__ __forceinline__ unsigned int blocks_x() const { return gridDim.x; }
  __device__ __forceinline__ unsigned int blocks_y() const { return gridDim.y; }
  __device__ __forceinline__ unsigned int blocks_z() const { return gridDim.z; }
  __device__ __forceinline__ void barrier() const { __syncthreads(); }
  __device__ __forceinline__ float* shared() const {
    extern __shared__ float4 kdart_shared_memory[];
    return reinterpret_cast<float*>(kdart_shared_memory);
  }
};

KDART_DEVICE float square_root(float x) {
  return __fsqrt_rn(x);
}

KDART_DEVICE Words load_words(const kdart_bf16* p) {
  const uint4 words = *reinterpret_cast<const uint4*>(p);
  return {{words.x, words.y, words.z, words.w}};
}

}  // namespace kdart_simt

#include "kernels/simt/lanes_scalar.h"
