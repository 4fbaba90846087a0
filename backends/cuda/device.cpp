#include "backends/cuda/device.h"

#include <utility>

#include "backends/cuda/errors.h"
#include "backends/cuda/gemm.h"
#include "core/runtime/abandon.h"
#include "core/runtime/fail.h"

namespace kdart::cuda {
namespace {

DeviceInfo require_usable(const CudaSnapshot& snapshot) {
  DeviceInfo info = describe_device(snapshot);
  if (!info.unusable.empty())
    detail::fail(ErrorCode::unsupported, "{} ({}) cannot be used: {}", info.id, info.name, info.unusable);
  return info;
}

CUdevice device_of(const Library& library, const CudaSnapshot& snapshot) {
  CUdevice device = 0;
  check_cuda(library.functions().device_get(&device, static_cast<int>(snapshot.index)), "asking for a CUDA device");
  return device;
}

}  // namespace

CudaBackend::CudaBackend(std::shared_ptr<const Library> library, const CudaSnapshot& snapshot,
                         const OpenOptions& options)
    : GpuBackend(require_usable(snapshot), options) {
  const CUdevice device = device_of(*library, snapshot);
  context_ = std::make_unique<Context>(std::move(library), device);
  const Current current(*context_);
  parts_ = std::make_unique<Parts>(*context_, snapshot);
}

CudaBackend::CudaBackend(std::shared_ptr<const Library> library, const CudaSnapshot& snapshot, CUcontext adopted,
                         const OpenOptions& options)
    : GpuBackend(require_usable(snapshot), options) {
  const CUdevice device = device_of(*library, snapshot);
  context_ = std::make_unique<Context>(std::move(library), device, adopted);
  const Current current(*context_);
  parts_ = std::make_unique<Parts>(*context_, snapshot);
}

CudaBackend::~CudaBackend() {
  shut_down();
  if (forked()) {
    detail::abandon(parts_.release());
    detail::abandon(context_.release());
    return;
  }
  if (context_ == nullptr) return;
  const CurrentToRelease current(*context_);
  parts_.reset();
}

DeviceFacts CudaBackend::do_facts() const {
  return selection_facts(parts_->snapshot);
}

void* CudaBackend::do_service(std::string_view id) {
  if (id == CudaInterop::service_id) return static_cast<CudaInterop*>(this);
  if (id == GemmService::service_id) return gemm();
  return nullptr;
}

GemmService* CudaBackend::gemm() {
  const std::lock_guard lock(parts_->gemm_mutex);
  if (!parts_->gemm_tried) {
    const Current current(*context_);
    parts_->gemm = open_gemm(*this);
    parts_->gemm_tried = true;
  }
  return parts_->gemm.get();
}

void CudaBackend::fail(CUresult result, std::string_view doing) const {
  const ErrorCode code = code_of(result);
  if (code != ErrorCode::device_fault) fail_cuda(result, doing);
  const auto streams = parts_->streams.all();
  std::vector<const Launched*> lists;
  lists.reserve(streams.size());
  for (const auto& stream : streams) lists.push_back(&stream->launched);
  const std::string culprit = suspects(lists);
  const std::string name = result_name(result);
  throw Error(
      code,
      detail::format("{}: {} ran into a fault on {}: {} ({}). Its context is lost: what is on the device is gone, "
                     "and a new process is needed to use it again",
                     doing, culprit.empty() ? "work of this process" : culprit, info().id, name, result),
      result, name);
}

// --- memory -----------------------------------------------------------------------------------------------------------

DevicePtr CudaBackend::allocate(std::uint64_t bytes, CUstream stream) {
  CUdeviceptr memory = 0;
  CUresult result = parts_->memory.allocate(memory, bytes, stream);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    wait_for_all();
    check(cu().stream_synchronize(parts_->allocations.get()), "waiting for what is being freed");
    parts_->memory.trim();
    result = parts_->memory.allocate(memory, bytes, stream);
  }
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    const MemoryInfo left = parts_->memory.info();
    throw Error(ErrorCode::out_of_device_memory,
                detail::format("alloc: {} bytes on {}: the driver has no memory for them, {} of {} bytes are free",
                               bytes, info().id, left.free, left.total),
                result, result_name(result));
  }
  check(result, "allocating device memory");
  return DevicePtr(memory);
}

// Any stream may use it next, so it has to be there.
DevicePtr CudaBackend::do_alloc(std::uint64_t bytes) {
  const Current current(*context_);
  const CUstream stream = parts_->allocations.get();
  const DevicePtr memory = allocate(bytes, stream);
  if (!parts_->snapshot.pools) return memory;
  const CUresult result = cu().stream_synchronize(stream);
  if (result != CUDA_SUCCESS) static_cast<void>(parts_->memory.release(memory.address(), stream));
  check(result, "allocating device memory");
  return memory;
}

void CudaBackend::do_free(DevicePtr memory) {
  const Current current(*context_);
  wait_for_all();
  check(parts_->memory.release(memory.address(), parts_->allocations.get()), "freeing device memory");
}

DevicePtr CudaBackend::do_alloc_async(std::uint64_t bytes, Native stream) {
  const Current current(*context_);
  return allocate(bytes, stream_of(stream).get());
}

