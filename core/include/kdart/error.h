// The one exception type of kdart and its error codes.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "kdart/export.h"

namespace kdart {

// What went wrong, the same on every backend. `docs/errors.md` says what to do about each.
//
// Sticky codes (device_fault, device_lost, forked_process) mean that the device object is finished: every later call on
// it throws the same code. After any other code the device stays usable and the failed call has changed nothing.
enum class ErrorCode : std::uint32_t {
  driver_missing,        // no driver library could be opened; the message lists every path tried
  driver_too_old,        // the driver lacks a symbol or version that is required
  no_device,             // the driver is there, the device (index) is not
  unsupported,           // a request that this device, kernel set or version of kdart does not offer
  unsupported_version,   // a manifest or file with a newer schema than this library reads
  invalid_argument,      // a size, range, overlap or value that the function's preconditions exclude
  invalid_handle,        // a null, stale or foreign Stream, Event, Graph, KernelHandle or DevicePtr
  invalid_launch,        // grid, block, shared memory or kernel arguments do not fit the kernel or the device
  out_of_device_memory,  // the device or the memory_limit is exhausted
  out_of_host_memory,    // the host is
  invalid_image,         // an image that is not what its format says
  no_matching_image,     // no image of the set runs on this device; the message has a reason for each
  corrupt_image,         // length, SHA-256 or stated argument layout differ from manifest or contract
  kernel_not_found,      // the set has no kernel of this name
  device_fault,          // sticky: a kernel did something illegal
  device_lost,           // sticky: the device went away
  timeout,               // a bounded wait ran out; nothing else is wrong
  forked_process,        // sticky: the device was opened before fork() and is used in the child
  capture_invalidated,   // a call that a graph capture cannot hold; the capture is over, the stream usable
  bad_checkpoint,        // config.json or safetensors content that is not a KDA checkpoint
  io_error,              // a file could not be opened, read, mapped or written
  driver_error,          // any other driver code; `native_code()` has its number
};

// The code's own spelling, e.g. "out_of_device_memory". Never null; "unknown" for a value outside the enum.
[[nodiscard]] KDART_API std::string_view to_string(ErrorCode code) noexcept;

// True for the codes after which a device object only repeats the same error.
[[nodiscard]] KDART_API bool is_sticky(ErrorCode code) noexcept;

// The only exception type that kdart throws. `what()` is one message a person can act on: it names the thing, the
// value found and the limit. Out of line and of default visibility, so that it can be caught across shared libraries.
class KDART_API Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message);
  // `native_code` and `native_text` are the driver's own, kept even when the number is unknown to kdart.
  Error(ErrorCode code, const std::string& message, std::int64_t native_code, std::string native_text);
  Error(const Error&) = default;
  Error& operator=(const Error&) = default;
  ~Error() override;

  [[nodiscard]] ErrorCode code() const noexcept { return code_; }
  // 0 and "" when no driver call was involved.
  [[nodiscard]] std::int64_t native_code() const noexcept { return native_code_; }
  [[nodiscard]] const std::string& native_text() const noexcept { return native_text_; }

 private:
  ErrorCode code_;
  std::int64_t native_code_ = 0;
  std::string native_text_;
};

}  // namespace kdart
