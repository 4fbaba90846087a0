#include "backends/vulkan/list.h"

#include <catch2/catch_test_macros.hpp>

#include "tests/support/expect_error.h"
#include "tests/unit/vulkan/fake_driver.h"
#include "tests/unit/vulkan/recorded_devices.h"

namespace kdart::test {

using vulkan::enumerate_devices;
using vulkan::list_devices;
using vulkan::ListedDevice;

namespace {

std::vector<ListedDevice> list_of(FakeInstance& instance, const OpenOptions& options = {},
                                  std::uint32_t version = VK_API_VERSION_1_3) {
  const auto functions = fake_instance_functions();
  return list_devices(functions, version, enumerate_devices(functions, instance.handle()), "/lib/libvulkan.so.1",
                      options);
}

}  // namespace

TEST_CASE("a driver without a device is no error", "[vulkan][list]") {
  FakeInstance instance;
  CHECK(list_of(instance).empty());
  instance.add(lavapipe());
  for (const VkResult result : {VK_ERROR_INITIALIZATION_FAILED, VK_ERROR_INCOMPATIBLE_DRIVER}) {
    instance.result = result;
    CHECK(list_of(instance).empty());
  }
  instance.result = VK_ERROR_OUT_OF_HOST_MEMORY;
  expect_error(ErrorCode::out_of_host_memory, {"devices"}, [&] { static_cast<void>(list_of(instance)); });
  instance.result = VK_SUCCESS;
  instance.incomplete = 2;
  CHECK(list_of(instance).size() == 1);
  CHECK(instance.incomplete == 0);
}

TEST_CASE("the list says which device each id means", "[vulkan][list]") {
  FakeInstance instance;
  instance.add(lavapipe());
  instance.add(anv_like());
  instance.add(nvidia_h200());
  const auto listed = list_of(instance);
  REQUIRE(listed.size() == 3);
  for (std::uint32_t i = 0; i < 3; ++i) {
    const DeviceInfo& info = listed[i].plan.info;
    CHECK(info.index == i);
    CHECK(info.id == "vulkan:" + std::to_string(i));
    CHECK(info.driver_library == "/lib/libvulkan.so.1");
    CHECK(info.unusable.empty());
    CHECK(info.note.empty());
    CHECK(listed[i].facts.name == info.name);
    CHECK(listed[i].handle == instance.devices[2 - i]->handle());
  }
  CHECK(listed[0].plan.info.name == "NVIDIA H200");
  CHECK(listed[2].plan.info.type == DeviceType::cpu);
}

TEST_CASE("a device that cannot be used is listed with what it lacks", "[vulkan][list]") {
  FakeInstance instance;
  instance.add(old_adreno_like());
  instance.add(lavapipe());
  const auto listed = list_of(instance);
  REQUIRE(listed.size() == 2);
  CHECK(listed[0].plan.info.name == "Adreno (TM) 650");
  CHECK(listed[0].plan.info.unusable == "it lacks Vulkan 1.2 (it has 1.1), bufferDeviceAddress, shaderInt64");
  CHECK(listed[1].plan.info.unusable.empty());
}

TEST_CASE("a GPU of two drivers is listed once with the choice", "[vulkan][list]") {
  FakeInstance instance;
  instance.add(radv_navi21()).facts.driver_id = VK_DRIVER_ID_AMD_OPEN_SOURCE;
  instance.devices[0]->facts.driver_name = "AMD open-source driver";
  FakePhysicalDevice& radv = instance.add(radv_navi21());
  const auto listed = list_of(instance);
  REQUIRE(listed.size() == 1);
  CHECK(listed[0].handle == radv.handle());
  CHECK(listed[0].plan.info.id == "vulkan:0");
  CHECK(listed[0].plan.info.note ==
        "the driver AMD open-source driver offers this GPU too and is left out: radv comes first");
}

TEST_CASE("a device that cannot be read hides no other", "[vulkan][list]") {
  FakeInstance instance;
  instance.add(nvidia_h200()).extensions_result = VK_ERROR_UNKNOWN;
  instance.add(lavapipe());
  const auto listed = list_of(instance);
  REQUIRE(listed.size() == 2);
  const DeviceInfo& unread = listed[0].plan.info;
  CHECK(unread.name == "NVIDIA H200");
  CHECK(unread.unusable.find("properties that can be read") != std::string::npos);
  CHECK(unread.unusable.find("VK_ERROR_UNKNOWN") != std::string::npos);
  CHECK(listed[1].plan.info.name == lavapipe().name);
  CHECK(listed[1].plan.info.unusable.empty());
}

TEST_CASE("the list follows the options and the instance", "[vulkan][list]") {
  FakeInstance instance;
  instance.add(lavapipe());
  CHECK(list_of(instance, {.quirk_overrides = {"short_launches"}})[0].plan.info.quirks ==
        std::vector<std::string>{"loops_end_early", "short_launches"});
  expect_error(ErrorCode::invalid_argument, {"'slow'"},
               [&] { static_cast<void>(list_of(instance, {.quirk_overrides = {"slow"}})); });
  CHECK(list_of(instance)[0].plan.info.target == "spv1.6");
  CHECK(list_of(instance, {}, VK_API_VERSION_1_2)[0].plan.info.target == "spv1.5");
}

}  // namespace kdart::test
