#include "exit_codes.h"

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <set>

namespace kdart::probe {
namespace {

constexpr std::array<Stage, 5> stages{Stage::command_line, Stage::opening_device, Stage::reading_input, Stage::running,
                                      Stage::writing_output};

// Every code there is; to_string says "unknown" past the end.
std::set<ErrorCode> all_codes() {
  std::set<ErrorCode> codes;
  for (std::uint32_t i = 0; to_string(static_cast<ErrorCode>(i)) != "unknown"; ++i) {
    codes.insert(static_cast<ErrorCode>(i));
  }
  return codes;
}

void check_everywhere(std::set<ErrorCode> codes, ExitCode expected) {
  for (const ErrorCode code : codes) {
    for (const Stage stage : stages) {
      INFO(to_string(code) << " at stage " << static_cast<int>(stage));
      CHECK(exit_code(code, stage) == expected);
    }
  }
}

using enum ErrorCode;

const std::set<ErrorCode> driver_codes{driver_missing, driver_too_old};
const std::set<ErrorCode> device_codes{no_device};
const std::set<ErrorCode> input_codes{unsupported,   unsupported_version, invalid_image, no_matching_image,
                                      corrupt_image, kernel_not_found,    bad_checkpoint};
const std::set<ErrorCode> fault_codes{device_fault, device_lost, timeout, out_of_device_memory};
const std::set<ErrorCode> staged_codes{invalid_argument, io_error};

TEST_CASE("errors whose meaning is the same at every stage", "[probe]") {
  check_everywhere(driver_codes, ExitCode::driver);
  check_everywhere(device_codes, ExitCode::device);
  check_everywhere(input_codes, ExitCode::input);
  check_everywhere(fault_codes, ExitCode::fault);
}

TEST_CASE("every other error is 70, a code added later included", "[probe]") {
  std::set<ErrorCode> rest = all_codes();
  REQUIRE(rest.size() > 20);
  for (const auto* known : {&driver_codes, &device_codes, &input_codes, &fault_codes, &staged_codes}) {
    for (const ErrorCode code : *known) REQUIRE(rest.erase(code) == 1);
  }
  check_everywhere(rest, ExitCode::other);
  check_everywhere({static_cast<ErrorCode>(9999)}, ExitCode::other);
}

TEST_CASE("an invalid argument is usage, bad input or a bug of the probe", "[probe]") {
  CHECK(exit_code(invalid_argument, Stage::command_line) == ExitCode::usage);
  CHECK(exit_code(invalid_argument, Stage::reading_input) == ExitCode::input);
  CHECK(exit_code(invalid_argument, Stage::opening_device) == ExitCode::other);
  CHECK(exit_code(invalid_argument, Stage::running) == ExitCode::other);
}

TEST_CASE("a file that cannot be written is no bad input", "[probe]") {
  CHECK(exit_code(io_error, Stage::reading_input) == ExitCode::input);
  CHECK(exit_code(io_error, Stage::running) == ExitCode::input);
  CHECK(exit_code(io_error, Stage::writing_output) == ExitCode::other);
}

TEST_CASE("the numbers are what scripts rely on", "[probe]") {
  CHECK(static_cast<int>(ExitCode::ok) == 0);
  CHECK(static_cast<int>(ExitCode::check_failed) == 1);
  CHECK(static_cast<int>(ExitCode::usage) == 2);
  CHECK(static_cast<int>(ExitCode::driver) == 3);
  CHECK(static_cast<int>(ExitCode::device) == 4);
  CHECK(static_cast<int>(ExitCode::input) == 5);
  CHECK(static_cast<int>(ExitCode::fault) == 6);
  CHECK(static_cast<int>(ExitCode::other) == 70);
}

TEST_CASE("no error is mistaken for a failed check", "[probe]") {
  for (const ErrorCode code : all_codes()) {
    for (const Stage stage : stages) {
      CHECK(exit_code(code, stage) != ExitCode::check_failed);
      CHECK(exit_code(code, stage) != ExitCode::ok);
    }
  }
}

TEST_CASE("during gives the error its stage and lets results through", "[probe]") {
  CHECK(during(Stage::running, [] { return 7; }) == 7);
  try {
    during(Stage::reading_input, []() -> void { throw Error(invalid_argument, "layer 3 is no KDA layer"); });
    FAIL("nothing was thrown");
  } catch (const Failure& failure) {
    CHECK(failure.code() == "invalid_argument");
    CHECK(std::string(failure.what()) == "layer 3 is no KDA layer");
    CHECK(failure.exit() == ExitCode::input);
  }
}

}  // namespace
}  // namespace kdart::probe