void CudaBackend::do_free_async(DevicePtr memory, Native stream) {
  const Current current(*context_);
  check(parts_->memory.release(memory.address(), stream_of(stream).get()), "freeing device memory");
}

void CudaBackend::do_fill(DevicePtr dst, std::uint32_t value, std::uint32_t width, std::uint64_t count, Native stream) {
  const Current current(*context_);
  const CUstream queue = stream_of(stream).get();
  const CUdeviceptr to = dst.address();
  const CUresult result = width == 1   ? cu().memset_d8_async(to, static_cast<unsigned char>(value), count, queue)
                          : width == 2 ? cu().memset_d16_async(to, static_cast<unsigned short>(value), count, queue)
                                       : cu().memset_d32_async(to, value, count, queue);
  check(result, "filling device memory");
}

template <class Copy>
void CudaBackend::copy_and_wait(std::string_view doing, const Copy& copy) {
  const Current current(*context_);
  const CUstream stream = parts_->copies.get();
  check(copy(stream), doing);
  check(cu().stream_synchronize(stream), doing);
}

void CudaBackend::do_copy_h2d(DevicePtr dst, const void* src, std::uint64_t bytes) {
  copy_and_wait("copying to the device",
                [&](CUstream stream) { return cu().memcpy_htod_async(dst.address(), src, bytes, stream); });
}

void CudaBackend::do_copy_d2h(void* dst, DevicePtr src, std::uint64_t bytes) {
  copy_and_wait("copying from the device",
                [&](CUstream stream) { return cu().memcpy_dtoh_async(dst, src.address(), bytes, stream); });
}

void CudaBackend::do_copy_d2d(DevicePtr dst, DevicePtr src, std::uint64_t bytes) {
  copy_and_wait("copying on the device",
                [&](CUstream stream) { return cu().memcpy_dtod_async(dst.address(), src.address(), bytes, stream); });
}

// Whether the driver itself reads this host memory after a copy call has returned: memory that someone else has
// page-locked with CUDA, or any memory where the GPU walks the host's page tables.
bool CudaBackend::read_late(const void* memory, std::uint64_t bytes) const {
  if (parts_->snapshot.host_page_tables) return true;
  const auto first = reinterpret_cast<CUdeviceptr>(memory);
  for (const CUdeviceptr address : {first, first + (bytes - 1)}) {
    int type = 0;
    if (cu().pointer_get_attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == CUDA_SUCCESS) return true;
  }
  return false;
}

void CudaBackend::do_copy_h2d_async(DevicePtr dst, const void* src, std::uint64_t bytes, bool pinned, Native stream) {
  const Current current(*context_);
  CudaStream& queue = stream_of(stream);
  check(cu().memcpy_htod_async(dst.address(), src, bytes, queue.get()), "copying to the device");
  if (!pinned && read_late(src, bytes)) static_cast<void>(wait_for(queue, std::nullopt));
}

void CudaBackend::do_copy_d2h_async(void* dst, DevicePtr src, std::uint64_t bytes, bool, Native stream) {
  const Current current(*context_);
  check(cu().memcpy_dtoh_async(dst, src.address(), bytes, stream_of(stream).get()), "copying from the device");
}

void CudaBackend::do_copy_d2d_async(DevicePtr dst, DevicePtr src, std::uint64_t bytes, Native stream) {
  const Current current(*context_);
  check(cu().memcpy_dtod_async(dst.address(), src.address(), bytes, stream_of(stream).get()), "copying on the device");
}

void CudaBackend::do_copy_2d_d2d_async(DevicePtr dst, std::uint64_t dst_pitch, DevicePtr src, std::uint64_t src_pitch,
                                       std::uint64_t width, std::uint64_t height, Native stream) {
  const Current current(*context_);
  const CUstream queue = stream_of(stream).get();
  if (dst_pitch > parts_->snapshot.max_pitch || src_pitch > parts_->snapshot.max_pitch) {
    for (std::uint64_t row = 0; row < height; ++row) {
      check(cu().memcpy_dtod_async(dst.offset(row * dst_pitch).address(), src.offset(row * src_pitch).address(), width,
                                   queue),
            "copying rows on the device");
    }
    return;
  }
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = src.address();
  copy.srcPitch = src_pitch;
  copy.dstDevice = dst.address();
  copy.dstPitch = dst_pitch;
  copy.WidthInBytes = width;
  copy.Height = height;
  check(cu().memcpy_2d_async(&copy, queue), "copying rows on the device");
}

void* CudaBackend::do_alloc_pinned(std::uint64_t bytes) {
  const Current current(*context_);
  void* memory = nullptr;
  const CUresult result = cu().mem_host_alloc(&memory, bytes, CU_MEMHOSTALLOC_PORTABLE);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    throw Error(ErrorCode::out_of_host_memory,
                detail::format("alloc_pinned: the driver cannot page-lock {} bytes of host memory", bytes), result,
                result_name(result));
  }
  check(result, "allocating page-locked memory");
  return memory;
}

void CudaBackend::do_free_pinned(void* memory) {
  const Current current(*context_);
  wait_for_all();
  check(cu().mem_free_host(memory), "freeing page-locked memory");
}

MemoryInfo CudaBackend::do_memory_info() {
  const Current current(*context_);
  return naming_culprits("asking for free memory", [&] { return parts_->memory.info(); });
}

}  // namespace kdart::cuda
