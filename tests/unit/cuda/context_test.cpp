// Which context a device works in, and what it leaves current.
#include <catch2/catch_test_macros.hpp>

#include "kdart/cuda.h"
#include "kdart/owned.h"
#include "kdart/registry.h"
#include "tests/support/expect_error.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/sample_set.h"
#include "tests/unit/common/walk.h"

namespace kdart::test {
namespace {

void walk_unmoved(const FakeCuda& fake) {
  Walk walk(fake);
  for (const Walk::Step& step : walk.steps()) {
    INFO(step.name);
    unmoved(fake, [&] { step.run(); });
  }
}

}  // namespace

TEST_CASE("cuda: a device retains the primary context once and releases it once", "[cuda][no-device]") {
  const FakeCuda fake;
  {
    const auto gpu = fake.open();
    CHECK(fake->retains(0) == 1);
    CHECK(gpu->info().id == "cuda:0");
    const OwnedStream stream(gpu);
    const auto again = fake.open();
    CHECK(fake->retains(0) == 2);
    CHECK(again->service<CudaInterop>()->native_context() == gpu->service<CudaInterop>()->native_context());
  }
  CHECK(fake->retains(0) == 0);
  CHECK(fake.calls("cuDevicePrimaryCtxRetain") == 2);
  CHECK(fake.calls("cuDevicePrimaryCtxRelease_v2") == 2);
  KDART_CHECK_CLEAN(fake);
}

TEST_CASE("cuda: a device is of the GPU that its number names", "[cuda][no-device]") {
  const FakeCuda fake;
  fake->set_device_count(3);
  const auto gpu = open_device("cuda:2", fake.options());
  CHECK(gpu->info().index == 2);
  CHECK(fake->retains(2) == 1);
  CHECK(fake->retains(0) == 0);
  const Buffer memory(gpu, 100);
  CHECK(gpu->memory_info().live == 100);
}

TEST_CASE("cuda: every call leaves the thread's context as it was", "[cuda][no-device]") {
  const FakeCuda fake;
  SECTION("none") {
    walk_unmoved(fake);
  }
  SECTION("another") {
    static_cast<void>(fake.open());  // starts the driver
    void* const foreign = fake->create_context(0);
    fake->push(foreign);
    walk_unmoved(fake);
    CHECK(fake->current() == foreign);
    fake->pop();
    fake->destroy_context(foreign);
  }
  SECTION("the device's own") {
    static_cast<void>(fake.open());
    cuda::CUcontext primary = nullptr;
    REQUIRE(fake.cu().device_primary_ctx_retain(&primary, 0) == 0);
    fake->push(primary);
    walk_unmoved(fake);
    CHECK(fake->current() == primary);
    fake->pop();
    REQUIRE(fake.cu().device_primary_ctx_release(0) == 0);
  }
  SECTION("on another thread") {
    on_another_thread([&] { walk_unmoved(fake); });
    CHECK(fake->depth() == 0);
  }
  CHECK(fake->depth() == 0);
  KDART_CHECK_CLEAN(fake);
}

TEST_CASE("cuda: one device serves threads whose contexts differ", "[cuda][no-device]") {
  const FakeCuda fake;
  auto gpu = fake.open();
  void* const foreign = fake->create_context(0);
  const auto work = [&](void* current) {
    if (current != nullptr) fake->push(current);
    unmoved(fake, [&] { canary(fake, gpu); });
    if (current != nullptr) fake->pop();
  };
  for (void* current : {static_cast<void*>(nullptr), foreign, gpu->service<CudaInterop>()->native_context()})
    on_another_thread([&] { work(current); });
  gpu.reset();
  fake->destroy_context(foreign);
  KDART_CHECK_CLEAN(fake);
}

TEST_CASE("cuda: nothing is pushed where the context is current already", "[cuda][no-device]") {
  const FakeCuda fake;
  const auto gpu = fake.open();
  const auto pushes = [&] { return fake.calls("cuCtxPushCurrent_v2"); };
  const auto pops = [&] { return fake.calls("cuCtxPopCurrent_v2"); };

  std::uint64_t before = pushes();
  canary(fake, gpu);
  CHECK(pushes() > before);
  CHECK(pops() == pushes());

  before = pushes();
  fake->push(gpu->service<CudaInterop>()->native_context());
  canary(fake, gpu);
  CHECK(pushes() == before);
  CHECK(pops() == before);
  fake->pop();
}

TEST_CASE("cuda: a launch calls the driver for the context and the launch alone", "[cuda][no-device]") {
  const FakeCuda fake;
  const auto gpu = fake.open();
  const auto set = gpu->load(fake_cuda_set());
  const Buffer memory(gpu, 1024);
  const OwnedStream stream(gpu);
  fake->push(gpu->service<CudaInterop>()->native_context());
  const std::uint64_t first = fake.calls();
  launch_scale(*gpu, *set, memory.get(), memory.get().offset(512), stream.get());
  CHECK(fake.calls_since(first) == std::vector<std::string>{"cuCtxGetCurrent", "cuLaunchKernel"});
  fake->pop();
}

// --- adoption ---------------------------------------------------------------------------------------------------------

TEST_CASE("cuda: an adopted context is used and never released", "[cuda][no-device]") {
  const FakeCuda fake;
  fake->set_device_count(2);
  static_cast<void>(open_device("cuda:0", fake.options()));  // starts the driver
  const std::uint64_t retained = fake.calls("cuDevicePrimaryCtxRetain");
  void* const mine = fake->create_context(1);
  {
    const auto gpu = adopt_cuda_context(mine, fake.options());
    CHECK(gpu->info().id == "cuda:1");
    CHECK(gpu->service<CudaInterop>()->native_context() == mine);
    unmoved(fake, [&] { canary(fake, gpu); });
  }
  CHECK(fake->depth() == 0);
  CHECK(fake.calls("cuDevicePrimaryCtxRetain") == retained);
  CHECK(fake.calls("cuDevicePrimaryCtxRelease_v2") == retained);
  // It is as alive as before, and nothing of kdart's is left in it.
  CHECK(fake.cu().ctx_push_current(static_cast<cuda::CUcontext>(mine)) == 0);
  fake->pop();
  fake->destroy_context(mine);
  KDART_CHECK_CLEAN(fake);
}

TEST_CASE("cuda: the primary context can be adopted as any other", "[cuda][no-device]") {
  const FakeCuda fake;
  const auto own = fake.open();
  const auto adopted = adopt_cuda_context(own->service<CudaInterop>()->native_context(), fake.options());
  CHECK(adopted->info().id == "cuda:0");
  CHECK(fake->retains(0) == 1);
  canary(fake, adopted);
}

TEST_CASE("cuda: what the driver knows as no context is not adopted", "[cuda][no-device]") {
  const FakeCuda fake;
  expect_error(ErrorCode::invalid_argument, {"adopt_cuda_context", "null"},
               [&] { static_cast<void>(adopt_cuda_context(nullptr, fake.options())); });
  static_cast<void>(fake.open());
  void* const dead = fake->create_context(0);
  fake->destroy_context(dead);
  unmoved(fake, [&] {
    expect_error(ErrorCode::invalid_argument, {"adopt_cuda_context"},
                 [&] { static_cast<void>(adopt_cuda_context(dead, fake.options())); });
  });
  KDART_CHECK_CLEAN(fake);
}

TEST_CASE("cuda: a device that fails to open leaves nothing behind", "[cuda][no-device]") {
  const FakeCuda fake;
  for (const char* symbol : {"cuDevicePrimaryCtxRetain", "cuCtxGetCurrent", "cuCtxPushCurrent_v2", "cuMemPoolCreate",
                             "cuMemPoolSetAttribute", "cuStreamCreate"}) {
    INFO(symbol);
    fake->fail(symbol, 1, cuda::CUDA_ERROR_DEVICE_UNAVAILABLE, false);
    unmoved(fake, [&] {
      expect_error(ErrorCode::no_device, {"CUDA_ERROR_DEVICE_UNAVAILABLE"}, [&] { static_cast<void>(fake.open()); });
    });
    CHECK(fake->retains(0) == 0);
    KDART_CHECK_CLEAN(fake);
  }
  canary(fake, fake.open());
}

}  // namespace kdart::test
