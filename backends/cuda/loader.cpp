#include "backends/cuda/loader.h"

#include "backends/common/started.h"
#include "backends/cuda/errors.h"
#include "core/runtime/fail.h"
#include "core/runtime/messages.h"

namespace kdart::cuda {
namespace {

common::Started started;

// "CUDA 12.4"
std::string version_text(int version) {
  return detail::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
}

[[noreturn]] void fail_start(CUresult result, const std::string& file) {
  const std::string name = result_name(result);
  std::string what;
  switch (result) {
    case CUDA_ERROR_STUB_LIBRARY:
      what = "is the toolkit's stub to link with, and no driver";
      break;
    case CUDA_ERROR_NO_DEVICE:
      what = "found no NVIDIA GPU that it may use";
      break;
    case CUDA_ERROR_NOT_INITIALIZED:
      throw Error(ErrorCode::forked_process,
                  detail::format("the CUDA driver {} did not start: {}, as it answers in a fork of a process that has "
                                 "used it",
                                 detail::quote(file), name),
                  result, name);
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
      what = "and the kernel's module are of different versions (a reboot after an upgrade mends that)";
      break;
    default:
      what = "did not start";
  }
  throw Error(code_of(result),
              detail::format("the CUDA driver {} {} ({}, {})", detail::quote(file), what, name, result), result, name);
}

}  // namespace

std::shared_ptr<const Library> Library::open(const OpenOptions& options) {
  started.refuse_after_fork("the CUDA driver");
  return std::shared_ptr<const Library>(new Library(options));
}

Library::Library(const OpenOptions& options)
    : library_({.what = "the CUDA driver",
                .names = {"libcuda.so.1", "libcuda.so"},
                .entry = "cuInit",
                .path = options.driver_path,
                .instead = options.driver_names}) {
  std::string missing;
#define KDART_CUDA_LOAD(member, symbol_name, parameters) \
  functions_.member = reinterpret_cast<decltype(functions_.member)>(library_.symbol(symbol_name));
#define KDART_CUDA_NEED(member, symbol_name, parameters) \
  KDART_CUDA_LOAD(member, symbol_name, parameters)       \
  if (functions_.member == nullptr && missing.empty()) missing = (symbol_name);
  KDART_CUDA_FUNCTIONS(KDART_CUDA_NEED)
  KDART_CUDA_OPTIONAL_FUNCTIONS(KDART_CUDA_LOAD)
#undef KDART_CUDA_NEED
#undef KDART_CUDA_LOAD
  const auto version = reinterpret_cast<CUresult (*)(int*)>(library_.symbol("cuDriverGetVersion"));
  if (version == nullptr || version(&cuda_version_) != CUDA_SUCCESS) cuda_version_ = 0;
  if (!missing.empty()) {
    detail::fail(ErrorCode::driver_too_old, "the CUDA driver {} ({}) has no {}, which CUDA 11.4 (driver 470) brought",
                 detail::quote(file()), version_text(cuda_version_), missing);
  }
  const CUresult result = functions_.init(0);
  if (result != CUDA_SUCCESS) fail_start(result, file());
  // A stub does not say its version, a driver that has started does.
  if (cuda_version_ == 0)
    check_cuda(functions_.driver_get_version(&cuda_version_), "asking for the CUDA driver's version");
  started.note();
}

}  // namespace kdart::cuda
