// A Vulkan device that a test makes itself, as an engine would, for kdart to adopt.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kdart/vulkan.h"
#include "tests/unit/vulkan/vulkan_device.h"

namespace kdart::test {

// What kdart needs of a device.
[[nodiscard]] std::vector<std::string> needed_features();

class OwnDevice {
 public:
  // With exactly these features, by Vulkan's names.
  explicit OwnDevice(std::vector<std::string> features = needed_features());
  ~OwnDevice();
  OwnDevice(const OwnDevice&) = delete;
  OwnDevice& operator=(const OwnDevice&) = delete;

  // What adopt_vulkan_device takes: no locks.
  [[nodiscard]] VulkanDevice description() const;
  [[nodiscard]] VkDevice get() const noexcept { return device_; }
  [[nodiscard]] VkQueue queue() const noexcept { return queue_; }
  [[nodiscard]] std::uint32_t queue_family() const noexcept { return found_.listed.plan.queue_family; }
  [[nodiscard]] const vulkan::DeviceFunctions& fn() const noexcept { return functions_; }
  [[nodiscard]] const FoundDevice& found() const noexcept { return found_; }

  // A buffer of the test's own in host-visible memory.
  struct Memory {
    VkBuffer buffer = VK_NULL_HANDLE;
    VkDeviceMemory memory = VK_NULL_HANDLE;
    std::uint64_t address = 0;
    std::byte* data = nullptr;  // as the host sees it
  };
  [[nodiscard]] Memory make_memory(std::uint64_t bytes) const;
  void release(const Memory& memory) const;
  // Fills the buffer with vkCmdFillBuffer on the queue and waits: the device works without kdart.
  void fill(const Memory& memory, std::uint32_t word) const;

 private:
  FoundDevice found_;
  std::vector<std::string> features_;
  VkDevice device_ = VK_NULL_HANDLE;
  VkQueue queue_ = VK_NULL_HANDLE;
  vulkan::DeviceFunctions functions_;
};

}  // namespace kdart::test
