// Which library is opened, and what is said when none can be used; and the runtime's numbers as kdart's errors.
#include "backends/hip/loader.h"

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>

#include "backends/hip/errors.h"
#include "kdart/owned.h"
#include "kdart/registry.h"
#include "tests/hip_on_cuda_paths.h"
#include "tests/support/error_of.h"
#include "tests/support/expect_error.h"
#include "tests/unit/hip/fake_hip.h"

namespace kdart::test {
namespace {

using namespace hip;  // NOLINT: the runtime's numbers

const BackendStatus& hip_of(const std::vector<BackendStatus>& all) {
  for (const BackendStatus& status : all) {
    if (status.backend == "hip") return status;
  }
  FAIL("no backend hip");
  return all.front();
}

void expect_refused(const char* path, ErrorCode code, std::initializer_list<std::string_view> says) {
  expect_error(code, says, [&] { static_cast<void>(open_device("hip:0", {.driver_path = path})); });
}

}  // namespace

TEST_CASE("hip: a library that is not there is told with every name tried", "[hip][no-device]") {
  expect_refused("/nowhere/libamdhip64.so", ErrorCode::driver_missing, {"HIP runtime", "/nowhere/libamdhip64.so"});
  expect_error(ErrorCode::driver_missing, {"libkdart-none.so.7", "libkdart-none.so"}, [] {
    OpenOptions options;
    options.driver_names = {"libkdart-none.so.7", "libkdart-none.so"};
    static_cast<void>(open_device("hip:0", options));
  });
}

TEST_CASE("hip: a library without what is needed is told by the first name that it lacks", "[hip][no-device]") {
  expect_refused(hip_on_cuda_paths::old, ErrorCode::driver_too_old, {"hipStreamBeginCapture", "ROCm 5.0"});
  expect_refused(hip_on_cuda_paths::mute, ErrorCode::driver_too_old, {"hipGetDeviceProperties", "ROCm 5.0"});
  expect_refused(hip_on_cuda_paths::no_runtime, ErrorCode::driver_missing, {"hipInit"});
}

TEST_CASE("hip: a runtime without a device says so, and names what hides them", "[hip][no-device]") {
  const FakeHip fake;
  setenv("HIP_VISIBLE_DEVICES", "", 1);
  for (const int result : {hipErrorNoDevice, hipErrorInvalidDevice}) {
    fake->fail("hipInit", 1, result, false);
    expect_error(ErrorCode::no_device,
                 {hip_on_cuda_paths::full, "found no AMD GPU", result_name(result), "HIP_VISIBLE_DEVICES is ''"},
                 [&] { static_cast<void>(fake.open()); });
  }
  fake->fail("hipGetDeviceCount", 1, hipErrorNoDevice, false);
  const auto all = list_backends(fake.options());
  unsetenv("HIP_VISIBLE_DEVICES");
  const BackendStatus& status = hip_of(all);
  CHECK(status.error == ErrorCode::no_device);
  CHECK(status.driver_library == hip_on_cuda_paths::full);
  CHECK(status.message.find("HIP_VISIBLE_DEVICES is ''") != std::string::npos);
}

TEST_CASE("hip: each number of the runtime's has its name and its code", "[hip][no-device]") {
  const std::vector<std::pair<int, ErrorCode>> codes{
      {hipErrorOutOfMemory, ErrorCode::out_of_device_memory},
      {hipErrorInsufficientDriver, ErrorCode::driver_too_old},
      {hipErrorNoDevice, ErrorCode::no_device},
      {hipErrorInvalidImage, ErrorCode::invalid_image},
      {hipErrorNoBinaryForGpu, ErrorCode::no_matching_image},
      {hipErrorInvalidConfiguration, ErrorCode::invalid_launch},
      {hipErrorLaunchOutOfResources, ErrorCode::invalid_launch},
      {hipErrorIllegalAddress, ErrorCode::device_fault},
      {hipErrorLaunchTimeOut, ErrorCode::device_fault},
      {hipErrorLaunchFailure, ErrorCode::device_fault},
      {hipErrorECCNotCorrectable, ErrorCode::device_lost},
      {hipErrorDeinitialized, ErrorCode::device_lost},
      {hipErrorNotSupported, ErrorCode::unsupported},
      {hipErrorStreamCaptureInvalidated, ErrorCode::capture_invalidated},
      {hipErrorStreamCaptureWrongThread, ErrorCode::capture_invalidated},
      {hipErrorUnknown, ErrorCode::driver_error},
      {4321, ErrorCode::driver_error},
  };
  for (const auto& [result, code] : codes) {
    INFO(result);
    CHECK(to_string(code_of(result)) == to_string(code));
    const Error error = error_of([&] { check_hip(result, "trying"); });
    CHECK(to_string(error.code()) == to_string(code));
    CHECK(error.native_code() == result);
    CHECK(std::string(error.what()).find("trying: ") == 0);
    CHECK(std::string(error.what()).find(result_name(result)) != std::string::npos);
  }
  CHECK(result_name(hipErrorIllegalAddress) == "hipErrorIllegalAddress");
  CHECK(result_name(4321) == "hipError_t 4321");
}

TEST_CASE("hip: what is so already is no error", "[hip][no-device]") {
  for (const int result : {202, 208, 210, 704, 712}) {
    INFO(result);
    CHECK(succeeded(result));
    CHECK_NOTHROW(check_hip(result, "trying"));
  }
  CHECK_FALSE(succeeded(hipErrorNotReady));
  const FakeHip fake;
  const auto gpu = fake.open();
  const OwnedStream stream(gpu);
  const OwnedEvent event(gpu);
  fake->fail("hipEventRecord", 1, hipErrorAlreadyAcquired, false);
  CHECK_NOTHROW(gpu->record(event.get(), stream.get()));
}

}  // namespace kdart::test
