// A device address of the CPU backend is a host address.
#pragma once

#include <cstdint>

#include "kdart/types.h"

namespace kdart::cpu {

[[nodiscard]] inline void* pointer_to(DevicePtr memory) noexcept {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(memory.address()));
}
[[nodiscard]] inline DevicePtr address_of(const void* memory) noexcept {
  return DevicePtr(reinterpret_cast<std::uintptr_t>(memory));
}

}  // namespace kdart::cpu
