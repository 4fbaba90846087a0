// Errors of the operating system as kdart errors.
#pragma once

#include <string_view>

#include "kdart/error.h"

namespace kdart::cpu {

// "<what>: <the system's words> (errno N)", with the number as native code.
[[nodiscard]] Error os_error(ErrorCode code, std::string_view what, int error_number);

// The exception being handled as an Error: an Error as it is, bad_alloc as out_of_host_memory, system_error with its
// code, anything else as driver_error. `doing` says what failed. Call in a catch block only.
[[nodiscard]] Error current_error(std::string_view doing);

}  // namespace kdart::cpu
