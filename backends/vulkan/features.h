// The device features that this backend looks at, by the names that Vulkan gives their fields.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backends/vulkan/functions.h"

namespace kdart::vulkan {

// A VkPhysicalDeviceFeatures2 with the structures that hold the rest behind it, for asking a device what it has and for
// making a device with features. Refers to itself: neither copied nor moved.
class FeatureChain {
 public:
  // To be filled by vkGetPhysicalDeviceFeatures2: only structures that a device of this version (as VK_MAKE_API_VERSION
  // packs it) with these extensions knows.
  FeatureChain(std::uint32_t api_version, const std::vector<std::string>& extensions);
  // For vkCreateDevice: exactly these features set, and no structure that none of them needs. Throws Error(unsupported)
  // for a name that is not in the table.
  explicit FeatureChain(const std::vector<std::string>& names);
  FeatureChain(const FeatureChain&) = delete;
  FeatureChain& operator=(const FeatureChain&) = delete;

  [[nodiscard]] VkPhysicalDeviceFeatures2& head() noexcept { return core_; }
  [[nodiscard]] const VkPhysicalDeviceFeatures2& head() const noexcept { return core_; }
  // What is set, sorted.
  [[nodiscard]] std::vector<std::string> names() const;

 private:
  // One structure of the chain: since which version, and before that with which extension, a device knows it.
  struct Part {
    VkBaseOutStructure* structure;
    VkStructureType type;
    std::uint32_t since;
    std::string_view extension;
  };
  struct Field {
    std::string_view name;
    VkBool32* value;
    std::size_t part;  // index into parts_; VkPhysicalDeviceFeatures2 itself is past the end
  };

  void describe();
  template <class Structure>
  void add(Structure& structure, VkStructureType type, std::uint32_t since, std::string_view extension,
           std::vector<std::pair<std::string_view, VkBool32*>> fields);
  void chain(const Part& part) noexcept;

  VkPhysicalDeviceFeatures2 core_{};
  VkPhysicalDevice16BitStorageFeatures storage_16_{};
  VkPhysicalDevice8BitStorageFeatures storage_8_{};
  VkPhysicalDeviceShaderFloat16Int8Features float_16_int_8_{};
  VkPhysicalDeviceBufferDeviceAddressFeatures addresses_{};
  VkPhysicalDeviceTimelineSemaphoreFeatures timelines_{};
  VkPhysicalDeviceVulkanMemoryModelFeatures memory_model_{};
  VkPhysicalDeviceHostQueryResetFeatures query_reset_{};
  VkPhysicalDeviceSubgroupSizeControlFeatures subgroup_size_{};
  VkPhysicalDeviceSynchronization2Features synchronization_{};
  VkPhysicalDeviceMaintenance4Features maintenance_4_{};
  VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR executables_{};
  std::vector<Part> parts_;
  std::vector<Field> fields_;
};

}  // namespace kdart::vulkan
