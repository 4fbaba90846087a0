// The driver's result codes as kdart errors.
#pragma once

#include <string>
#include <string_view>

#include "backends/cuda/api.h"
#include "kdart/error.h"

namespace kdart::cuda {

// "CUDA_ERROR_ILLEGAL_ADDRESS"; "CUresult" and the number for one that this build does not know.
[[nodiscard]] std::string result_name(CUresult result);
// What a result means to a caller. A code that is not known is driver_error, kept by its number.
[[nodiscard]] ErrorCode code_of(CUresult result) noexcept;
// The error for a result other than CUDA_SUCCESS: "<doing>: <what went wrong> (<name>)".
[[nodiscard]] Error cuda_error(CUresult result, std::string_view doing);
[[noreturn]] void fail_cuda(CUresult result, std::string_view doing);
// Throws for any result but CUDA_SUCCESS.
inline void check_cuda(CUresult result, std::string_view doing) {
  if (result != CUDA_SUCCESS) [[unlikely]]
    fail_cuda(result, doing);
}

}  // namespace kdart::cuda
