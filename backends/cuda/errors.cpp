#include "backends/cuda/errors.h"

#include "core/runtime/format.h"

namespace kdart::cuda {

std::string result_name(CUresult result) {
  switch (result) {
#define KDART_CUDA_RESULT(name, number) \
  case name:                            \
    return #name;
    KDART_CUDA_RESULTS(KDART_CUDA_RESULT)
#undef KDART_CUDA_RESULT
    default:
      return detail::format("CUresult {}", result);
  }
}

ErrorCode code_of(CUresult result) noexcept {
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
      return ErrorCode::out_of_device_memory;
    case CUDA_ERROR_STUB_LIBRARY:
      return ErrorCode::driver_missing;
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
      return ErrorCode::driver_too_old;
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_INVALID_DEVICE:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_SYSTEM_NOT_READY:
      return ErrorCode::no_device;
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_INVALID_SOURCE:
      return ErrorCode::invalid_image;
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_JIT_COMPILATION_DISABLED:
    case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
      return ErrorCode::no_matching_image;
    case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
    case CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE:
    case CUDA_ERROR_INVALID_CLUSTER_SIZE:
      return ErrorCode::invalid_launch;
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
      return ErrorCode::device_fault;
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
      return ErrorCode::device_lost;
    case CUDA_ERROR_NOT_SUPPORTED:
      return ErrorCode::unsupported;
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
    case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
    case CUDA_ERROR_STREAM_CAPTURE_MERGE:
    case CUDA_ERROR_STREAM_CAPTURE_UNMATCHED:
    case CUDA_ERROR_STREAM_CAPTURE_UNJOINED:
    case CUDA_ERROR_STREAM_CAPTURE_ISOLATION:
    case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
    case CUDA_ERROR_CAPTURED_EVENT:
    case CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD:
      return ErrorCode::capture_invalidated;
    default:
      return ErrorCode::driver_error;
  }
}

Error cuda_error(CUresult result, std::string_view doing) {
  const std::string name = result_name(result);
  return Error(code_of(result), detail::format("{}: the driver answered {} ({})", doing, name, result), result, name);
}

void fail_cuda(CUresult result, std::string_view doing) {
  throw cuda_error(result, doing);
}

}  // namespace kdart::cuda
