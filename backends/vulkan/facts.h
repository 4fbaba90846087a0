// What a physical device says of itself: raw facts, before anything is decided. A plain value, so that a test can write
// one down for a device that is not at hand.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/vulkan/functions.h"

namespace kdart::vulkan {

struct QueueFamilyFacts {
  VkQueueFlags flags = 0;
  std::uint32_t count = 0;
  std::uint32_t timestamp_bits = 0;  // 0: its queues have no timestamps
  bool operator==(const QueueFamilyFacts&) const = default;
};

struct MemoryTypeFacts {
  VkMemoryPropertyFlags flags = 0;
  std::uint32_t heap = 0;
  bool operator==(const MemoryTypeFacts&) const = default;
};

struct MemoryHeapFacts {
  std::uint64_t bytes = 0;
  VkMemoryHeapFlags flags = 0;
  bool operator==(const MemoryHeapFacts&) const = default;
};

struct PciAddress {
  std::uint32_t domain = 0, bus = 0, device = 0, function = 0;
  bool operator==(const PciAddress&) const = default;
};

struct PhysicalDeviceFacts {
  std::string name, driver_name, driver_info;
  // The device's, or the instance's where that is less, as VK_MAKE_API_VERSION packs it.
  std::uint32_t api_version = 0;
  std::uint32_t driver_version = 0;  // packed as the vendor likes
  std::uint32_t vendor_id = 0, device_id = 0;
  VkPhysicalDeviceType type = VK_PHYSICAL_DEVICE_TYPE_OTHER;
  VkDriverId driver_id = static_cast<VkDriverId>(0);
  std::array<std::uint8_t, VK_UUID_SIZE> device_uuid{}, driver_uuid{}, cache_uuid{};  // cache: pipelineCacheUUID
  std::optional<PciAddress> pci;                                                      // VK_EXT_pci_bus_info
  std::vector<std::string> extensions;                                                // sorted

  // Features by the names that Vulkan gives their fields ("bufferDeviceAddress", "shaderInt64", ..): those that the
  // device has, of the ones in features.h. Sorted.
  std::vector<std::string> features;

  // limits
  std::uint32_t max_shared_memory = 0;  // maxComputeSharedMemorySize
  std::uint32_t max_invocations = 0;    // maxComputeWorkGroupInvocations
  std::array<std::uint32_t, 3> max_group_size{}, max_group_count{};
  std::uint32_t max_push_constants = 0;
  std::uint64_t max_allocation = 0;        // maxMemoryAllocationSize
  std::uint64_t max_buffer = 0;            // maxBufferSize of Vulkan 1.3 or maintenance4; 0 where not stated
  std::uint32_t max_allocation_count = 0;  // maxMemoryAllocationCount
  std::uint64_t non_coherent_atom = 1;
  double timestamp_period = 0;  // nanoseconds per tick
  std::uint32_t subgroup_size = 0;
  // The sizes that a pipeline may have; both subgroup_size where the device does not say.
  std::uint32_t subgroup_min = 0, subgroup_max = 0;
  bool subgroup_range_known = false;               // the device says so: Vulkan 1.3 or VK_EXT_subgroup_size_control
  VkSubgroupFeatureFlags subgroup_operations = 0;  // in compute shaders
  // What can be asked for of 32-bit floats: VkPhysicalDeviceFloatControlsProperties.
  bool denorm_preserve = false, signed_zero_inf_nan_preserve = false, rounding_to_nearest_even = false;

  std::vector<QueueFamilyFacts> queue_families;
  std::vector<MemoryTypeFacts> memory_types;
  std::vector<MemoryHeapFacts> memory_heaps;
  bool operator==(const PhysicalDeviceFacts&) const = default;
};

// Asks the driver. `functions` belong to the instance of `device`, which was made for `instance_version`. Extended
// structures are chained only when the version or the extensions say that they are known there. Of a device with less
// than Vulkan 1.1 only the basic properties are read. Throws Error: what the driver answers.
[[nodiscard]] PhysicalDeviceFacts read_facts(const InstanceFunctions& functions, VkPhysicalDevice device,
                                             std::uint32_t instance_version = VK_API_VERSION_1_3);

// What this process may use of a heap and does use, in bytes, now. Some drivers report more than the heap has, or more
// used than the budget: budget is at most the heap's size and usage at most the budget here, so budget - usage is free.
struct HeapBudget {
  std::uint64_t budget = 0, usage = 0;
};
// Per heap, from VK_EXT_memory_budget; empty where the device does not have it. `facts` are the device's.
[[nodiscard]] std::vector<HeapBudget> read_budgets(const InstanceFunctions& functions, VkPhysicalDevice device,
                                                   const PhysicalDeviceFacts& facts);

// True for a feature or extension that the facts list.
[[nodiscard]] bool has_feature(const PhysicalDeviceFacts& facts, std::string_view name);
[[nodiscard]] bool has_extension(const PhysicalDeviceFacts& facts, std::string_view name);

}  // namespace kdart::vulkan
