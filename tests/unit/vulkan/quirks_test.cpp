#include "backends/vulkan/quirks.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>

#include "backends/vulkan/plan.h"
#include "tests/support/expect_error.h"
#include "tests/unit/vulkan/recorded_devices.h"

namespace kdart::test {

using vulkan::DevicePlan;
using vulkan::plan_device;
using vulkan::Quirk;
using vulkan::quirk_table;
using vulkan::quirks_in_force;

namespace {

using Names = std::vector<std::string>;

Names in_force(const vulkan::PhysicalDeviceFacts& facts, Names overrides = {}) {
  return quirks_in_force(facts, {.quirk_overrides = std::move(overrides)});
}

bool is_year_and_month(std::string_view text) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return text.size() == 7 && text[4] == '-' && std::count_if(text.begin(), text.end(), digit) == 6 &&
         text.substr(5) >= "01" && text.substr(5) <= "12";
}

}  // namespace

TEST_CASE("every quirk has its reason, link, test and end date", "[vulkan][quirks]") {
  std::string_view last;
  for (const Quirk& quirk : quirk_table()) {
    INFO(quirk.name);
    CHECK(quirk.name > last);  // sorted, and each name once
    last = quirk.name;
    CHECK(quirk.applies != nullptr);
    CHECK(quirk.reason.ends_with('.'));
    CHECK(quirk.link.starts_with("https://"));
    CHECK(std::filesystem::exists(quirk.test));  // tests run in the source folder
    CHECK(is_year_and_month(quirk.until));
  }
  CHECK(quirk_table().size() == 5);  // a new one comes with a test below
}

TEST_CASE("quirks apply to the devices they are for", "[vulkan][quirks]") {
  CHECK(in_force(lavapipe()) == Names{"loops_end_early"});
  CHECK(in_force(nvidia_h200()) == Names{"driver_stays_loaded"});
  CHECK(in_force(radv_navi21()) == Names{"bounded_submissions"});
  CHECK(in_force(anv_like()) == Names{"bounded_submissions", "short_launches"});
  CHECK(in_force(adreno_like()) == Names{"short_launches"});
  CHECK(in_force(moltenvk_like()) == Names{"no_timestamps", "short_launches"});

  vulkan::PhysicalDeviceFacts facts = radv_navi21();
  for (const VkDriverId driver : {VK_DRIVER_ID_AMD_OPEN_SOURCE, VK_DRIVER_ID_AMD_PROPRIETARY,
                                  VK_DRIVER_ID_INTEL_OPEN_SOURCE_MESA, VK_DRIVER_ID_INTEL_PROPRIETARY_WINDOWS}) {
    facts.driver_id = driver;
    CHECK(in_force(facts) == Names{"bounded_submissions"});
  }
  facts.type = VK_PHYSICAL_DEVICE_TYPE_CPU;
  CHECK(in_force(facts) == Names{});
}

TEST_CASE("bounded_submissions makes submissions smaller", "[vulkan][quirks]") {
  const DevicePlan bounded = plan_device(radv_navi21(), {});
  const DevicePlan usual = plan_device(radv_navi21(), {.quirk_overrides = {"-bounded_submissions"}});
  CHECK(bounded.submission_groups == 16384);
  CHECK(usual.submission_groups == 262144);
  CHECK(usual.info.quirks == Names{});
  // Forced on where there is no bound at all.
  CHECK(plan_device(lavapipe(), {}).submission_groups == 0);
  CHECK(plan_device(lavapipe(), {.quirk_overrides = {"bounded_submissions"}}).submission_groups == 16384);
}

TEST_CASE("no_timestamps leaves the device without them", "[vulkan][quirks]") {
  CHECK_FALSE(plan_device(moltenvk_like(), {}).timestamps);
  CHECK(plan_device(moltenvk_like(), {.quirk_overrides = {"-no_timestamps"}}).timestamps);
  CHECK(plan_device(lavapipe(), {}).timestamps);
  CHECK_FALSE(plan_device(lavapipe(), {.quirk_overrides = {"no_timestamps"}}).timestamps);
}

TEST_CASE("short_launches makes prefill pieces smaller", "[vulkan][quirks]") {
  const auto tokens = [](const vulkan::PhysicalDeviceFacts& facts, Names overrides) {
    return plan_device(facts, {.quirk_overrides = std::move(overrides)}).info.limits.max_tokens_per_launch;
  };
  CHECK(tokens(adreno_like(), {}) == 1024);
  CHECK(tokens(adreno_like(), {"-short_launches"}) == 4096);
  CHECK(tokens(nvidia_h200(), {}) == 4096);
  CHECK(tokens(lavapipe(), {}) == 1024);
  CHECK(tokens(lavapipe(), {"-loops_end_early"}) == 4096);
  CHECK(tokens(nvidia_h200(), {"short_launches"}) == 1024);
}

TEST_CASE("the last override of a quirk counts, and unknown ones are refused", "[vulkan][quirks]") {
  vulkan::PhysicalDeviceFacts plain = lavapipe();
  plain.driver_id = static_cast<VkDriverId>(0);  // a driver with no quirk
  CHECK(in_force(plain, {"short_launches", "no_timestamps"}) == Names{"no_timestamps", "short_launches"});
  CHECK(in_force(plain, {"short_launches", "-short_launches"}) == Names{});
  CHECK(in_force(plain, {"-short_launches", "short_launches", "short_launches"}) == Names{"short_launches"});
  CHECK(in_force(plain, {"-short_launches"}) == Names{});  // off already

  for (const std::string name : {"short_launch", "-short_launch", "", "-", "--short_launches", "Short_launches"}) {
    INFO(name);
    expect_error(
        ErrorCode::invalid_argument,
        {"'" + name + "'", "bounded_submissions, driver_stays_loaded, loops_end_early, no_timestamps, short_launches"},
        [&] { static_cast<void>(plan_device(plain, {.quirk_overrides = {name}})); });
  }
}

}  // namespace kdart::test
