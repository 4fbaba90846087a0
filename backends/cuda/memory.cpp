#include "backends/cuda/memory.h"

#include "backends/cuda/errors.h"

namespace kdart::cuda {

DeviceMemory::DeviceMemory(const Context& context, bool pools) : context_(&context) {
  if (!pools) return;
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location = {CU_MEM_LOCATION_TYPE_DEVICE, context.device()};
  check_cuda(context.cu().mem_pool_create(&pool_, &props), "creating a memory pool");
  // Without it every wait would give what lies free back to the system, and every allocation fetch it again.
  std::uint64_t keep_all = ~std::uint64_t{0};
  const CUresult result = context.cu().mem_pool_set_attribute(pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep_all);
  if (result == CUDA_SUCCESS) return;
  static_cast<void>(context.cu().mem_pool_destroy(pool_));
  fail_cuda(result, "setting up a memory pool");
}

DeviceMemory::~DeviceMemory() {
  if (pool_ != nullptr) static_cast<void>(context_->cu().mem_pool_destroy(pool_));
}

CUresult DeviceMemory::allocate(CUdeviceptr& memory, std::uint64_t bytes, CUstream stream) const {
  if (pool_ != nullptr) return context_->cu().mem_alloc_from_pool_async(&memory, bytes, pool_, stream);
  return context_->cu().mem_alloc(&memory, bytes);
}

CUresult DeviceMemory::release(CUdeviceptr memory, CUstream stream) const {
  if (pool_ != nullptr) return context_->cu().mem_free_async(memory, stream);
  const CUresult result = context_->cu().stream_synchronize(stream);
  return result == CUDA_SUCCESS ? context_->cu().mem_free(memory) : result;
}

void DeviceMemory::trim() const noexcept {
  if (pool_ != nullptr) static_cast<void>(context_->cu().mem_pool_trim_to(pool_, 0));
}

MemoryInfo DeviceMemory::info() const {
  std::size_t free = 0;
  std::size_t total = 0;
  check_cuda(context_->cu().mem_get_info(&free, &total), "asking for free memory");
  std::uint64_t reserved = 0;
  std::uint64_t used = 0;
  if (pool_ != nullptr) {
    const auto ask = context_->cu().mem_pool_get_attribute;
    check_cuda(ask(pool_, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved), "asking what a memory pool holds");
    check_cuda(ask(pool_, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used), "asking what a memory pool holds");
  }
  return {.free = free + (reserved > used ? reserved - used : 0), .total = total};
}

}  // namespace kdart::cuda
