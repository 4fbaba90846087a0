// Memory: what the CUDA driver takes in its own form.
#include "backends/cuda/traits.h"

namespace kdart::cuda {

CUmemPoolProps CudaApi::pool_properties(const Context& context) noexcept {
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location = {CU_MEM_LOCATION_TYPE_DEVICE, context.device()};
  return props;
}

bool CudaApi::reads_late(const Functions& driver, const Snapshot& device, const void* memory, std::uint64_t bytes) {
  if (device.host_page_tables) return true;
  const auto first = reinterpret_cast<CUdeviceptr>(memory);
  for (const CUdeviceptr address : {first, first + (bytes - 1)}) {
    int type = 0;
    if (driver.pointer_get_attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == CUDA_SUCCESS) return true;
  }
  return false;
}

CUresult CudaApi::copy_2d(const Functions& driver, Address dst, std::uint64_t dst_pitch, Address src,
                          std::uint64_t src_pitch, std::uint64_t width, std::uint64_t height, Stream stream) {
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = src;
  copy.srcPitch = src_pitch;
  copy.dstDevice = dst;
  copy.dstPitch = dst_pitch;
  copy.WidthInBytes = width;
  copy.Height = height;
  return driver.memcpy_2d_async(&copy, stream);
}

}  // namespace kdart::cuda
