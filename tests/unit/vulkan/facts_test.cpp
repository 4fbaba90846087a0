#include "backends/vulkan/facts.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "backends/vulkan/features.h"
#include "tests/support/expect_error.h"
#include "tests/unit/vulkan/fake_driver.h"
#include "tests/unit/vulkan/recorded_devices.h"

namespace kdart::test {

using vulkan::FeatureChain;
using vulkan::PhysicalDeviceFacts;
using vulkan::read_budgets;
using vulkan::read_facts;

namespace {

// A structure that a device may be asked with: since when, and with which extension before that.
struct Known {
  VkStructureType type;
  std::uint32_t since;
  std::string_view extension;
};
const std::vector<Known>& known_structures() {
  constexpr std::uint32_t never = ~0U;
  static const std::vector<Known> known{
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES, VK_API_VERSION_1_1, ""},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES, VK_API_VERSION_1_1, ""},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES, VK_API_VERSION_1_1, ""},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES, VK_API_VERSION_1_1, ""},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES, VK_API_VERSION_1_2, "VK_KHR_driver_properties"},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES, VK_API_VERSION_1_2, "VK_KHR_shader_float_controls"},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES, VK_API_VERSION_1_2, "VK_KHR_8bit_storage"},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES, VK_API_VERSION_1_2,
       "VK_KHR_shader_float16_int8"},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES, VK_API_VERSION_1_2,
       "VK_KHR_buffer_device_address"},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES, VK_API_VERSION_1_2, "VK_KHR_timeline_semaphore"},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES, VK_API_VERSION_1_2,
       "VK_KHR_vulkan_memory_model"},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_HOST_QUERY_RESET_FEATURES, VK_API_VERSION_1_2, "VK_EXT_host_query_reset"},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES, VK_API_VERSION_1_3,
       "VK_EXT_subgroup_size_control"},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES, VK_API_VERSION_1_3,
       "VK_EXT_subgroup_size_control"},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SYNCHRONIZATION_2_FEATURES, VK_API_VERSION_1_3, "VK_KHR_synchronization2"},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES, VK_API_VERSION_1_3, "VK_KHR_maintenance4"},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES, VK_API_VERSION_1_3, "VK_KHR_maintenance4"},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR, never,
       "VK_KHR_pipeline_executable_properties"},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT, never, "VK_EXT_pci_bus_info"},
  };
  return known;
}

std::set<VkStructureType> allowed_for(std::uint32_t version, const std::vector<std::string>& extensions) {
  std::set<VkStructureType> allowed;
  for (const Known& known : known_structures()) {
    if (version >= known.since || std::find(extensions.begin(), extensions.end(), known.extension) != extensions.end())
      allowed.insert(known.type);
  }
  return allowed;
}

std::vector<VkStructureType> chain_of(const FeatureChain& features) {
  std::vector<VkStructureType> types;
  for (auto* next = static_cast<const VkBaseInStructure*>(features.head().pNext); next != nullptr; next = next->pNext)
    types.push_back(next->sType);
  return types;
}

}  // namespace

TEST_CASE("facts are read as the driver states them", "[vulkan][facts]") {
  for (const RecordedDevice& recorded : recorded_devices()) {
    INFO(recorded.name);
    PhysicalDeviceFacts expected = recorded.facts();
    FakePhysicalDevice device;
    device.facts = expected;
    const PhysicalDeviceFacts facts = read_facts(fake_instance_functions(), device.handle());
    // The period is a float to the driver; versions beyond the instance's are its own.
    expected.timestamp_period = static_cast<double>(static_cast<float>(expected.timestamp_period));
    if (expected.api_version >= VK_MAKE_API_VERSION(0, 1, 4, 0)) expected.api_version = VK_API_VERSION_1_3;
    CHECK(facts.name == expected.name);
    CHECK(facts.features == expected.features);
    CHECK(facts.extensions == expected.extensions);
    CHECK(facts == expected);
  }
}

TEST_CASE("a device is asked with structures it knows, and with no others", "[vulkan][facts]") {
  for (const RecordedDevice& recorded : recorded_devices()) {
    for (const std::uint32_t version : {VK_API_VERSION_1_1, VK_API_VERSION_1_2, VK_API_VERSION_1_3}) {
      FakePhysicalDevice device;
      device.facts = recorded.facts();
      device.facts.api_version = version + 99;  // patches change nothing
      INFO(recorded.name << " with version " << version);
      const PhysicalDeviceFacts facts = read_facts(fake_instance_functions(), device.handle());
      CHECK(facts.api_version == version + 99);
      CHECK(device.asked == allowed_for(version, facts.extensions));
    }
  }
}

