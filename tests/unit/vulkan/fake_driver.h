// A Vulkan driver of values: what it answers is written down in the test, what it was asked is recorded.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "backends/vulkan/facts.h"
#include "backends/vulkan/functions.h"

namespace kdart::test {

struct FakePhysicalDevice {
  vulkan::PhysicalDeviceFacts facts;  // what it answers
  VkPhysicalDeviceMemoryBudgetPropertiesEXT budget{};
  VkResult extensions_result = VK_SUCCESS;
  bool has_late_extension = false;  // one more at the second of the two calls, once: VK_INCOMPLETE
  // Structures that were chained to a question, by their type.
  std::set<VkStructureType> asked = {};
  bool asked_beyond_1_0 = false;  // a function of Vulkan 1.1

  [[nodiscard]] VkPhysicalDevice handle() { return reinterpret_cast<VkPhysicalDevice>(this); }
};

// What vkEnumeratePhysicalDevices answers: first `incomplete` times VK_INCOMPLETE, then `result`.
struct FakeInstance {
  std::vector<std::unique_ptr<FakePhysicalDevice>> devices = {};
  VkResult result = VK_SUCCESS;
  int incomplete = 0;

  [[nodiscard]] VkInstance handle() { return reinterpret_cast<VkInstance>(this); }
  FakePhysicalDevice& add(vulkan::PhysicalDeviceFacts facts);
};

// The table for handles of the two above; only what finding and judging devices needs is there.
[[nodiscard]] vulkan::InstanceFunctions fake_instance_functions();

}  // namespace kdart::test
