// The context that a device's objects live in, and being in it for the time of a call.
#pragma once

#include <memory>

#include "backends/cuda/api.h"
#include "backends/cuda/errors.h"
#include "backends/cuda/loader.h"

namespace kdart::cuda {

// The device's primary context, which all users of the CUDA runtime in the process share: retained once and released once.
// Or the caller's, which is neither.
class Context {
 public:
  // Retains the primary context. Throws what check_cuda throws.
  Context(std::shared_ptr<const Library> library, CUdevice device);
  // The caller's.
  Context(std::shared_ptr<const Library> library, CUdevice device, CUcontext adopted) noexcept;
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  [[nodiscard]] const Functions& driver() const noexcept { return library_->functions(); }
  [[nodiscard]] const Library& library() const noexcept { return *library_; }
  [[nodiscard]] CUcontext get() const noexcept { return context_; }
  [[nodiscard]] CUdevice device() const noexcept { return device_; }

 private:
  std::shared_ptr<const Library> library_;
  CUdevice device_;
  CUcontext context_ = nullptr;
  bool retained_ = false;
};

// Makes a context current on the calling thread; what was current before is so again at the end. Pushes nothing when the
// context is current already.
class Current {
 public:
  // Throws what check_cuda throws: a driver that has shut down, say.
  explicit Current(const Context& context) : cu_(&context.driver()) {
    CUcontext before = nullptr;
    check_cuda(cu_->ctx_get_current(&before), "asking for the current context");
    if (before == context.get()) return;
    check_cuda(cu_->ctx_push_current(context.get()), "making the context current");
    pushed_ = true;
  }
  ~Current() {
    CUcontext popped = nullptr;
    if (pushed_) static_cast<void>(cu_->ctx_pop_current(&popped));
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const Functions* cu_;
  bool pushed_ = false;
};

// The same for letting go of things, which must not end half way: a call that fails is made once more, and where that fails
// too, the driver has shut down or the context is lost, and there is nothing to be entered.
class CurrentToRelease {
 public:
  explicit CurrentToRelease(const Context& context) noexcept : cu_(&context.driver()) {
    CUcontext before = nullptr;
    if (cu_->ctx_get_current(&before) == CUDA_SUCCESS && before == context.get()) return;
    pushed_ =
        cu_->ctx_push_current(context.get()) == CUDA_SUCCESS || cu_->ctx_push_current(context.get()) == CUDA_SUCCESS;
  }
  ~CurrentToRelease() {
    CUcontext popped = nullptr;
    if (pushed_) static_cast<void>(cu_->ctx_pop_current(&popped));
  }
  CurrentToRelease(const CurrentToRelease&) = delete;
  CurrentToRelease& operator=(const CurrentToRelease&) = delete;

 private:
  const Functions* cu_;
  bool pushed_ = false;
};

}  // namespace kdart::cuda
