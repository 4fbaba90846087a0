// What belongs to the caller: streams that it made.
#include <cstdint>

#include "backends/hip/device.h"
#include "backends/hip/errors.h"
#include "core/runtime/backend_submit.h"
#include "core/runtime/fail.h"

namespace kdart::hip {
namespace {

// Up to this number a handle stands for a device's default stream, or each thread's own.
constexpr std::uintptr_t last_special_stream = 2;

}  // namespace

// Runtimes before ROCm 5.6 do not tell a stream's device, and take any.
void HipBackend::require_own(hipStream_t stream) const {
  if (driver().stream_get_device == nullptr) return;
  hipDevice_t owner = 0;
  const hipError_t result = driver().stream_get_device(stream, &owner);
  const bool unknown = result == hipErrorInvalidHandle || result == hipErrorContextIsDestroyed;
  if (unknown || (result == hipSuccess && owner != context_->device()))
    detail::fail(ErrorCode::invalid_argument, "adopt_stream: the hipStream_t is none of {}", info().id);
  check(result, "adopt_stream: asking for a stream's device");
}

Stream HipBackend::adopt_stream(void* stream) {
  return run([&] {
    const Current current(*context_);
    const auto adopted = static_cast<hipStream_t>(stream);
    if (reinterpret_cast<std::uintptr_t>(stream) > last_special_stream) require_own(adopted);
    return insert_adopted(adopted);
  });
}

void* HipBackend::native_stream(Stream stream) const {
  return stream_of(native_of(stream, "native_stream")).get();
}

void* HipBackend::native_kernel(KernelHandle kernel) const {
  return detail::object_at<Kernel>(native_of(kernel, "native_kernel"))->function();
}

}  // namespace kdart::hip
