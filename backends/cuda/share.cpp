// What belongs to the caller: contexts and streams that it made.
#include <algorithm>

#include "backends/cuda/device.h"
#include "backends/cuda/errors.h"
#include "core/runtime/backend_submit.h"
#include "core/runtime/fail.h"

namespace kdart {
namespace cuda {
namespace {

// The numbers that stand for a context's default stream, and for each thread's own.
constexpr std::uintptr_t legacy_stream = 1;
constexpr std::uintptr_t per_thread_stream = 2;

bool is_special(const void* stream) noexcept {
  const auto number = reinterpret_cast<std::uintptr_t>(stream);
  return number == 0 || number == legacy_stream || number == per_thread_stream;
}

}  // namespace

void CudaBackend::require_own(CUstream stream) const {
  CUcontext owner = nullptr;
  const CUresult result = driver().stream_get_ctx(stream, &owner);
  const bool unknown = result == CUDA_ERROR_INVALID_HANDLE || result == CUDA_ERROR_INVALID_CONTEXT;
  if (unknown || (result == CUDA_SUCCESS && owner != context_->get()))
    detail::fail(ErrorCode::invalid_argument, "adopt_stream: the CUstream is none of the context of {}", info().id);
  check(result, "adopt_stream: asking for a stream's context");
}

Stream CudaBackend::adopt_stream(void* stream) {
  return run([&] {
    const Current current(*context_);
    const auto adopted = static_cast<CUstream>(stream);
    if (!is_special(stream)) require_own(adopted);
    return insert_adopted(adopted);
  });
}

void* CudaBackend::native_stream(Stream stream) const {
  return stream_of(native_of(stream, "native_stream")).get();
}

void* CudaBackend::native_context() const noexcept {
  return context_->get();
}

void* CudaBackend::native_kernel(KernelHandle kernel) const {
  return detail::object_at<Kernel>(native_of(kernel, "native_kernel"))->function();
}

}  // namespace cuda

std::shared_ptr<GpuBackend> adopt_cuda_context(void* context, const OpenOptions& options) {
  if (context == nullptr) detail::fail(ErrorCode::invalid_argument, "adopt_cuda_context: the context is null");
  const auto library = cuda::Library::open(options);
  const cuda::Functions& cu = library->functions();
  const auto adopted = static_cast<cuda::CUcontext>(context);
  cuda::CUdevice device = 0;
  {
    cuda::CUcontext popped = nullptr;
    const cuda::CUresult result = cu.ctx_push_current(adopted);
    if (result == cuda::CUDA_ERROR_INVALID_CONTEXT || result == cuda::CUDA_ERROR_CONTEXT_IS_DESTROYED) {
      detail::fail(ErrorCode::invalid_argument, "adopt_cuda_context: the driver knows no such context");
    }
    cuda::check_cuda(result, "adopt_cuda_context: making the context current");
    const cuda::CUresult asked = cu.ctx_get_device(&device);
    static_cast<void>(cu.ctx_pop_current(&popped));
    cuda::check_cuda(asked, "adopt_cuda_context: asking for the context's device");
  }
  for (std::uint32_t index = 0; index < cuda::device_count(*library); ++index) {
    cuda::CUdevice listed = 0;
    cuda::check_cuda(cu.device_get(&listed, static_cast<int>(index)), "asking for a CUDA device");
    if (listed == device) {
      return std::make_shared<cuda::CudaBackend>(library, cuda::read_snapshot(*library, index), adopted, options);
    }
  }
  detail::fail(ErrorCode::no_device, "adopt_cuda_context: the context's device is none of those that the driver lists");
}

}  // namespace kdart
