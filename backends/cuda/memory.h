// Device memory, from a pool of the device's own where the driver has pools.
#pragma once

#include <cstdint>

#include "backends/cuda/api.h"
#include "backends/cuda/context.h"
#include "kdart/backend.h"

namespace kdart::cuda {

// With pools, every allocation is ordered in a stream, and what is freed stays with the pool for the next one; without,
// allocation is blocking. The context is current in every call.
class DeviceMemory {
 public:
  // Throws what check_cuda throws.
  DeviceMemory(const Context& context, bool pools);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // CUDA_ERROR_OUT_OF_MEMORY among the answers. `stream` orders it where there are pools.
  [[nodiscard]] CUresult allocate(CUdeviceptr& memory, std::uint64_t bytes, CUstream stream) const;
  // Work submitted to `stream` before may use it still.
  [[nodiscard]] CUresult release(CUdeviceptr memory, CUstream stream) const;
  // Gives what the pool holds in reserve back to the driver. The streams that freed it have been waited for.
  void trim() const noexcept;
  [[nodiscard]] MemoryInfo info() const;

 private:
  const Context* context_;
  CUmemoryPool pool_ = nullptr;
};

}  // namespace kdart::cuda
