#include "tests/unit/vulkan/vulkan_device.h"

#include <catch2/catch_test_macros.hpp>
#include <utility>

#include "kdart/registry.h"
#include "tests/support/device.h"
#include "tests/support/options.h"

namespace kdart::test {

std::string vulkan_device_id() {
  return DeviceId::parse(test_device()).backend == "vulkan" ? test_device() : "vulkan:0";
}

TestDevice open_vulkan(const OpenOptions& options) {
  if (vulkan_device_id() == test_device()) return TestDevice(options);
  return TestDevice(open_device(vulkan_device_id(), options));
}

FoundDevice::FoundDevice(const OpenOptions& options)
    : instance(std::make_shared<const vulkan::Instance>(std::make_shared<const vulkan::Library>(options), options)) {
  const auto devices = vulkan::list_devices(*instance, options);
  listed = devices.at(DeviceId::parse(vulkan_device_id()).index);
}

void need_validation_layer() {
  OpenOptions options;
  options.driver_checks = DriverChecks::core;
  try {
    const vulkan::Instance instance(std::make_shared<const vulkan::Library>(options), options);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    if (required_backend() == "vulkan") FAIL(error.what());
    SKIP(error.what());
  }
}

}  // namespace kdart::test
