// Small value types of the device interface: addresses, handles, launch dimensions.
#pragma once

#include <cstdint>
#include <limits>

namespace kdart {

// A 64-bit device address. A value: copying it copies no memory and owns nothing. Null is address 0.
class DevicePtr {
 public:
  constexpr DevicePtr() = default;
  constexpr explicit DevicePtr(std::uint64_t address) : address_(address) {}

  [[nodiscard]] constexpr std::uint64_t address() const noexcept { return address_; }
  // The address `bytes` further on. Nothing is checked here: the result may lie in no allocation.
  [[nodiscard]] constexpr DevicePtr offset(std::uint64_t bytes) const noexcept { return DevicePtr(address_ + bytes); }
  [[nodiscard]] constexpr explicit operator bool() const noexcept { return address_ != 0; }
  friend constexpr auto operator<=>(DevicePtr, DevicePtr) = default;

 private:
  std::uint64_t address_ = 0;
};

// A slot number and the generation that was current when the handle was given out. A default handle names nothing, and a
// handle whose object was destroyed is stale: both are refused with invalid_handle, never followed.
template <class Tag>
class Handle {
 public:
  constexpr Handle() = default;
  constexpr Handle(std::uint32_t index, std::uint32_t generation) : index_(index), generation_(generation) {}

  [[nodiscard]] constexpr std::uint32_t index() const noexcept { return index_; }
  [[nodiscard]] constexpr std::uint32_t generation() const noexcept { return generation_; }  // 0 only in Handle{}
  [[nodiscard]] constexpr explicit operator bool() const noexcept { return generation_ != 0; }
  friend constexpr bool operator==(Handle, Handle) = default;

 private:
  std::uint32_t index_ = 0;
  std::uint32_t generation_ = 0;
};
using Stream = Handle<struct StreamTag>;
using Event = Handle<struct EventTag>;
using Graph = Handle<struct GraphTag>;
using KernelHandle = Handle<struct KernelTag>;

struct Dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
  [[nodiscard]] constexpr std::uint64_t threads() const noexcept {  // saturates instead of wrapping
    const std::uint64_t xy = std::uint64_t{x} * y;
    return z != 0 && xy > std::numeric_limits<std::uint64_t>::max() / z ? std::numeric_limits<std::uint64_t>::max()
                                                                        : xy * z;
  }
  friend constexpr bool operator==(Dim3, Dim3) = default;
};

}  // namespace kdart
