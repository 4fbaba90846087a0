// The HIP runtime library, started.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/hip/api.h"
#include "core/runtime/driver_library.h"
#include "kdart/device_info.h"

namespace kdart::hip {

// libamdhip64, found as core/runtime/driver_library.h says, with its table filled and hipInit called. Immutable.
class Library {
 public:
  // Throws Error: driver_missing (nothing could be opened), driver_too_old (names the first entry point that is absent),
  // no_device (hipInit found none), forked_process (a parent of this process started the runtime).
  [[nodiscard]] static std::shared_ptr<const Library> open(const OpenOptions& options);

  [[nodiscard]] const Functions& functions() const noexcept { return functions_; }
  [[nodiscard]] const std::string& file() const noexcept { return library_.file(); }
  // As 60342131: 10,000,000 * major + 100,000 * minor + patch.
  [[nodiscard]] int version() const noexcept { return version_; }
  // What the library says it stands in for, where it is no HIP runtime of AMD's: tests have one that runs on another
  // vendor's driver. "" for a real one.
  [[nodiscard]] const std::string& stands_in() const noexcept { return stands_in_; }

 private:
  explicit Library(const OpenOptions& options);

  detail::DriverLibrary library_;
  Functions functions_;
  int version_ = 0;
  std::string stands_in_;
};

// "HIP 6.3.42131"
[[nodiscard]] std::string version_text(int version);

}  // namespace kdart::hip
