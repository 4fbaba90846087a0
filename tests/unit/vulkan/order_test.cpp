#include <catch2/catch_test_macros.hpp>

#include "backends/vulkan/plan.h"
#include "tests/unit/vulkan/recorded_devices.h"

namespace kdart::test {

using vulkan::DeviceOrder;
using vulkan::DevicePlan;
using vulkan::PhysicalDeviceFacts;
using vulkan::plan_device;

namespace {

DeviceOrder order_of(const std::vector<PhysicalDeviceFacts>& facts) {
  std::vector<DevicePlan> plans;
  for (const PhysicalDeviceFacts& device : facts) plans.push_back(plan_device(device, {}));
  return vulkan::order_devices(facts, plans);
}

// The listed names, in order.
std::vector<std::string> names_of(const std::vector<PhysicalDeviceFacts>& facts) {
  std::vector<std::string> names;
  for (const DeviceOrder::Entry& entry : order_of(facts).entries) names.push_back(facts[entry.device].name);
  return names;
}

PhysicalDeviceFacts named(PhysicalDeviceFacts facts, std::string name, std::uint8_t uuid, std::uint32_t bus = 0) {
  facts.name = std::move(name);
  facts.device_uuid = {uuid};
  facts.pci.reset();
  if (bus != 0) facts.pci = {0, bus, 0, 0};
  return facts;
}

PhysicalDeviceFacts driver(PhysicalDeviceFacts facts, VkDriverId id, std::string name) {
  facts.driver_id = id;
  facts.driver_name = std::move(name);
  return facts;
}

PhysicalDeviceFacts broken(PhysicalDeviceFacts facts) {
  std::erase(facts.features, "shaderInt64");
  return facts;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("discrete devices come first and the CPU last", "[vulkan][order]") {
  PhysicalDeviceFacts virtual_gpu = named(lavapipe(), "virtual", 1);
  virtual_gpu.type = VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU;
  PhysicalDeviceFacts other = named(lavapipe(), "other", 2);
  other.type = VK_PHYSICAL_DEVICE_TYPE_OTHER;
  CHECK(names_of({named(lavapipe(), "cpu", 3), other, virtual_gpu, named(anv_like(), "integrated", 4),
                  named(nvidia_h200(), "discrete", 5)}) == Names{"discrete", "integrated", "virtual", "other", "cpu"});
  CHECK(names_of({}) == Names{});
}

TEST_CASE("devices of one kind stay as the drivers have them, unusable ones last", "[vulkan][order]") {
  const auto h200 = [](std::string name, std::uint8_t uuid) { return named(nvidia_h200(), std::move(name), uuid); };
  CHECK(names_of({h200("b", 1), h200("a", 2), h200("c", 3)}) == Names{"b", "a", "c"});
  CHECK(names_of({broken(h200("b", 1)), h200("a", 2), named(lavapipe(), "cpu", 4), h200("c", 3)}) ==
        Names{"a", "c", "b", "cpu"});
}

TEST_CASE("a GPU that two drivers offer is listed once", "[vulkan][order]") {
  const PhysicalDeviceFacts card = named(radv_navi21(), "card", 1, 3);
  const PhysicalDeviceFacts radv = driver(card, VK_DRIVER_ID_MESA_RADV, "radv");
  const PhysicalDeviceFacts amdvlk = driver(card, VK_DRIVER_ID_AMD_OPEN_SOURCE, "AMD open-source driver");
  const auto kept = [](const std::vector<PhysicalDeviceFacts>& facts) {
    const DeviceOrder order = order_of(facts);
    REQUIRE(order.entries.size() == 1);
    return std::pair(order.entries[0].device, order.entries[0].shadowed);
  };

  SECTION("the vendor's driver, wherever it stands") {
    const std::string sentence =
        "the driver AMD open-source driver offers this GPU too and is left out: radv comes first";
    CHECK(kept({radv, amdvlk}) == std::pair(std::size_t{0}, sentence));
    CHECK(kept({amdvlk, radv}) == std::pair(std::size_t{1}, sentence));
  }
  SECTION("the usable one, whoever's it is") {
    CHECK(kept({broken(radv), amdvlk}) ==
          std::pair(std::size_t{1}, std::string("the driver radv offers this GPU too and is left out: it lacks "
                                                "shaderInt64")));
    CHECK(kept({broken(radv), broken(amdvlk)}).first == 0);
  }
  SECTION("the first of equals") {
    CHECK(kept({radv, radv}).first == 0);
    CHECK(kept({amdvlk, driver(card, VK_DRIVER_ID_AMD_PROPRIETARY, "AMD proprietary driver")}).first == 0);
  }
  SECTION("a translation to another API last") {
    const auto dozen = driver(card, VK_DRIVER_ID_MESA_DOZEN, "Dozen");
    CHECK(kept({dozen, amdvlk}).first == 1);
    CHECK(kept({dozen, broken(amdvlk)}).first == 0);
  }
  SECTION("three drivers") {
    const auto dozen = driver(card, VK_DRIVER_ID_MESA_DOZEN, "Dozen");
    const auto [device, sentence] = kept({dozen, amdvlk, radv});
    CHECK(device == 2);
    CHECK(sentence.find("Dozen") != std::string::npos);
    CHECK(sentence.find("AMD open-source driver") != std::string::npos);
  }
  SECTION("other devices keep their places") {
    CHECK(names_of({amdvlk, named(nvidia_h200(), "second", 2, 4), radv, named(lavapipe(), "cpu", 3)}) ==
          Names{"card", "second", "cpu"});
  }
}

TEST_CASE("devices are the same by their slot, else by their UUID", "[vulkan][order]") {
  const auto count = [](const PhysicalDeviceFacts& a, const PhysicalDeviceFacts& b) {
    return order_of({a, b}).entries.size();
  };
  CHECK(count(named(nvidia_h200(), "a", 1), named(nvidia_h200(), "b", 1)) == 1);
  CHECK(count(named(nvidia_h200(), "a", 1), named(nvidia_h200(), "b", 2)) == 2);
  CHECK(count(named(nvidia_h200(), "a", 1, 3), named(nvidia_h200(), "b", 2, 3)) == 1);
  CHECK(count(named(nvidia_h200(), "a", 1, 3), named(nvidia_h200(), "b", 1, 4)) == 2);  // one UUID for two cards
  CHECK(count(named(nvidia_h200(), "a", 1, 3), named(nvidia_h200(), "b", 1)) == 1);
  // Zeros name nothing.
  CHECK(count(named(nvidia_h200(), "a", 0), named(nvidia_h200(), "b", 0)) == 2);
  CHECK(count(radv_without_card(), radv_without_card()) == 2);
}

}  // namespace kdart::test
