// Sharing a Vulkan device with the program that made it. No Vulkan header is needed here: handles are what vulkan.h calls
// them, as pointers. Only in a library that was built with the Vulkan backend.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kdart/backend.h"
#include "kdart/export.h"

namespace kdart {

// A device that the caller made and keeps.
struct VulkanDevice {
  // PFN_vkGetInstanceProcAddr of the loader that made `instance`. Everything is looked up through it.
  void (*(*get_instance_proc_addr)(void* instance, const char* name))() = nullptr;
  void* instance = nullptr;         // VkInstance
  void* physical_device = nullptr;  // VkPhysicalDevice
  void* device = nullptr;           // VkDevice
  std::uint32_t api_version = 0;    // that the instance and device were made for, as VK_MAKE_API_VERSION packs it
  void* queue = nullptr;            // VkQueue: a queue of `queue_family` with compute
  std::uint32_t queue_family = 0;
  // Device extensions and features that were enabled, by Vulkan's names ("bufferDeviceAddress", "shaderInt64",
  // "storageBuffer16BitAccess", "timelineSemaphore" are needed). What is not listed is not used.
  std::vector<std::string> extensions, features;
  // Called around every use of the queue, from any thread; both or none. Without them nobody else may use the queue while
  // kdart has the device.
  std::function<void()> lock_queue = {}, unlock_queue = {};
};

// kdart on the caller's device: one queue, the caller's lock around it, memory and pipelines of kdart's own. Nothing of
// `device` is destroyed, and all of it must outlive the backend and everything that keeps the backend alive. Its id is
// "vulkan:N", N as open_device would have it where the device is found in the list, else 0.
// Throws Error: invalid_argument (a null handle, one lock without the other), driver_too_old (an entry point is absent),
// unsupported (a needed feature or extension is not listed, by name).
[[nodiscard]] KDART_API std::shared_ptr<GpuBackend> adopt_vulkan_device(const VulkanDevice& device,
                                                                        const OpenOptions& options = {});

}  // namespace kdart
