// The Vulkan device that these tests open, through the public interface or below it.
#pragma once

#include <memory>
#include <string>

#include "backends/vulkan/list.h"
#include "backends/vulkan/loader.h"
#include "kdart/device_info.h"
#include "tests/support/test_device.h"

namespace kdart::test {

// --device when it names a Vulkan device, else "vulkan:0".
[[nodiscard]] std::string vulkan_device_id();
[[nodiscard]] TestDevice open_vulkan(const OpenOptions& options = {});

// The same device as the backend's own parts find it.
struct FoundDevice {
  explicit FoundDevice(const OpenOptions& options = {});

  std::shared_ptr<const vulkan::Instance> instance;
  vulkan::ListedDevice listed;
};

// Skips the test where the Khronos validation layer is not installed; fails it when --require-device vulkan says that
// nothing may be missing.
void need_validation_layer();

}  // namespace kdart::test
