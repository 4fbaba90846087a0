// Where a thread is in its launch, in three dimensions, in each dialect: kernels/simt knows blocks of one alone.
#pragma once

namespace {

struct Place {
  unsigned int block[3], thread[3], grid[3], threads[3];

  // Its number in the whole launch, blocks and threads in the order of their indices, x fastest.
  KDART_DEVICE unsigned int number() const {
    return flat(block, grid) * threads[0] * threads[1] * threads[2] + flat(thread, threads);
  }

 private:
  KDART_DEVICE static unsigned int flat(const unsigned int (&index)[3], const unsigned int (&size)[3]) {
    return (index[2] * size[1] + index[1]) * size[0] + index[0];
  }
};

}  // namespace

#if defined(KDART_DIALECT_CPU)

namespace {

inline Place place_of(const kdart_cpu_thread& t) {
  return {{t.block_idx[0], t.block_idx[1], t.block_idx[2]},
          {t.thread_idx[0], t.thread_idx[1], t.thread_idx[2]},
          {t.grid_dim[0], t.grid_dim[1], t.grid_dim[2]},
          {t.block_dim[0], t.block_dim[1], t.block_dim[2]}};
}

}  // namespace

#define DEVICE_TEST_PLACE(name) const Place name = place_of(*kdart_self)
#define DEVICE_TEST_ANYWHERE() static_cast<void>(kdart_self)
#define DEVICE_TEST_TRAP() __builtin_trap()

#elif defined(KDART_DIALECT_HIP)

// HIP grids are whole blocks, so the divisions leave nothing.
#define DEVICE_TEST_PLACE(name)                                                                                  \
  const Place name = {                                                                                           \
      {__builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(), __builtin_amdgcn_workgroup_id_z()}, \
      {__builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(), __builtin_amdgcn_workitem_id_z()},    \
      {__builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x(),                                     \
       __builtin_amdgcn_grid_size_y() / __builtin_amdgcn_workgroup_size_y(),                                     \
       __builtin_amdgcn_grid_size_z() / __builtin_amdgcn_workgroup_size_z()},                                    \
      {__builtin_amdgcn_workgroup_size_x(), __builtin_amdgcn_workgroup_size_y(), __builtin_amdgcn_workgroup_size_z()}}
#define DEVICE_TEST_ANYWHERE() static_cast<void>(0)
#define DEVICE_TEST_TRAP() __builtin_trap()

#else

#define DEVICE_TEST_PLACE(name)                                \
  const Place name = {{blockIdx.x, blockIdx.y, blockIdx.z},    \
                      {threadIdx.x, threadIdx.y, threadIdx.z}, \
                      {gridDim.x, gridDim.y, gridDim.z},       \
                      {blockDim.x, blockDim.y, blockDim.z}}
#define DEVICE_TEST_ANYWHERE() static_cast<void>(0)
#define DEVICE_TEST_TRAP() __trap()

#endif
