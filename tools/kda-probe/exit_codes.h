// What the exit code of kda-probe says, and how an error comes to its code. docs/cli.md has the same table.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "kdart/error.h"

namespace kdart::probe {

enum class ExitCode : std::uint8_t {
  ok = 0,
  check_failed = 1,  // a check ran and failed, and nothing else
  usage = 2,         // the command line
  driver = 3,        // unknown backend, or its driver is missing or too old
  device = 4,        // the backend is there, the device is not
  input = 5,         // a checkpoint, case file, kernel set or kernel name
  fault = 6,         // the device failed at run time
  other = 70,        // anything else: a bug, no host memory, an output that cannot be written
};

// What was being done when an error came up: the same code can be the user's fault or ours.
enum class Stage : std::uint8_t { command_line, opening_device, reading_input, running, writing_output };

[[nodiscard]] ExitCode exit_code(ErrorCode code, Stage stage) noexcept;

// An error on its way to the user: `code` is to_string of an ErrorCode, "usage" or "internal".
class Failure : public std::runtime_error {
 public:
  Failure(std::string code, const std::string& message, ExitCode exit)
      : std::runtime_error(message), code_(std::move(code)), exit_(exit) {}
  Failure(const Error& error, Stage stage)
      : Failure(std::string(to_string(error.code())), error.what(), exit_code(error.code(), stage)) {}

  [[nodiscard]] const std::string& code() const noexcept { return code_; }
  [[nodiscard]] ExitCode exit() const noexcept { return exit_; }

 private:
  std::string code_;
  ExitCode exit_;
};

// Runs `work`; a kdart::Error that leaves it becomes the Failure that fits the stage.
template <class Work>
auto during(Stage stage, Work&& work) -> decltype(std::forward<Work>(work)()) {
  try {
    return std::forward<Work>(work)();
  } catch (const Error& error) {
    throw Failure(error, stage);
  }
}

}  // namespace kdart::probe
