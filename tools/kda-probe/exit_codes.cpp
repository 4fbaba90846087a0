#include "exit_codes.h"

namespace kdart::probe {
namespace {

ExitCode invalid_argument_at(Stage stage) noexcept {
  switch (stage) {
    case Stage::command_line:
      return ExitCode::usage;
    case Stage::reading_input:
      return ExitCode::input;
    case Stage::opening_device:
    case Stage::running:
    case Stage::writing_output:
      break;
  }
  return ExitCode::other;  // the probe's own argument: a bug
}

}  // namespace

ExitCode exit_code(ErrorCode code, Stage stage) noexcept {
  switch (code) {
    case ErrorCode::driver_missing:
    case ErrorCode::driver_too_old:
      return ExitCode::driver;
    case ErrorCode::no_device:
      return ExitCode::device;
    case ErrorCode::unsupported:
    case ErrorCode::unsupported_version:
    case ErrorCode::invalid_image:
    case ErrorCode::no_matching_image:
    case ErrorCode::corrupt_image:
    case ErrorCode::kernel_not_found:
    case ErrorCode::bad_checkpoint:
      return ExitCode::input;
    case ErrorCode::io_error:
      return stage == Stage::writing_output ? ExitCode::other : ExitCode::input;
    case ErrorCode::invalid_argument:
      return invalid_argument_at(stage);
    case ErrorCode::device_fault:
    case ErrorCode::device_lost:
    case ErrorCode::timeout:
    case ErrorCode::out_of_device_memory:
      return ExitCode::fault;
    case ErrorCode::invalid_handle:
    case ErrorCode::invalid_launch:
    case ErrorCode::out_of_host_memory:
    case ErrorCode::forked_process:
    case ErrorCode::capture_invalidated:
    case ErrorCode::driver_error:
      break;
  }
  return ExitCode::other;
}

}  // namespace kdart::probe
