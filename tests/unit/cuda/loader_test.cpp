// Finding and starting the driver library.
#include "backends/cuda/loader.h"

#include <dlfcn.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "kdart/registry.h"
#include "tests/fake_cuda_paths.h"
#include "tests/support/error_of.h"
#include "tests/support/expect_error.h"
#include "tests/support/fake_cuda.h"

namespace kdart::test {
namespace {

OpenOptions options_for(const char* path) {
  return {.driver_path = path, .gemm_library = ""};
}

// What a listing says of CUDA.
BackendStatus cuda_status(const OpenOptions& options) {
  for (BackendStatus& status : list_backends(options)) {
    if (status.backend == "cuda") return std::move(status);
  }
  FAIL("the build has no CUDA backend");
  return {};
}

}  // namespace

TEST_CASE("cuda: the fake driver has every entry point that the backend asks for", "[cuda][no-device]") {
  const FakeCuda fake;
#define KDART_TEST_THERE(member, symbol, parameters) CHECK(fake.cu().member != nullptr);
  KDART_CUDA_FUNCTIONS(KDART_TEST_THERE)
  KDART_CUDA_OPTIONAL_FUNCTIONS(KDART_TEST_THERE)
#undef KDART_TEST_THERE
  const auto library = cuda::Library::open(fake.options());
  CHECK(library->file() == fake_cuda_paths::full);
  CHECK(library->cuda_version() == 13000);
  CHECK(library->functions().launch_kernel_ex != nullptr);
}

TEST_CASE("cuda: a driver of CUDA 11 serves without what came later", "[cuda][no-device]") {
  const FakeCuda fake(FakeCuda::Driver::plain);
  fake->set_driver_version(11040);
  const auto library = cuda::Library::open(fake.options());
  CHECK(library->cuda_version() == 11040);
  CHECK(library->functions().launch_kernel_ex == nullptr);
  CHECK(library->functions().func_get_param_info == nullptr);
  CHECK(library->functions().mem_alloc_from_pool_async != nullptr);
}

TEST_CASE("cuda: a driver that is not there is reported with every path that was tried", "[cuda][no-device]") {
  expect_error(ErrorCode::driver_missing, {"the CUDA driver", "'/nowhere/libcuda.so.1'"},
               [] { static_cast<void>(open_device("cuda:0", options_for("/nowhere/libcuda.so.1"))); });
  if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) != nullptr) return;  // that one would be taken
  const OpenOptions named{.driver_names = {"libkdart-none.so.1", "/nowhere/libcuda.so"}};
  expect_error(ErrorCode::driver_missing, {"'libkdart-none.so.1'", "'/nowhere/libcuda.so'"},
               [&] { static_cast<void>(open_device("cuda:0", named)); });
}

TEST_CASE("cuda: a library of that name without cuInit is no driver", "[cuda][no-device]") {
  expect_error(ErrorCode::driver_missing, {fake_cuda_paths::no_driver, "a library without cuInit"},
               [] { static_cast<void>(open_device("cuda:0", options_for(fake_cuda_paths::no_driver))); });
}

TEST_CASE("cuda: the toolkit's stub is called by its name", "[cuda][no-device]") {
  const FakeCuda fake;
  fake->answer_all(cuda::CUDA_ERROR_STUB_LIBRARY);
  expect_error(ErrorCode::driver_missing, {fake_cuda_paths::full, "stub", "CUDA_ERROR_STUB_LIBRARY"},
               [&] { static_cast<void>(fake.open()); });
  const BackendStatus status = cuda_status(fake.options());
  CHECK(status.error == ErrorCode::driver_missing);
  CHECK(status.message.find("stub") != std::string::npos);
}

TEST_CASE("cuda: a driver without a needed entry point is too old, and the entry point is named", "[cuda][no-device]") {
  expect_error(ErrorCode::driver_too_old, {fake_cuda_paths::old, "CUDA 13.0", "cuMemAllocFromPoolAsync", "11.4"},
               [] { static_cast<void>(open_device("cuda:0", options_for(fake_cuda_paths::old))); });
}

