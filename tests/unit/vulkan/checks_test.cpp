// The Khronos validation layer itself, where it is installed.
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <utility>
#include <vector>

#include "backends/vulkan/loader.h"
#include "tests/unit/vulkan/vulkan_device.h"

namespace kdart::test {

TEST_CASE("the validation layer is alive, and speaks to the log alone", "[vulkan][validation]") {
  need_validation_layer();
  for (const DriverChecks checks : {DriverChecks::core, DriverChecks::gpu_assisted}) {
    std::vector<std::pair<LogSeverity, std::string>> log;
    OpenOptions options;
    options.driver_checks = checks;
    options.log = [&](LogSeverity severity, std::string_view text) { log.emplace_back(severity, text); };
    const vulkan::Instance instance(std::make_shared<const vulkan::Library>(options), options);
    const auto devices = instance.physical_devices();
    REQUIRE_FALSE(devices.empty());
    log.clear();  // what the loader had to say of other drivers

    VkPhysicalDeviceFeatures2 right{};
    right.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    instance.functions().vkGetPhysicalDeviceFeatures2(devices.front(), &right);
    CHECK(log.empty());

    VkPhysicalDeviceFeatures2 wrong{};  // the planted fault: a structure without its type
    instance.functions().vkGetPhysicalDeviceFeatures2(devices.front(), &wrong);
    REQUIRE(log.size() == 1);
    CHECK(log[0].first == LogSeverity::error);
    CHECK(log[0].second.starts_with("VUID-VkPhysicalDeviceFeatures2-sType-sType: "));
  }
}

}  // namespace kdart::test
