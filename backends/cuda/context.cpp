#include "backends/cuda/context.h"

#include <utility>

namespace kdart::cuda {

Context::Context(std::shared_ptr<const Library> library, CUdevice device)
    : library_(std::move(library)), device_(device) {
  check_cuda(driver().device_primary_ctx_retain(&context_, device_), "retaining the device's primary context");
  retained_ = true;
}

Context::Context(std::shared_ptr<const Library> library, CUdevice device, CUcontext adopted) noexcept
    : library_(std::move(library)), device_(device), context_(adopted) {}

Context::~Context() {
  if (retained_) static_cast<void>(driver().device_primary_ctx_release(device_));
}

}  // namespace kdart::cuda
