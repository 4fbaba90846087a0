// Images, kernels, their shared memory, and what a launch hands to the driver.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstring>

#include "kdart/cuda.h"
#include "kdart/kda_kernels.h"
#include "kdart/owned.h"
#include "tests/support/error_of.h"
#include "tests/support/expect_error.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/sample_set.h"

namespace kdart::test {
namespace {

struct Loaded {
  explicit Loaded(FakeCuda::Driver driver = FakeCuda::Driver::full) : fake(driver) {}
  void load() {
    gpu = fake.open();
    set = gpu->load(fake_cuda_set());
    stream = OwnedStream(gpu);
  }
  void launch_extra(std::uint32_t shared_bytes) {
    KernelLaunch(gpu, set->get("extra")).grid(1).block(1).shared_mem(shared_bytes).launch(stream.get());
  }
  [[nodiscard]] std::uint64_t raises() const { return fake.calls("cuFuncSetAttribute"); }

  FakeCuda fake;
  std::shared_ptr<GpuBackend> gpu;
  std::shared_ptr<LoadedSet> set;
  OwnedStream stream;
};

constexpr std::uint32_t kib = 1024;

}  // namespace

TEST_CASE("cuda: dynamic shared memory is a mark that only rises", "[cuda][no-device]") {
  Loaded l;
  l.load();
  const KernelHandle kernel = l.set->get("extra");
  const auto prepare = [&](std::uint32_t bytes) { l.gpu->prepare(kernel, {32, 1, 1}, bytes); };
  prepare(48 * kib);  // needs nothing
  CHECK(l.raises() == 0);
  prepare(48 * kib + 1);
  CHECK(l.raises() == 1);
  prepare(100 * kib);
  CHECK(l.raises() == 2);
  for (const std::uint32_t bytes : {100 * kib, 60 * kib, 0U}) prepare(bytes);
  l.launch_extra(100 * kib);
  l.launch_extra(10);
  l.launch_extra(99 * kib);
  CHECK(l.raises() == 2);
  l.launch_extra(101 * kib);  // without having been prepared
  CHECK(l.raises() == 3);
  l.launch_extra(101 * kib);
  CHECK(l.raises() == 3);
  int allowed = 0;
  l.fake->push(l.gpu->service<CudaInterop>()->native_context());
  const auto function = static_cast<cuda::CUfunction>(l.gpu->service<CudaInterop>()->native_kernel(kernel));
  REQUIRE(l.fake.cu().func_get_attribute(&allowed, cuda::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function) ==
          0);
  l.fake->pop();
  CHECK(allowed == 101 * 1024);
  l.gpu->synchronize(l.stream.get());
}

TEST_CASE("cuda: each kernel has a mark of its own", "[cuda][no-device]") {
  Loaded l;
  l.load();
  l.gpu->prepare(l.set->get("extra"), {32, 1, 1}, 100 * kib);
  l.gpu->prepare(l.set->get("scale"), {64, 1, 1}, 100 * kib);
  CHECK(l.raises() == 2);
}

TEST_CASE("cuda: static shared memory counts", "[cuda][no-device]") {
  Loaded l;
  l.fake->set_function("kdart_extra", 1024, 40 * kib);
  l.load();
  const KernelHandle kernel = l.set->get("extra");
  CHECK(l.gpu->kernel_info(kernel).static_shared_bytes == 40 * kib);
  l.launch_extra(8 * kib);
  CHECK(l.raises() == 0);
  l.launch_extra(8 * kib + 1);
  CHECK(l.raises() == 1);
  const std::uint32_t most = 232448 - 40 * kib;
  l.launch_extra(most);
  CHECK(l.raises() == 2);
  expect_error(ErrorCode::invalid_launch, {"extra", "232448"}, [&] { l.launch_extra(most + 1); });
  expect_error(ErrorCode::invalid_launch, {"extra", "232448"}, [&] { l.gpu->prepare(kernel, {1, 1, 1}, most + 1); });
  CHECK(l.raises() == 2);
}

TEST_CASE("cuda: shared memory that the driver refuses leaves the mark as it was", "[cuda][no-device]") {
  Loaded l;
  l.load();
  l.fake->fail("cuFuncSetAttribute", 1, 999, false);
  expect_error(ErrorCode::driver_error, {"extra", "102400", "999"}, [&] { l.launch_extra(100 * kib); });
  l.launch_extra(100 * kib);
  CHECK(l.raises() == 2);
  CHECK(l.fake->launches() == 1);
}

TEST_CASE("cuda: a launch hands over what the record says", "[cuda][no-device]") {
  Loaded l;
  l.load();
  const Buffer x(l.gpu, 4096);
  const ScaleArgs args{.x = x.get(), .y = x.get().offset(2048), .bias = {}, .n = 100, .a = 0.5F};
  KernelLaunch(l.gpu, l.set->get("scale")).args(args).launch(l.stream.get());
  const auto launch = l.fake.launches().at(0);
  CHECK(std::string(launch.kernel) == "kdart_scale");
  CHECK(std::equal(launch.grid, launch.grid + 3, std::vector{2U, 1U, 1U}.begin()));
  CHECK(std::equal(launch.block, launch.block + 3, std::vector{64U, 1U, 1U}.begin()));
  CHECK(launch.shared_bytes == 16);
  CHECK(launch.stream == l.gpu->service<CudaInterop>()->native_stream(l.stream.get()));
  REQUIRE(launch.argument_bytes == 32);
  CHECK(std::memcmp(launch.arguments, &args, 32) == 0);
  CHECK(!launch.dependent);
  CHECK(l.fake.calls("cuLaunchKernelEx") == 0);

  KernelLaunch(l.gpu, l.set->get("extra"))
      .grid(4, 5, 6)
      .block(7, 8, 9)
      .shared_mem(11)
      .attributes({.cluster = {2, 5, 1}, .dependent = true})
      .launch(l.stream.get());
  const auto attributed = l.fake.launches().at(1);
  CHECK(std::equal(attributed.grid, attributed.grid + 3, std::vector{4U, 5U, 6U}.begin()));
  CHECK(std::equal(attributed.block, attributed.block + 3, std::vector{7U, 8U, 9U}.begin()));
  CHECK(std::equal(attributed.cluster, attributed.cluster + 3, std::vector{2U, 5U, 1U}.begin()));
  CHECK(attributed.dependent);
  CHECK(attributed.shared_bytes == 11);
  CHECK(attributed.argument_bytes == 0);
  CHECK(l.fake.calls("cuLaunchKernelEx") == 1);
}

TEST_CASE("cuda: one attribute alone is passed alone", "[cuda][no-device]") {
  Loaded l;
  l.load();
  KernelLaunch launch(l.gpu, l.set->get("extra"));
  launch.grid(4).block(1);
  launch.attributes({.cluster = {4, 1, 1}}).launch(l.stream.get());
  launch.attributes({.dependent = true}).launch(l.stream.get());
  CHECK(l.fake.launches().at(0).cluster[0] == 4);
  CHECK(!l.fake.launches().at(0).dependent);
  CHECK(l.fake.launches().at(1).cluster[0] == 1);
  CHECK(l.fake.launches().at(1).dependent);
}

TEST_CASE("cuda: launch attributes are refused where the driver has none", "[cuda][no-device]") {
  Loaded l(FakeCuda::Driver::plain);
  l.load();
  KernelLaunch launch(l.gpu, l.set->get("extra"));
  launch.grid(4).block(1);
  expect_error(ErrorCode::unsupported, {"cluster_launch"},
               [&] { launch.attributes({.cluster = {4, 1, 1}}).launch(l.stream.get()); });
  expect_error(ErrorCode::unsupported, {"dependent_launch"},
               [&] { launch.attributes({.dependent = true}).launch(l.stream.get()); });
  launch.attributes({}).launch(l.stream.get());
  CHECK(l.fake->launches() == 1);
}

TEST_CASE("cuda: a kernel takes no more threads than the driver says", "[cuda][no-device]") {
  Loaded l;
  l.fake->set_function("kdart_extra", 96, 0);
  l.load();
  CHECK(l.gpu->kernel_info(l.set->get("extra")).max_threads == 96);
  KernelLaunch launch(l.gpu, l.set->get("extra"));
  launch.grid(1).block(96).launch(l.stream.get());
  expect_error(ErrorCode::invalid_launch, {"extra", "97", "96"}, [&] { launch.block(97).launch(l.stream.get()); });
  CHECK(l.fake->launches() == 1);
}

TEST_CASE("cuda: a launch that the driver refuses is not under way", "[cuda][no-device]") {
  Loaded l;
  l.load();
  for (const int result : {701, 1}) {
    l.fake->fail("cuLaunchKernel", 1, result, false);
    const Error error = error_of([&] { l.launch_extra(0); });
    CHECK(error.code() == (result == 701 ? ErrorCode::invalid_launch : ErrorCode::driver_error));
    CHECK(std::string(error.what()).find("'extra'") != std::string::npos);
  }
  l.launch_extra(0);
  l.gpu->synchronize(l.stream.get());
  CHECK(l.fake.launches().at(0).runs == 1);
}

// --- images -----------------------------------------------------------------------------------------------------------

TEST_CASE("cuda: an image that the driver refuses is told with the driver's words", "[cuda][no-device]") {
  const struct {
    int result;
    ErrorCode code;
  } refusals[] = {{cuda::CUDA_ERROR_NO_BINARY_FOR_GPU, ErrorCode::no_matching_image},
                  {cuda::CUDA_ERROR_INVALID_PTX, ErrorCode::invalid_image},
                  {cuda::CUDA_ERROR_UNSUPPORTED_PTX_VERSION, ErrorCode::no_matching_image},
                  {cuda::CUDA_ERROR_JIT_COMPILER_NOT_FOUND, ErrorCode::no_matching_image},
                  {cuda::CUDA_ERROR_INVALID_IMAGE, ErrorCode::invalid_image},
                  {cuda::CUDA_ERROR_OUT_OF_MEMORY, ErrorCode::out_of_device_memory},
                  {999, ErrorCode::driver_error}};
  const FakeCuda fake;
  auto gpu = fake.open();
  for (const auto& refusal : refusals) {
    fake->refuse_image(refusal.result, "ptxas: line 4; unexpected thing");
    const Error error = error_of([&] { static_cast<void>(gpu->load(fake_cuda_set())); });
    INFO(error.what());
    CHECK(error.code() == refusal.code);
    CHECK(error.native_code() == refusal.result);
    const std::string message = error.what();
    for (const char* word :
         {"'sample.ptx'", "sm_70", "CUDA 13.0", "NVIDIA H200", "sm_90", "line 4; unexpected thing"}) {
      INFO(word);
      CHECK(message.find(word) != std::string::npos);
    }
  }
  fake->refuse_image(0, "");
  static_cast<void>(gpu->load(fake_cuda_set()));
  gpu.reset();
  KDART_CHECK_CLEAN(fake);
}

TEST_CASE("cuda: PTX is handed over with its end", "[cuda][no-device]") {
  const FakeCuda fake;
  const auto gpu = fake.open();
  const auto set = gpu->load(fake_cuda_set());
  CHECK(fake->text_length() == set->image().bytes);
}

TEST_CASE("cuda: a long log does not run over", "[cuda][no-device]") {
  const FakeCuda fake;
  const auto gpu = fake.open();
  const std::string log(100000, 'x');
  fake->refuse_image(cuda::CUDA_ERROR_INVALID_PTX, log.c_str());
  const Error error = error_of([&] { static_cast<void>(gpu->load(fake_cuda_set())); });
  CHECK(error.code() == ErrorCode::invalid_image);
  CHECK(std::string(error.what()).find("xxxxxxxxxx") != std::string::npos);
}

TEST_CASE("cuda: an entry point that the image lacks is named, and nothing stays loaded", "[cuda][no-device]") {
  const FakeCuda fake;
  auto gpu = fake.open();
  fake->refuse_function("kdart_tagged");
  expect_error(ErrorCode::corrupt_image, {"'sample.ptx'", "'tagged'", "'kdart_tagged'"},
               [&] { static_cast<void>(gpu->load(fake_cuda_set())); });
  gpu.reset();
  KDART_CHECK_CLEAN(fake);
}

TEST_CASE("cuda: the arguments that the driver states are compared with the contract", "[cuda][no-device]") {
  const FakeCuda fake;
  auto gpu = fake.open();
  const auto state = [&](std::size_t size_of_last) {
    for (const std::size_t offset : {0U, 8U, 16U}) fake->add_parameter("kdart_scale", offset, 8);
    fake->add_parameter("kdart_scale", 24, 4);
    fake->add_parameter("kdart_scale", 28, size_of_last);
  };
  SECTION("and agree") {
    state(4);
    CHECK(gpu->load(fake_cuda_set())->missing().empty());
  }
  SECTION("or not") {
    state(8);
    expect_error(ErrorCode::corrupt_image, {"scale", "sample.ptx"},
                 [&] { static_cast<void>(gpu->load(fake_cuda_set())); });
  }
  gpu.reset();
  KDART_CHECK_CLEAN(fake);
}

TEST_CASE("cuda: PTX that is newer than the driver takes is not chosen", "[cuda][no-device]") {
  const FakeCuda fake;
  fake->set_driver_version(11030);
  const auto gpu = fake.open();
  const std::uint64_t loads = fake.calls("cuModuleLoadDataEx");
  expect_error(ErrorCode::no_matching_image, {"sample.ptx", "needs driver >= 470", "CUDA 11.3"},
               [&] { static_cast<void>(gpu->load(fake_cuda_set())); });
  CHECK(fake.calls("cuModuleLoadDataEx") == loads);
}

TEST_CASE("cuda: each set that is loaded is a module of its own", "[cuda][no-device]") {
  const FakeCuda fake;
  auto gpu = fake.open();
  auto first = gpu->load(fake_cuda_set());
  auto second = gpu->load(fake_cuda_set());
  CHECK(fake.calls("cuModuleLoadDataEx") == 2);
  auto* interop = gpu->service<CudaInterop>();
  CHECK(interop->native_kernel(first->get("scale")) != interop->native_kernel(second->get("scale")));
  const KernelHandle gone = first->get("scale");
  first.reset();
  CHECK(fake.calls("cuModuleUnload") == 1);
  expect_error(ErrorCode::invalid_handle, {"native_kernel"}, [&] { static_cast<void>(interop->native_kernel(gone)); });
  second.reset();
  gpu.reset();
  KDART_CHECK_CLEAN(fake);
}

TEST_CASE("cuda: the kernels of this build load from their cubins", "[cuda][no-device]") {
  std::shared_ptr<const KernelSet> embedded;
  try {
    embedded = KernelSet::embedded(kernels::kda_contract(), "cuda");
  } catch (const Error& error) {
    SKIP(error.what());
  }
  const FakeCuda fake;
  auto gpu = fake.open();
  {
    const auto set = gpu->load(embedded);
    CHECK(set->image().target == "sm_90");
    CHECK(set->image().format == ImageFormat::cubin);
    CHECK(set->missing().empty());
    CHECK(fake.calls("cuModuleLoadDataEx") == 1);
    CHECK(fake.calls("cuModuleGetFunction") == kernels::kda_contract().kernels.size());
  }
  gpu.reset();
  KDART_CHECK_CLEAN(fake);
}

}  // namespace kdart::test
