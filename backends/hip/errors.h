// The runtime's result codes as kdart errors.
#pragma once

#include <string>
#include <string_view>

#include "backends/hip/api.h"
#include "kdart/error.h"

namespace kdart::hip {

// "hipErrorIllegalAddress"; "hipError_t" and the number for one that this build does not know.
[[nodiscard]] std::string result_name(hipError_t result);
// What a result means to a caller. A code that is not known is driver_error, kept by its number.
[[nodiscard]] ErrorCode code_of(hipError_t result) noexcept;
// hipSuccess, and what the runtime answers where that which was asked for is so already.
[[nodiscard]] bool succeeded(hipError_t result) noexcept;
// Throws "<doing>: <what went wrong> (<name>)".
[[noreturn]] void fail_hip(hipError_t result, std::string_view doing);
// Throws for what is no success.
inline void check_hip(hipError_t result, std::string_view doing) {
  if (!succeeded(result)) [[unlikely]]
    fail_hip(result, doing);
}

}  // namespace kdart::hip
