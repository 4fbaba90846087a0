// The Vulkan loader library, and an instance made through it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/vulkan/functions.h"
#include "kdart/device_info.h"

namespace kdart::vulkan {

// libvulkan, found as core/runtime/driver_library.h says. Throws Error: driver_missing, driver_too_old when it is none of
// Vulkan's loaders.
class Library {
 public:
  explicit Library(const OpenOptions& options);
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  [[nodiscard]] const GlobalFunctions& functions() const noexcept { return functions_; }
  [[nodiscard]] const std::string& file() const noexcept { return file_; }  // as the system resolved it

 private:
  std::string file_;
  GlobalFunctions functions_;
};

// Fills a table through vkGetInstanceProcAddr or vkGetDeviceProcAddr. Throws Error(driver_too_old) naming the first
// needed entry point that is absent.
[[nodiscard]] InstanceFunctions load_instance_functions(PFN_vkGetInstanceProcAddr get, VkInstance instance);
[[nodiscard]] DeviceFunctions load_device_functions(PFN_vkGetDeviceProcAddr get, VkDevice device);

// VK_ERROR_INITIALIZATION_FAILED and VK_ERROR_INCOMPATIBLE_DRIVER count as no device (Mesa's Intel driver alone answers
// so on a machine without its GPU); VK_INCOMPLETE is retried. Throws Error otherwise.
[[nodiscard]] std::vector<VkPhysicalDevice> enumerate_devices(const InstanceFunctions& functions, VkInstance instance);

// A Vulkan instance (1.3, or 1.2 where the loader has no more) with what the options ask for: with driver_checks, the
// Khronos validation layer, whose warnings and errors go to options.log, each with its message id. No layer is enabled
// otherwise, and no extension but VK_EXT_debug_utils and VK_EXT_validation_features for the checks and
// VK_KHR_portability_enumeration where the loader has it. Throws Error: driver_missing when no driver starts
// (VK_ERROR_INCOMPATIBLE_DRIVER: the text says that the loader was found and which file, and names VK_DRIVER_FILES and its
// like when they are set), driver_too_old when the loader has less than Vulkan 1.2, unsupported when driver_checks are
// asked for and the layer is not installed.
class Instance {
 public:
  Instance(std::shared_ptr<const Library> library, const OpenOptions& options);
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  [[nodiscard]] VkInstance get() const noexcept { return instance_; }
  [[nodiscard]] const InstanceFunctions& functions() const noexcept { return functions_; }
  [[nodiscard]] const Library& library() const noexcept { return *library_; }
  // That it was made for: what it lets a device have.
  [[nodiscard]] std::uint32_t api_version() const noexcept { return api_version_; }

  // Physical devices in the driver's order. Throws what enumerate_devices throws.
  [[nodiscard]] std::vector<VkPhysicalDevice> physical_devices() const {
    return enumerate_devices(functions_, instance_);
  }

 private:
  std::shared_ptr<const Library> library_;
  std::uint32_t api_version_ = 0;
  std::unique_ptr<LogCallback> log_;  // at a fixed address: the messenger refers to it
  VkInstance instance_ = VK_NULL_HANDLE;
  InstanceFunctions functions_;
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
};

}  // namespace kdart::vulkan
