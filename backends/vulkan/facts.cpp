#include "backends/vulkan/facts.h"

#include <algorithm>
#include <cstring>

#include "backends/vulkan/errors.h"
#include "backends/vulkan/features.h"

namespace kdart::vulkan {
namespace {

// A fixed array of characters that a driver filled, with or without its end.
template <std::size_t size>
std::string text_of(const char (&text)[size]) {
  return {text, strnlen(text, size)};
}

std::vector<std::string> read_extensions(const InstanceFunctions& functions, VkPhysicalDevice device) {
  constexpr std::string_view doing = "listing a Vulkan device's extensions";
  for (;;) {
    std::uint32_t count = 0;
    check_vk(functions.vkEnumerateDeviceExtensionProperties(device, nullptr, &count, nullptr), doing);
    std::vector<VkExtensionProperties> properties(count);
    const VkResult result = functions.vkEnumerateDeviceExtensionProperties(device, nullptr, &count, properties.data());
    if (result == VK_INCOMPLETE) continue;  // an implicit layer added one meanwhile
    check_vk(result, doing);
    properties.resize(count);
    std::vector<std::string> names;
    for (const VkExtensionProperties& extension : properties) names.push_back(text_of(extension.extensionName));
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
  }
}

void take_limits(PhysicalDeviceFacts& facts, const VkPhysicalDeviceLimits& limits) {
  facts.max_shared_memory = limits.maxComputeSharedMemorySize;
  facts.max_invocations = limits.maxComputeWorkGroupInvocations;
  std::copy_n(limits.maxComputeWorkGroupSize, 3, facts.max_group_size.begin());
  std::copy_n(limits.maxComputeWorkGroupCount, 3, facts.max_group_count.begin());
  facts.max_push_constants = limits.maxPushConstantsSize;
  facts.max_allocation_count = limits.maxMemoryAllocationCount;
  facts.non_coherent_atom = std::max<std::uint64_t>(1, limits.nonCoherentAtomSize);
  facts.timestamp_period = static_cast<double>(limits.timestampPeriod);
}

// The properties outside VkPhysicalDeviceProperties, each structure in the chain only where the device knows it.
class PropertyChain {
 public:
  explicit PropertyChain(const PhysicalDeviceFacts& facts) {
    head_.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    const auto known = [&](std::uint32_t since, std::string_view extension) {
      return facts.api_version >= since || has_extension(facts, extension);
    };
    add(true, ids_, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES);
    add(true, allocations_, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES);
    add(true, subgroups_, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES);
    add(known(VK_API_VERSION_1_2, "VK_KHR_driver_properties"), driver_,
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES);
    add(known(VK_API_VERSION_1_2, "VK_KHR_shader_float_controls"), floats_,
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES);
    add(known(VK_API_VERSION_1_3, "VK_EXT_subgroup_size_control"), subgroup_sizes_,
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES);
    add(known(VK_API_VERSION_1_3, "VK_KHR_maintenance4"), buffers_,
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES);
    add(has_extension(facts, "VK_EXT_pci_bus_info"), pci_,
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT);
  }
  PropertyChain(const PropertyChain&) = delete;
  PropertyChain& operator=(const PropertyChain&) = delete;

  [[nodiscard]] VkPhysicalDeviceProperties2& head() noexcept { return head_; }

