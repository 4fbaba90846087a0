#include "bare_launch.h"

#include <dlfcn.h>

#include "core/runtime/fail.h"
#include "core/runtime/format.h"
#include "kdart/cuda.h"
#include "kdart/launch.h"

// The driver's functions are called as what they are in C: a sanitizer would ask for the very types of the driver's header.
#if defined(__clang__)
#define KDART_CALLS_DRIVER __attribute__((no_sanitize("function")))
#else
#define KDART_CALLS_DRIVER
#endif

namespace kdart::probe {
namespace {

// The copy that is open already: kdart never closes one.
void* open_library(const std::string& file) {
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* text = dlerror();
    detail::fail(ErrorCode::driver_missing, "cannot open the device's own library {}: {}", file,
                 text == nullptr ? "" : text);
  }
  return library;
}

template <class Call>
void look_up(void* library, const std::string& file, const char* symbol, Call& call) {
  call = reinterpret_cast<Call>(dlsym(library, symbol));
  if (call == nullptr) detail::fail(ErrorCode::driver_missing, "{} has no {}", file, symbol);
}

void check(int result, const char* call) {
  if (result == 0) return;
  throw Error(ErrorCode::driver_error, detail::format("{}, called by kda-probe itself, returned {}", call, result),
              result, {});
}

}  // namespace

std::unique_ptr<BareLaunch> BareLaunch::find(GpuBackend& backend, KernelHandle kernel, Stream stream,
                                             const kernels::FillArgs& args, std::string& reason) {
  auto* interop = backend.service<CudaInterop>();
  if (interop == nullptr) {
    reason = detail::format("{} has no launch call that kda-probe could make by itself", backend.info().id);
    return nullptr;
  }
  std::unique_ptr<BareLaunch> bare(new BareLaunch());
  const std::string& file = backend.info().driver_library;
  void* library = open_library(file);
  look_up(library, file, "cuLaunchKernel", bare->calls_.launch);
  look_up(library, file, "cuCtxPushCurrent_v2", bare->calls_.push);
  look_up(library, file, "cuCtxPopCurrent_v2", bare->calls_.pop);
  look_up(library, file, "cuCtxGetCurrent", bare->calls_.current);
  bare->context_ = interop->native_context();
  bare->kernel_ = interop->native_kernel(kernel);
  bare->stream_ = interop->native_stream(stream);
  bare->args_ = args;
  bare->parameters_ = {&bare->args_.dst, &bare->args_.n, &bare->args_.value};
  const LaunchRecord record = KernelLaunch(backend, kernel).args(args).record();
  bare->grid_ = record.grid;
  bare->block_ = record.block;
  bare->shared_bytes_ = record.shared_bytes;
  return bare;
}

KDART_CALLS_DRIVER void BareLaunch::push_context() const {
  check(calls_.push(context_), "cuCtxPushCurrent");
}

KDART_CALLS_DRIVER void BareLaunch::pop_context() const {
  void* popped = nullptr;
  check(calls_.pop(&popped), "cuCtxPopCurrent");
}

KDART_CALLS_DRIVER bool BareLaunch::context_is_current() const {
  void* current = nullptr;
  check(calls_.current(&current), "cuCtxGetCurrent");
  return current != nullptr;
}

KDART_CALLS_DRIVER void BareLaunch::launch() const {
  // The driver writes to none of it.
  check(calls_.launch(kernel_, grid_.x, grid_.y, grid_.z, block_.x, block_.y, block_.z, shared_bytes_, stream_,
                      const_cast<void**>(parameters_.data()), nullptr),
        "cuLaunchKernel");
}

}  // namespace kdart::probe
