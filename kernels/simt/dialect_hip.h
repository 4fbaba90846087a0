// The dialect for clang's AMD target, without the ROCm headers and device libraries (-nogpuinc -nogpulib).
#pragma once

#define KDART_DEVICE inline __attribute__((device, always_inline))
#define KDART_UNROLL _Pragma("unroll")
#define KDART_KERNEL(name)                                                                                        \
  extern "C" __attribute__((global, amdgpu_flat_work_group_size(1, KDART_MAX_THREADS_##name))) void kdart_##name( \
      KDART_PARAMS_##name)
// Without it the scheduler hoists every load of an unrolled loop to its top, and spills.
#define KDART_SCHEDULING_FENCE() __builtin_amdgcn_sched_barrier(0)
#define KDART_BLOCK(name) const Block name

namespace kdart_simt {

struct Block {
  KDART_DEVICE unsigned int thread() const { return __builtin_amdgcn_workitem_id_x(); }
  KDART_DEVICE unsigned int threads() const { return __builtin_amdgcn_workgroup_size_x(); }
  KDART_DEVICE unsigned int index_x() const { return __builtin_amdgcn_workgroup_id_x(); }
  KDART_DEVICE unsigned int index_y() const { return __builtin_amdgcn_workgroup_id_y(); }
  KDART_DEVICE unsigned int index_z() const { return __builtin_amdgcn_workgroup_id_z(); }
  // HIP grids are whole blocks, so the division leaves nothing.
  KDART_DEVICE unsigned int blocks_x() const {
    return __builtin_amdgcn_grid_size_x() / static_cast<unsigned int>(__builtin_amdgcn_workgroup_size_x());
  }
  KDART_DEVICE unsigned int blocks_y() const {
    return __builtin_amdgcn_grid_size_y() / static_cast<unsigned int>(__builtin_amdgcn_workgroup_size_y());
  }
  KDART_DEVICE unsigned int blocks_z() const {
    return __builtin_amdgcn_grid_size_z() / static_cast<unsigned int>(__builtin_amdgcn_workgroup_size_z());
  }
  KDART_DEVICE void barrier() const {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
  }
  KDART_DEVICE float* shared() const {
    extern __attribute__((shared, aligned(16))) float kdart_shared_memory[];
    return kdart_shared_memory;
  }
};

KDART_DEVICE float square_root(float x) {
  return __builtin_sqrtf(x);
}

KDART_DEVICE Words load_words(const kdart_bf16* p) {
  typedef unsigned int Four __attribute__((ext_vector_type(4), may_alias));
  const Four words = *reinterpret_cast<const Four*>(p);
  return {{words.x, words.y, words.z, words.w}};
}

}  // namespace kdart_simt

#include "kernels/simt/lanes_scalar.h"