  // A structure that was not asked for is all zeros.
  void give(PhysicalDeviceFacts& facts) const {
    std::copy_n(ids_.deviceUUID, VK_UUID_SIZE, facts.device_uuid.begin());
    std::copy_n(ids_.driverUUID, VK_UUID_SIZE, facts.driver_uuid.begin());
    facts.max_allocation = allocations_.maxMemoryAllocationSize;
    facts.max_buffer = buffers_.maxBufferSize;
    facts.driver_id = driver_.driverID;
    facts.driver_name = text_of(driver_.driverName);
    facts.driver_info = text_of(driver_.driverInfo);
    if (pci_.sType != 0) facts.pci = {pci_.pciDomain, pci_.pciBus, pci_.pciDevice, pci_.pciFunction};
    facts.denorm_preserve = floats_.shaderDenormPreserveFloat32 != VK_FALSE;
    facts.signed_zero_inf_nan_preserve = floats_.shaderSignedZeroInfNanPreserveFloat32 != VK_FALSE;
    facts.rounding_to_nearest_even = floats_.shaderRoundingModeRTEFloat32 != VK_FALSE;
    facts.subgroup_size = subgroups_.subgroupSize;
    if ((subgroups_.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0)
      facts.subgroup_operations = subgroups_.supportedOperations;
    facts.subgroup_range_known = subgroup_sizes_.sType != 0 && subgroup_sizes_.minSubgroupSize != 0;
    facts.subgroup_min = facts.subgroup_range_known ? subgroup_sizes_.minSubgroupSize : facts.subgroup_size;
    facts.subgroup_max = facts.subgroup_range_known ? subgroup_sizes_.maxSubgroupSize : facts.subgroup_size;
  }

 private:
  template <class Structure>
  void add(bool known, Structure& structure, VkStructureType type) noexcept {
    if (!known) return;
    structure.sType = type;
    structure.pNext = head_.pNext;
    head_.pNext = &structure;
  }

  VkPhysicalDeviceProperties2 head_{};
  VkPhysicalDeviceIDProperties ids_{};
  VkPhysicalDeviceFloatControlsProperties floats_{};
  VkPhysicalDeviceMaintenance3Properties allocations_{};
  VkPhysicalDeviceSubgroupProperties subgroups_{};
  VkPhysicalDeviceDriverProperties driver_{};
  VkPhysicalDeviceSubgroupSizeControlProperties subgroup_sizes_{};
  VkPhysicalDeviceMaintenance4Properties buffers_{};
  VkPhysicalDevicePCIBusInfoPropertiesEXT pci_{};
};

void read_queue_families(PhysicalDeviceFacts& facts, const InstanceFunctions& functions, VkPhysicalDevice device) {
  std::uint32_t count = 0;
  functions.vkGetPhysicalDeviceQueueFamilyProperties(device, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  functions.vkGetPhysicalDeviceQueueFamilyProperties(device, &count, families.data());
  families.resize(count);
  for (const VkQueueFamilyProperties& family : families)
    facts.queue_families.push_back({family.queueFlags, family.queueCount, family.timestampValidBits});
}

void read_memory(PhysicalDeviceFacts& facts, const InstanceFunctions& functions, VkPhysicalDevice device) {
  VkPhysicalDeviceMemoryProperties2 properties{};
  properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
  functions.vkGetPhysicalDeviceMemoryProperties2(device, &properties);
  const VkPhysicalDeviceMemoryProperties& memory = properties.memoryProperties;
  for (std::uint32_t i = 0; i < std::min(memory.memoryTypeCount, VK_MAX_MEMORY_TYPES); ++i)
    facts.memory_types.push_back({memory.memoryTypes[i].propertyFlags, memory.memoryTypes[i].heapIndex});
  for (std::uint32_t i = 0; i < std::min(memory.memoryHeapCount, VK_MAX_MEMORY_HEAPS); ++i)
    facts.memory_heaps.push_back({memory.memoryHeaps[i].size, memory.memoryHeaps[i].flags});
}

}  // namespace

PhysicalDeviceFacts read_facts(const InstanceFunctions& functions, VkPhysicalDevice device,
                               std::uint32_t instance_version) {
  PhysicalDeviceFacts facts;
  VkPhysicalDeviceProperties properties{};
  functions.vkGetPhysicalDeviceProperties(device, &properties);
  facts.name = text_of(properties.deviceName);
  facts.api_version = properties.apiVersion;
  facts.driver_version = properties.driverVersion;
  facts.vendor_id = properties.vendorID;
  facts.device_id = properties.deviceID;
  facts.type = properties.deviceType;
  std::copy_n(properties.pipelineCacheUUID, VK_UUID_SIZE, facts.cache_uuid.begin());
  take_limits(facts, properties.limits);
  read_queue_families(facts, functions, device);
  if (facts.api_version < VK_API_VERSION_1_1) return facts;  // it knows none of the functions below

  // What an instance was not made for may not be used, whatever the device has.
  const auto without_patch = [](std::uint32_t version) { return version - VK_API_VERSION_PATCH(version); };
  if (without_patch(facts.api_version) > without_patch(instance_version)) facts.api_version = instance_version;
  facts.extensions = read_extensions(functions, device);
  PropertyChain more(facts);
  functions.vkGetPhysicalDeviceProperties2(device, &more.head());
  more.give(facts);
  FeatureChain features(facts.api_version, facts.extensions);
  functions.vkGetPhysicalDeviceFeatures2(device, &features.head());
  facts.features = features.names();
  read_memory(facts, functions, device);
  return facts;
}

std::vector<HeapBudget> read_budgets(const InstanceFunctions& functions, VkPhysicalDevice device,
                                     const PhysicalDeviceFacts& facts) {
  if (!has_extension(facts, "VK_EXT_memory_budget")) return {};
  VkPhysicalDeviceMemoryBudgetPropertiesEXT budget{};
  budget.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT;
  VkPhysicalDeviceMemoryProperties2 properties{};
  properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
  properties.pNext = &budget;
  functions.vkGetPhysicalDeviceMemoryProperties2(device, &properties);
  std::vector<HeapBudget> budgets;
  for (std::size_t i = 0; i < facts.memory_heaps.size(); ++i) {
    const std::uint64_t allowed = std::min<std::uint64_t>(budget.heapBudget[i], facts.memory_heaps[i].bytes);
    budgets.push_back({allowed, std::min<std::uint64_t>(budget.heapUsage[i], allowed)});
  }
  return budgets;
}

bool has_feature(const PhysicalDeviceFacts& facts, std::string_view name) {
  return std::find(facts.features.begin(), facts.features.end(), name) != facts.features.end();
}

bool has_extension(const PhysicalDeviceFacts& facts, std::string_view name) {
  return std::find(facts.extensions.begin(), facts.extensions.end(), name) != facts.extensions.end();
}

}  // namespace kdart::vulkan
