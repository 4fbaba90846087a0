// Finding and opening devices by name.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kdart/backend.h"
#include "kdart/device_info.h"
#include "kdart/error.h"
#include "kdart/export.h"

namespace kdart {

// "vulkan:1" taken apart. "cpu" means "cpu:0".
struct DeviceId {
  std::string backend;
  std::uint32_t index = 0;
  // Throws Error(invalid_argument) saying what a device id looks like. Whether such a device exists is not looked at.
  [[nodiscard]] static KDART_API DeviceId parse(std::string_view text);
  [[nodiscard]] std::string to_string() const { return backend + ":" + std::to_string(index); }
};

// One backend on this machine: its devices, or why it has none.
struct BackendStatus {
  std::string backend;
  std::string driver_library;  // the file opened, "" for the CPU or when none was
  std::vector<DeviceInfo> devices;
  std::optional<ErrorCode> error;  // driver_missing, driver_too_old, no_device, ..
  std::string message;             // the error's, "" when there is none
};

// A vendor's entry in the table that the build generates. Stateless.
class BackendFactory {
 public:
  virtual ~BackendFactory() = default;
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  // Lists devices without keeping any of them open. Throws nothing but out_of_host_memory: failures go into the status.
  [[nodiscard]] virtual BackendStatus status(const OpenOptions& options) const = 0;
  // Throws driver_missing, driver_too_old, no_device (naming the index and how many there are).
  [[nodiscard]] virtual std::shared_ptr<GpuBackend> open(std::uint32_t index, const OpenOptions& options) const = 0;

 protected:
  BackendFactory() = default;
  BackendFactory(const BackendFactory&) = default;
  BackendFactory& operator=(const BackendFactory&) = default;
};

// The backends in this build, in the build's order.
[[nodiscard]] KDART_API std::vector<std::string_view> backend_names();
// One status per backend in this build. A backend that fails hides no other.
[[nodiscard]] KDART_API std::vector<BackendStatus> list_backends(const OpenOptions& options = {});
// Opens "vulkan:0". Throws Error: invalid_argument (not a device id), driver_missing (unknown backend name, listing
// those there are; or its driver is absent, listing every path tried), and what BackendFactory::open throws.
[[nodiscard]] KDART_API std::shared_ptr<GpuBackend> open_device(std::string_view id, const OpenOptions& options = {});

}  // namespace kdart
