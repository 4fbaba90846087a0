#include "kdart/error.h"

#include <utility>

namespace kdart {

std::string_view to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::driver_missing:
      return "driver_missing";
    case ErrorCode::driver_too_old:
      return "driver_too_old";
    case ErrorCode::no_device:
      return "no_device";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::unsupported_version:
      return "unsupported_version";
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::invalid_handle:
      return "invalid_handle";
    case ErrorCode::invalid_launch:
      return "invalid_launch";
    case ErrorCode::out_of_device_memory:
      return "out_of_device_memory";
    case ErrorCode::out_of_host_memory:
      return "out_of_host_memory";
    case ErrorCode::invalid_image:
      return "invalid_image";
    case ErrorCode::no_matching_image:
      return "no_matching_image";
    case ErrorCode::corrupt_image:
      return "corrupt_image";
    case ErrorCode::kernel_not_found:
      return "kernel_not_found";
    case ErrorCode::device_fault:
      return "device_fault";
    case ErrorCode::device_lost:
      return "device_lost";
    case ErrorCode::timeout:
      return "timeout";
    case ErrorCode::forked_process:
      return "forked_process";
    case ErrorCode::capture_invalidated:
      return "capture_invalidated";
    case ErrorCode::bad_checkpoint:
      return "bad_checkpoint";
    case ErrorCode::io_error:
      return "io_error";
    case ErrorCode::driver_error:
      return "driver_error";
  }
  return "unknown";
}

bool is_sticky(ErrorCode code) noexcept {
  return code == ErrorCode::device_fault || code == ErrorCode::device_lost || code == ErrorCode::forked_process;
}

Error::Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}

Error::Error(ErrorCode code, const std::string& message, std::int64_t native_code, std::string native_text)
    : std::runtime_error(message), code_(code), native_code_(native_code), native_text_(std::move(native_text)) {}

// Here, and not in the header: the vtable and type info then have one home, so that the type can be caught across
// shared libraries.
Error::~Error() = default;

}  // namespace kdart
