// Where an image has a kernel's arguments.
#pragma once

#include <cstdint>

namespace kdart::common {

struct KernelArgument {
  std::uint32_t offset = 0, size = 0;  // bytes
  friend bool operator==(const KernelArgument&, const KernelArgument&) = default;
};

}  // namespace kdart::common
