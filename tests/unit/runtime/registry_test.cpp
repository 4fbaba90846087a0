#include "kdart/registry.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "tests/support/expect_error.h"

namespace kdart::test {
namespace {

TEST_CASE("a device id is a backend's name and an index", "[runtime][registry]") {
  CHECK(DeviceId::parse("cpu").to_string() == "cpu:0");
  CHECK(DeviceId::parse("vulkan:1").to_string() == "vulkan:1");
  CHECK(DeviceId::parse("hip2:4294967295").index == 4294967295U);
  for (const char* text : {"", ":", ":0", "cpu:", "cpu:x", "cpu:-1", "cpu:+1", "cpu: 1", "cpu:1 ", "cpu:1:2",
                           "cpu:4294967296", "CPU:0", "0cpu", "c pu:0", "cpu:0x1", "cpu:1.5"}) {
    INFO(text);
    expect_error(ErrorCode::invalid_argument, {"'" + std::string(text) + "'", "'cpu:0'"},
                 [&] { static_cast<void>(DeviceId::parse(text)); });
    expect_error(ErrorCode::invalid_argument, {}, [&] { static_cast<void>(open_device(text)); });
  }
}

TEST_CASE("an unknown backend is refused with the names of those there are", "[runtime][registry]") {
  const std::string message =
      expect_error(ErrorCode::driver_missing, {"'abacus'"}, [] { static_cast<void>(open_device("abacus:0")); });
  for (const std::string_view name : backend_names()) CHECK(message.find(name) != std::string::npos);
}

TEST_CASE("every backend of the build has one status, in the build's order", "[runtime][registry]") {
  const auto names = backend_names();
  const auto statuses = list_backends();
  REQUIRE(statuses.size() == names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    CHECK(statuses[i].backend == names[i]);
    CHECK(statuses[i].devices.empty() == statuses[i].error.has_value());
    CHECK(statuses[i].message.empty() == !statuses[i].error.has_value());
    for (std::size_t device = 0; device < statuses[i].devices.size(); ++device) {
      const DeviceInfo& info = statuses[i].devices[device];
      CHECK(info.id == statuses[i].backend + ":" + std::to_string(device));
      CHECK(std::is_sorted(info.features.begin(), info.features.end()));
      CHECK(open_device(info.id)->info().id == info.id);
    }
  }
}

TEST_CASE("an index that no device has is no_device, naming how many there are", "[runtime][registry]") {
  for (const BackendStatus& status : list_backends()) {
    if (status.devices.empty()) continue;
    const std::string count = std::to_string(status.devices.size());
    expect_error(ErrorCode::no_device, {count}, [&] { static_cast<void>(open_device(status.backend + ":" + count)); });
  }
}

TEST_CASE("device types have names", "[runtime][registry]") {
  CHECK(to_string(DeviceType::cpu) == "cpu");
  CHECK(to_string(DeviceType::virtual_gpu) == "virtual");
  CHECK(to_string(static_cast<DeviceType>(99)) == "unknown");
}

}  // namespace
}  // namespace kdart::test