TEST_CASE("cuda: what cuInit answers is told apart", "[cuda][no-device]") {
  const struct {
    int result;
    ErrorCode code;
    const char* word;
  } answers[] = {
      {cuda::CUDA_ERROR_NO_DEVICE, ErrorCode::no_device, "no NVIDIA GPU"},
      {cuda::CUDA_ERROR_NOT_INITIALIZED, ErrorCode::forked_process, "fork"},
      {cuda::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, ErrorCode::driver_too_old, "different versions"},
      {cuda::CUDA_ERROR_SYSTEM_NOT_READY, ErrorCode::no_device, "CUDA_ERROR_SYSTEM_NOT_READY"},
      {cuda::CUDA_ERROR_OUT_OF_MEMORY, ErrorCode::out_of_device_memory, "CUDA_ERROR_OUT_OF_MEMORY"},
      {cuda::CUDA_ERROR_ILLEGAL_ADDRESS, ErrorCode::device_fault, "CUDA_ERROR_ILLEGAL_ADDRESS"},
      {12345, ErrorCode::driver_error, "CUresult 12345"},
  };
  const FakeCuda fake;
  for (const auto& answer : answers) {
    INFO(answer.result);
    fake->fail("cuInit", 1, answer.result, false);
    const Error error = error_of([&] { static_cast<void>(fake.open()); });
    CHECK(error.code() == answer.code);
    CHECK(error.native_code() == answer.result);
    const std::string message = error.what();
    CHECK(message.find(answer.word) != std::string::npos);
    CHECK(message.find(fake_cuda_paths::full) != std::string::npos);
  }
  static_cast<void>(fake.open());  // none of it lasts
  KDART_CHECK_CLEAN(fake);
}

TEST_CASE("cuda: a machine without a GPU has no device", "[cuda][no-device]") {
  const FakeCuda fake;
  SECTION("and its driver says so when it is started") {
    fake->set_device_count(0);
  }
  SECTION("or when it is asked") {
    fake->fail("cuDeviceGetCount", 1, cuda::CUDA_ERROR_NO_DEVICE, false);
  }
  const BackendStatus status = cuda_status(fake.options());
  CHECK(status.error == ErrorCode::no_device);
  CHECK(status.devices.empty());
  CHECK(status.message.find(fake_cuda_paths::full) != std::string::npos);
}

TEST_CASE("cuda: a device beyond the last is refused with how many there are", "[cuda][no-device]") {
  const FakeCuda fake;
  fake->set_device_count(2);
  expect_error(ErrorCode::no_device, {"cuda:2", "2 devices", "cuda:1"},
               [&] { static_cast<void>(open_device("cuda:2", fake.options())); });
}

TEST_CASE("cuda: a listing makes no context", "[cuda][no-device]") {
  const FakeCuda fake;
  fake->set_device_count(2);
  fake->set_name(1, "NVIDIA A100");
  fake->set_attribute(1, cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 8);
  const BackendStatus status = cuda_status(fake.options());
  INFO(status.message);
  CHECK(!status.error);
  CHECK(status.driver_library == fake_cuda_paths::full);
  REQUIRE(status.devices.size() == 2);
  CHECK(status.devices[0].id == "cuda:0");
  CHECK(status.devices[0].target == "sm_90");
  CHECK(status.devices[1].id == "cuda:1");
  CHECK(status.devices[1].name == "NVIDIA A100");
  CHECK(status.devices[1].target == "sm_80");
  CHECK(status.devices[0].uuid != status.devices[1].uuid);
  for (const std::string& symbol : fake.calls_since(0)) {
    INFO(symbol);
    CHECK(symbol.find("Ctx") == std::string::npos);
  }
  KDART_CHECK_CLEAN(fake);
}

TEST_CASE("cuda: a listing keeps whatever fails in its status", "[cuda][no-device]") {
  const FakeCuda fake;
  static_cast<void>(cuda_status(fake.options()));
  const std::uint64_t calls = fake.calls();
  REQUIRE(calls > 10);
  std::uint64_t reported = 0;
  for (std::uint64_t n = 1; n <= calls; ++n) {
    const FakeCuda again;
    again->fail("", n, 999, false);
    const BackendStatus status = cuda_status(again.options());
    INFO(n << ": " << again->call(n - 1));
    if (!status.error) continue;
    ++reported;
    CHECK(*status.error == ErrorCode::driver_error);
    CHECK(status.message.find("999") != std::string::npos);
    CHECK(status.devices.empty());
  }
  CHECK(reported > calls / 2);
}

}  // namespace kdart::test
