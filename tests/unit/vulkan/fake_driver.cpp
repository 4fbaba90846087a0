#include "tests/unit/vulkan/fake_driver.h"

#include <algorithm>
#include <cstring>

namespace kdart::test {

using vulkan::has_feature;
using vulkan::PhysicalDeviceFacts;

namespace {

FakePhysicalDevice& of(VkPhysicalDevice handle) {
  return *reinterpret_cast<FakePhysicalDevice*>(handle);
}

template <std::size_t size>
void set_text(char (&field)[size], const std::string& text) {
  const std::size_t length = std::min(text.size(), size - 1);
  std::memcpy(field, text.data(), length);
  field[length] = '\0';
}

// Calls `fill` for each structure behind a head, and records its type.
template <class Fill>
void for_each_chained(FakePhysicalDevice& device, void* first, const Fill& fill) {
  for (auto* next = static_cast<VkBaseOutStructure*>(first); next != nullptr; next = next->pNext) {
    device.asked.insert(next->sType);
    fill(next);
  }
}

template <class Structure>
Structure& as(VkBaseOutStructure* structure) {
  return *reinterpret_cast<Structure*>(structure);
}

void VKAPI_CALL get_properties(VkPhysicalDevice handle, VkPhysicalDeviceProperties* out) {
  const PhysicalDeviceFacts& facts = of(handle).facts;
  *out = {};
  out->apiVersion = facts.api_version;
  out->driverVersion = facts.driver_version;
  out->vendorID = facts.vendor_id;
  out->deviceID = facts.device_id;
  out->deviceType = facts.type;
  set_text(out->deviceName, facts.name);
  std::copy(facts.cache_uuid.begin(), facts.cache_uuid.end(), out->pipelineCacheUUID);
  VkPhysicalDeviceLimits& limits = out->limits;
  limits.maxComputeSharedMemorySize = facts.max_shared_memory;
  limits.maxComputeWorkGroupInvocations = facts.max_invocations;
  std::copy(facts.max_group_size.begin(), facts.max_group_size.end(), limits.maxComputeWorkGroupSize);
  std::copy(facts.max_group_count.begin(), facts.max_group_count.end(), limits.maxComputeWorkGroupCount);
  limits.maxPushConstantsSize = facts.max_push_constants;
  limits.maxMemoryAllocationCount = facts.max_allocation_count;
  limits.nonCoherentAtomSize = facts.non_coherent_atom;
  limits.timestampPeriod = static_cast<float>(facts.timestamp_period);
}

void fill_property(const PhysicalDeviceFacts& facts, VkBaseOutStructure* structure) {
  switch (structure->sType) {
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES: {
      auto& ids = as<VkPhysicalDeviceIDProperties>(structure);
      std::copy(facts.device_uuid.begin(), facts.device_uuid.end(), ids.deviceUUID);
      std::copy(facts.driver_uuid.begin(), facts.driver_uuid.end(), ids.driverUUID);
      break;
    }
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES:
      as<VkPhysicalDeviceMaintenance3Properties>(structure).maxMemoryAllocationSize = facts.max_allocation;
      break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES: {
      auto& subgroups = as<VkPhysicalDeviceSubgroupProperties>(structure);
      subgroups.subgroupSize = facts.subgroup_size;
      subgroups.supportedStages = VK_SHADER_STAGE_COMPUTE_BIT | VK_SHADER_STAGE_FRAGMENT_BIT;
      subgroups.supportedOperations = facts.subgroup_operations;
      break;
    }
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES: {
      auto& floats = as<VkPhysicalDeviceFloatControlsProperties>(structure);
      floats.shaderDenormPreserveFloat32 = facts.denorm_preserve ? VK_TRUE : VK_FALSE;
      floats.shaderSignedZeroInfNanPreserveFloat32 = facts.signed_zero_inf_nan_preserve ? VK_TRUE : VK_FALSE;
      floats.shaderRoundingModeRTEFloat32 = facts.rounding_to_nearest_even ? VK_TRUE : VK_FALSE;
      break;
    }
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES: {
      auto& driver = as<VkPhysicalDeviceDriverProperties>(structure);
      driver.driverID = facts.driver_id;
      set_text(driver.driverName, facts.driver_name);
      set_text(driver.driverInfo, facts.driver_info);
      break;
    }
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES: {
      auto& sizes = as<VkPhysicalDeviceSubgroupSizeControlProperties>(structure);
      sizes.minSubgroupSize = facts.subgroup_min;
      sizes.maxSubgroupSize = facts.subgroup_max;
      break;
    }
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES:
      as<VkPhysicalDeviceMaintenance4Properties>(structure).maxBufferSize = facts.max_buffer;
      break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT: {
      const vulkan::PciAddress pci = facts.pci.value_or(vulkan::PciAddress{});
      auto& bus = as<VkPhysicalDevicePCIBusInfoPropertiesEXT>(structure);
      bus.pciDomain = pci.domain;
      bus.pciBus = pci.bus;
      bus.pciDevice = pci.device;
      bus.pciFunction = pci.function;
      break;
    }
    default:
      break;
  }
}

void VKAPI_CALL get_properties_2(VkPhysicalDevice handle, VkPhysicalDeviceProperties2* out) {
  of(handle).asked_beyond_1_0 = true;
  get_properties(handle, &out->properties);
  for_each_chained(of(handle), out->pNext,
                   [&](VkBaseOutStructure* structure) { fill_property(of(handle).facts, structure); });
}

void fill_feature(const PhysicalDeviceFacts& facts, VkBaseOutStructure* structure) {
  const auto has = [&](std::string_view name) { return has_feature(facts, name) ? VK_TRUE : VK_FALSE; };
  switch (structure->sType) {
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES:
      as<VkPhysicalDevice16BitStorageFeatures>(structure).storageBuffer16BitAccess = has("storageBuffer16BitAccess");
      break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES:
      as<VkPhysicalDevice8BitStorageFeatures>(structure).storageBuffer8BitAccess = has("storageBuffer8BitAccess");
      break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES:
      as<VkPhysicalDeviceShaderFloat16Int8Features>(structure).shaderFloat16 = has("shaderFloat16");
      as<VkPhysicalDeviceShaderFloat16Int8Features>(structure).shaderInt8 = has("shaderInt8");
      break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES:
      as<VkPhysicalDeviceBufferDeviceAddressFeatures>(structure).bufferDeviceAddress = has("bufferDeviceAddress");
      break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES:
      as<VkPhysicalDeviceTimelineSemaphoreFeatures>(structure).timelineSemaphore = has("timelineSemaphore");
      break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES: {
      auto& model = as<VkPhysicalDeviceVulkanMemoryModelFeatures>(structure);
      model.vulkanMemoryModel = has("vulkanMemoryModel");
      model.vulkanMemoryModelDeviceScope = has("vulkanMemoryModelDeviceScope");
      break;
    }
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_HOST_QUERY_RESET_FEATURES:
      as<VkPhysicalDeviceHostQueryResetFeatures>(structure).hostQueryReset = has("hostQueryReset");
      break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES:
      as<VkPhysicalDeviceSubgroupSizeControlFeatures>(structure).subgroupSizeControl = has("subgroupSizeControl");
      as<VkPhysicalDeviceSubgroupSizeControlFeatures>(structure).computeFullSubgroups = has("computeFullSubgroups");
      break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SYNCHRONIZATION_2_FEATURES:
      as<VkPhysicalDeviceSynchronization2Features>(structure).synchronization2 = has("synchronization2");
      break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES:
      as<VkPhysicalDeviceMaintenance4Features>(structure).maintenance4 = has("maintenance4");
      break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR:
      as<VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR>(structure).pipelineExecutableInfo =
          has("pipelineExecutableInfo");
      break;
    default:
      break;
  }
}

void VKAPI_CALL get_features_2(VkPhysicalDevice handle, VkPhysicalDeviceFeatures2* out) {
  FakePhysicalDevice& device = of(handle);
  device.asked_beyond_1_0 = true;
  out->features.shaderInt64 = has_feature(device.facts, "shaderInt64") ? VK_TRUE : VK_FALSE;
  out->features.shaderInt16 = has_feature(device.facts, "shaderInt16") ? VK_TRUE : VK_FALSE;
  for_each_chained(device, out->pNext, [&](VkBaseOutStructure* structure) { fill_feature(device.facts, structure); });
}

void VKAPI_CALL get_queue_families(VkPhysicalDevice handle, std::uint32_t* count, VkQueueFamilyProperties* out) {
  const auto& families = of(handle).facts.queue_families;
  if (out == nullptr) {
    *count = static_cast<std::uint32_t>(families.size());
    return;
  }
  for (std::size_t i = 0; i < families.size() && i < *count; ++i)
    out[i] = {families[i].flags, families[i].count, families[i].timestamp_bits, {1, 1, 1}};
}

void VKAPI_CALL get_memory_2(VkPhysicalDevice handle, VkPhysicalDeviceMemoryProperties2* out) {
  FakePhysicalDevice& device = of(handle);
  device.asked_beyond_1_0 = true;
  VkPhysicalDeviceMemoryProperties& memory = out->memoryProperties;
  memory = {};
  for (const auto& type : device.facts.memory_types)
    memory.memoryTypes[memory.memoryTypeCount++] = {type.flags, type.heap};
  for (const auto& heap : device.facts.memory_heaps)
    memory.memoryHeaps[memory.memoryHeapCount++] = {heap.bytes, heap.flags};
  for_each_chained(device, out->pNext, [&](VkBaseOutStructure* structure) {
    if (structure->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT) return;
    auto& budget = as<VkPhysicalDeviceMemoryBudgetPropertiesEXT>(structure);
    std::copy_n(device.budget.heapBudget, VK_MAX_MEMORY_HEAPS, budget.heapBudget);
    std::copy_n(device.budget.heapUsage, VK_MAX_MEMORY_HEAPS, budget.heapUsage);
  });
}

VkResult VKAPI_CALL enumerate_extensions(VkPhysicalDevice handle, const char*, std::uint32_t* count,
                                         VkExtensionProperties* out) {
  FakePhysicalDevice& device = of(handle);
  if (device.extensions_result != VK_SUCCESS) return device.extensions_result;
  const auto& names = device.facts.extensions;
  if (out == nullptr) {
    *count = static_cast<std::uint32_t>(names.size()) - (device.has_late_extension ? 1 : 0);
    return VK_SUCCESS;
  }
  const std::size_t given = std::min<std::size_t>(*count, names.size());
  for (std::size_t i = 0; i < given; ++i) set_text(out[i].extensionName, names[i]);
  *count = static_cast<std::uint32_t>(given);
  device.has_late_extension = false;
  return given < names.size() ? VK_INCOMPLETE : VK_SUCCESS;
}

VkResult VKAPI_CALL enumerate_devices(VkInstance handle, std::uint32_t* count, VkPhysicalDevice* out) {
  FakeInstance& instance = *reinterpret_cast<FakeInstance*>(handle);
  if (instance.result != VK_SUCCESS) return instance.result;
  if (out == nullptr) {
    *count = static_cast<std::uint32_t>(instance.devices.size());
    return VK_SUCCESS;
  }
  if (instance.incomplete > 0) {
    --instance.incomplete;
    return VK_INCOMPLETE;
  }
  const std::size_t given = std::min<std::size_t>(*count, instance.devices.size());
  for (std::size_t i = 0; i < given; ++i) out[i] = instance.devices[i]->handle();
  *count = static_cast<std::uint32_t>(given);
  return given < instance.devices.size() ? VK_INCOMPLETE : VK_SUCCESS;
}

}  // namespace

FakePhysicalDevice& FakeInstance::add(PhysicalDeviceFacts facts) {
  devices.push_back(std::make_unique<FakePhysicalDevice>());
  devices.back()->facts = std::move(facts);
  return *devices.back();
}

vulkan::InstanceFunctions fake_instance_functions() {
  vulkan::InstanceFunctions functions;
  functions.vkEnumeratePhysicalDevices = enumerate_devices;
  functions.vkGetPhysicalDeviceProperties = get_properties;
  functions.vkGetPhysicalDeviceProperties2 = get_properties_2;
  functions.vkGetPhysicalDeviceFeatures2 = get_features_2;
  functions.vkGetPhysicalDeviceQueueFamilyProperties = get_queue_families;
  functions.vkGetPhysicalDeviceMemoryProperties2 = get_memory_2;
  functions.vkEnumerateDeviceExtensionProperties = enumerate_extensions;
  return functions;
}

}  // namespace kdart::test
