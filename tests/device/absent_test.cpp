// What becomes of tests whose device is not there: this program is run again with such a device.
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "kdart/registry.h"
#include "tests/support/child.h"

namespace kdart::test {
namespace {

constexpr int all_skipped = 4;  // Catch2's code, which ctest knows
constexpr std::string_view one_test = "threads know their place in a launch";

// A device that no machine has, of each backend that a machine may lack.
std::vector<std::string> absent_devices() {
  std::vector<std::string> devices;
  for (const std::string_view backend : backend_names()) {
    if (backend != "cpu") devices.push_back(std::string(backend) + ":9999");
  }
  return devices;
}

ChildResult run(std::vector<std::string> options, std::string_view test = one_test) {
  options.emplace_back(test);
  return run_test_program(std::move(options));
}

bool mentions(const ChildResult& child, std::string_view text) {
  return child.output.find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("tests of a device that is not there are skipped with the reason", "[device][no-device]") {
  for (const std::string& id : absent_devices()) {
    const ChildResult child = run({"--device", id});
    INFO(child.output);
    CHECK(child.code == all_skipped);
    CHECK(mentions(child, "SKIPPED"));
    // No driver (which AMD calls a runtime), or one without that device.
    CHECK((mentions(child, id) || mentions(child, "driver") || mentions(child, "the HIP runtime")));
  }
}

TEST_CASE("a run with a test that needs no device is as skipped as the rest of it", "[device][no-device]") {
  for (const std::string& id : absent_devices()) {
    const ChildResult child = run({"--device", id}, "child process needs no device," + std::string(one_test));
    INFO(child.output);
    CHECK(child.code == all_skipped);
    CHECK(mentions(child, "1 passed"));
    CHECK(mentions(child, "1 skipped"));
  }
}

TEST_CASE("a failure beside skipped tests is a failure", "[device][no-device]") {
  for (const std::string& id : absent_devices()) {
    const ChildResult child = run({"--device", id}, "child process fails four times," + std::string(one_test));
    INFO(child.output);
    CHECK(child.code == 1);
  }
}

TEST_CASE("a required device that is not there is an error", "[device][no-device]") {
  for (const std::string& id : absent_devices()) {
    const ChildResult child = run({"--device", id, "--require-device", id.substr(0, id.find(':'))});
    INFO(child.output);
    CHECK(child.code == 1);
    CHECK_FALSE(mentions(child, "SKIPPED"));
    CHECK(mentions(child, "1 failed"));
  }
}

TEST_CASE("requiring another backend than that of the device is an error", "[device][no-device]") {
  const ChildResult child = run({"--device", "cpu:0", "--require-device", "vulkan"});
  INFO(child.output);
  CHECK(child.code == 1);
  CHECK(mentions(child, "no test ran on a device of it"));
}

TEST_CASE("a device that cannot be is an error and no skip", "[device][no-device]") {
  // Catch2 drops an empty argument and would take the next one for the device.
  for (const char* id : {"cpu:1", "nothing:0", "vulkan:x", ":"}) {
    const ChildResult child = run({"--device", id});
    INFO(id << '\n' << child.output);
    CHECK(child.code != 0);
    CHECK(child.code != all_skipped);
    CHECK_FALSE(mentions(child, "SKIPPED"));
  }
}

TEST_CASE("child process needs no device", "[.child]") {
  CHECK(absent_devices().size() < 100);
}

TEST_CASE("child process fails four times", "[.child]") {
  for (int i = 0; i < 4; ++i) CHECK(i < 0);
}

}  // namespace kdart::test