TEST_CASE("an instance limits what a device is asked", "[vulkan][facts]") {
  FakePhysicalDevice device;
  device.facts = lavapipe();
  device.facts.extensions.clear();
  const PhysicalDeviceFacts facts = read_facts(fake_instance_functions(), device.handle(), VK_API_VERSION_1_2);
  CHECK(facts.api_version == VK_API_VERSION_1_2);
  CHECK(device.asked == allowed_for(VK_API_VERSION_1_2, {}));
  CHECK_FALSE(has_feature(facts, "maintenance4"));
  CHECK(has_feature(facts, "timelineSemaphore"));
  CHECK_FALSE(facts.subgroup_range_known);
  CHECK(facts.subgroup_min == 8);
  CHECK(facts.max_buffer == 0);
}

TEST_CASE("a device of Vulkan 1.0 is asked for nothing newer", "[vulkan][facts]") {
  FakePhysicalDevice device;
  device.facts = lavapipe();
  device.facts.api_version = VK_MAKE_API_VERSION(0, 1, 0, 3);
  const PhysicalDeviceFacts facts = read_facts(fake_instance_functions(), device.handle());
  CHECK_FALSE(device.asked_beyond_1_0);
  CHECK(device.asked.empty());
  CHECK(facts.api_version == VK_MAKE_API_VERSION(0, 1, 0, 3));
  CHECK(facts.name == device.facts.name);
  CHECK(facts.queue_families == device.facts.queue_families);
  CHECK(facts.features.empty());
}

TEST_CASE("extensions that appear between two questions are not lost", "[vulkan][facts]") {
  FakePhysicalDevice device;
  device.facts = lavapipe();
  device.has_late_extension = true;
  CHECK(read_facts(fake_instance_functions(), device.handle()).extensions == device.facts.extensions);
  CHECK_FALSE(device.has_late_extension);

  device.extensions_result = VK_ERROR_OUT_OF_HOST_MEMORY;
  expect_error(ErrorCode::out_of_host_memory, {"extensions"},
               [&] { static_cast<void>(read_facts(fake_instance_functions(), device.handle())); });
}

TEST_CASE("budgets stay within the heap, and usage within the budget", "[vulkan][facts]") {
  FakePhysicalDevice device;
  device.facts = nvidia_h200();
  const auto budgets = [&] { return read_budgets(fake_instance_functions(), device.handle(), device.facts); };
  const std::uint64_t heap = device.facts.memory_heaps[0].bytes;
  device.budget.heapBudget[0] = heap - 5;
  device.budget.heapUsage[0] = 7;
  device.budget.heapBudget[1] = ~std::uint64_t{0};  // more than there is
  device.budget.heapUsage[1] = 9;
  device.budget.heapBudget[2] = 10;
  device.budget.heapUsage[2] = 11;  // more than allowed
  REQUIRE(budgets().size() == 3);
  CHECK(budgets()[0].budget == heap - 5);
  CHECK(budgets()[0].usage == 7);
  CHECK(budgets()[1].budget == device.facts.memory_heaps[1].bytes);
  CHECK(budgets()[1].usage == 9);
  CHECK(budgets()[2].budget == 10);
  CHECK(budgets()[2].usage == 10);

  device.asked.clear();
  std::erase(device.facts.extensions, "VK_EXT_memory_budget");
  CHECK(budgets().empty());
  CHECK(device.asked.empty());
}

TEST_CASE("a device is made with the features that are asked for", "[vulkan][facts]") {
  const FeatureChain features({"shaderInt64", "bufferDeviceAddress", "shaderInt8", "maintenance4"});
  CHECK(features.names() ==
        std::vector<std::string>{"bufferDeviceAddress", "maintenance4", "shaderInt64", "shaderInt8"});
  CHECK(features.head().sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2);
  CHECK(features.head().features.shaderInt64 == VK_TRUE);
  CHECK(features.head().features.shaderInt16 == VK_FALSE);
  auto types = chain_of(features);
  std::sort(types.begin(), types.end());
  CHECK(types == std::vector<VkStructureType>{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES,
                                              VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES,
                                              VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES});
  CHECK(chain_of(FeatureChain(std::vector<std::string>{})).empty());
  CHECK(chain_of(FeatureChain({"shaderInt16"})).empty());
  expect_error(ErrorCode::unsupported, {"'geometryShader'"},
               [] { static_cast<void>(FeatureChain({"shaderInt64", "geometryShader"})); });
}

}  // namespace kdart::test
