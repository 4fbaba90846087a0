#include "backends/vulkan/features.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/runtime/fail.h"
#include "core/runtime/messages.h"

namespace kdart::vulkan {
namespace {

constexpr std::uint32_t never_core = std::numeric_limits<std::uint32_t>::max();

}  // namespace

template <class Structure>
void FeatureChain::add(Structure& structure, VkStructureType type, std::uint32_t since, std::string_view extension,
                       std::vector<std::pair<std::string_view, VkBool32*>> fields) {
  for (const auto& [name, value] : fields) fields_.push_back({name, value, parts_.size()});
  parts_.push_back({reinterpret_cast<VkBaseOutStructure*>(&structure), type, since, extension});
}

void FeatureChain::describe() {
  core_.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  add(storage_16_, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES, VK_API_VERSION_1_1, "",
      {{"storageBuffer16BitAccess", &storage_16_.storageBuffer16BitAccess}});
  add(storage_8_, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES, VK_API_VERSION_1_2, "VK_KHR_8bit_storage",
      {{"storageBuffer8BitAccess", &storage_8_.storageBuffer8BitAccess}});
  add(float_16_int_8_, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES, VK_API_VERSION_1_2,
      "VK_KHR_shader_float16_int8",
      {{"shaderFloat16", &float_16_int_8_.shaderFloat16}, {"shaderInt8", &float_16_int_8_.shaderInt8}});
  add(addresses_, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES, VK_API_VERSION_1_2,
      "VK_KHR_buffer_device_address", {{"bufferDeviceAddress", &addresses_.bufferDeviceAddress}});
  add(timelines_, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES, VK_API_VERSION_1_2,
      "VK_KHR_timeline_semaphore", {{"timelineSemaphore", &timelines_.timelineSemaphore}});
  add(memory_model_, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES, VK_API_VERSION_1_2,
      "VK_KHR_vulkan_memory_model",
      {{"vulkanMemoryModel", &memory_model_.vulkanMemoryModel},
       {"vulkanMemoryModelDeviceScope", &memory_model_.vulkanMemoryModelDeviceScope}});
  add(query_reset_, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_HOST_QUERY_RESET_FEATURES, VK_API_VERSION_1_2,
      "VK_EXT_host_query_reset", {{"hostQueryReset", &query_reset_.hostQueryReset}});
  add(subgroup_size_, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES, VK_API_VERSION_1_3,
      "VK_EXT_subgroup_size_control",
      {{"subgroupSizeControl", &subgroup_size_.subgroupSizeControl},
       {"computeFullSubgroups", &subgroup_size_.computeFullSubgroups}});
  add(synchronization_, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SYNCHRONIZATION_2_FEATURES, VK_API_VERSION_1_3,
      "VK_KHR_synchronization2", {{"synchronization2", &synchronization_.synchronization2}});
  add(maintenance_4_, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES, VK_API_VERSION_1_3,
      "VK_KHR_maintenance4", {{"maintenance4", &maintenance_4_.maintenance4}});
  add(executables_, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR, never_core,
      "VK_KHR_pipeline_executable_properties", {{"pipelineExecutableInfo", &executables_.pipelineExecutableInfo}});
  fields_.push_back({"shaderInt64", &core_.features.shaderInt64, parts_.size()});
  fields_.push_back({"shaderInt16", &core_.features.shaderInt16, parts_.size()});
}

void FeatureChain::chain(const Part& part) noexcept {
  part.structure->sType = part.type;
  part.structure->pNext = static_cast<VkBaseOutStructure*>(core_.pNext);
  core_.pNext = part.structure;
}

FeatureChain::FeatureChain(std::uint32_t api_version, const std::vector<std::string>& extensions) {
  describe();
  for (const Part& part : parts_) {
    if (api_version >= part.since ||
        std::find(extensions.begin(), extensions.end(), part.extension) != extensions.end()) {
      chain(part);
    }
  }
}

FeatureChain::FeatureChain(const std::vector<std::string>& names) {
  describe();
  std::vector<bool> chained(parts_.size() + 1, false);
  for (const std::string& name : names) {
    const auto field =
        std::find_if(fields_.begin(), fields_.end(), [&](const Field& candidate) { return candidate.name == name; });
    if (field == fields_.end())
      detail::fail(ErrorCode::unsupported, "no device can be made with the feature {}: this build does not know it",
                   detail::quote(name));
    *field->value = VK_TRUE;
    if (field->part < parts_.size() && !chained[field->part]) chain(parts_[field->part]);
    chained[field->part] = true;
  }
}

std::vector<std::string> FeatureChain::names() const {
  std::vector<std::string> set;
  for (const Field& field : fields_) {
    if (*field.value != VK_FALSE) set.emplace_back(field.name);
  }
  std::sort(set.begin(), set.end());
  return set;
}

}  // namespace kdart::vulkan
