// The CUDA driver library, started.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "backends/cuda/api.h"
#include "core/runtime/driver_library.h"
#include "kdart/device_info.h"

namespace kdart::cuda {

// libcuda.so.1, found as core/runtime/driver_library.h says, with its table filled and cuInit called. Immutable.
class Library {
 public:
  // Throws Error: driver_missing (nothing could be opened; or it is the toolkit's stub library, in which every call answers
  // 34), driver_too_old (names the first entry point that is absent, and the version; or the kernel's module and the library
  // do not fit), no_device (cuInit found none), forked_process (a parent of this process started the driver: it cannot be
  // started again in a child).
  [[nodiscard]] static std::shared_ptr<const Library> open(const OpenOptions& options);

  [[nodiscard]] const Functions& functions() const noexcept { return functions_; }
  [[nodiscard]] const std::string& file() const noexcept { return library_.file(); }
  // The newest CUDA that the driver takes: 1000 * major + 10 * minor, as 13000.
  [[nodiscard]] int cuda_version() const noexcept { return cuda_version_; }

 private:
  explicit Library(const OpenOptions& options);

  detail::DriverLibrary library_;
  Functions functions_;
  int cuda_version_ = 0;
};

}  // namespace kdart::cuda
