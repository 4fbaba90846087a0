#include "backends/hip/errors.h"

#include "core/runtime/format.h"

namespace kdart::hip {

std::string result_name(hipError_t result) {
  switch (result) {
#define KDART_HIP_RESULT(name, number) \
  case name:                           \
    return #name;
    KDART_HIP_RESULTS(KDART_HIP_RESULT)
#undef KDART_HIP_RESULT
    default:
      return detail::format("hipError_t {}", result);
  }
}

bool succeeded(hipError_t result) noexcept {
  switch (result) {
    case hipSuccess:
    case hipErrorContextAlreadyCurrent:
    case hipErrorAlreadyMapped:
    case hipErrorAlreadyAcquired:
    case hipErrorPeerAccessAlreadyEnabled:
    case hipErrorHostMemoryAlreadyRegistered:
      return true;
    default:
      return false;
  }
}

ErrorCode code_of(hipError_t result) noexcept {
  switch (result) {
    case hipErrorOutOfMemory:
      return ErrorCode::out_of_device_memory;
    case hipErrorInsufficientDriver:
      return ErrorCode::driver_too_old;
    case hipErrorNoDevice:
    case hipErrorInvalidDevice:
      return ErrorCode::no_device;
    case hipErrorInvalidImage:
    case hipErrorInvalidKernelFile:
    case hipErrorInvalidSource:
    case hipErrorSharedObjectInitFailed:
      return ErrorCode::invalid_image;
    case hipErrorNoBinaryForGpu:
      return ErrorCode::no_matching_image;
    case hipErrorInvalidConfiguration:
    case hipErrorLaunchOutOfResources:
    case hipErrorCooperativeLaunchTooLarge:
      return ErrorCode::invalid_launch;
    case hipErrorIllegalAddress:
    case hipErrorLaunchTimeOut:
    case hipErrorAssert:
    case hipErrorLaunchFailure:
      return ErrorCode::device_fault;
    case hipErrorDeinitialized:
    case hipErrorContextIsDestroyed:
    case hipErrorECCNotCorrectable:
      return ErrorCode::device_lost;
    case hipErrorNotSupported:
      return ErrorCode::unsupported;
    case hipErrorStreamCaptureUnsupported:
    case hipErrorStreamCaptureInvalidated:
    case hipErrorStreamCaptureMerge:
    case hipErrorStreamCaptureUnmatched:
    case hipErrorStreamCaptureUnjoined:
    case hipErrorStreamCaptureIsolation:
    case hipErrorStreamCaptureImplicit:
    case hipErrorCapturedEvent:
    case hipErrorStreamCaptureWrongThread:
      return ErrorCode::capture_invalidated;
    default:
      return ErrorCode::driver_error;
  }
}

void fail_hip(hipError_t result, std::string_view doing) {
  const std::string name = result_name(result);
  throw Error(code_of(result), detail::format("{}: the HIP runtime answered {} ({})", doing, name, result), result,
              name);
}

}  // namespace kdart::hip
