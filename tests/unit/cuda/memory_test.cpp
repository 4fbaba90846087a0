// Device memory with and without pools, host memory, copies and fills.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstring>
#include <numeric>
#include <vector>

#include "kdart/cuda.h"
#include "kdart/owned.h"
#include "tests/support/error_of.h"
#include "tests/support/expect_error.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/sample_set.h"

namespace kdart::test {
namespace {

constexpr std::size_t kib = 1024;
using Bytes = std::vector<std::uint8_t>;

Bytes counting(std::size_t size) {
  Bytes bytes(size);
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
  return bytes;
}

Bytes read(GpuBackend& gpu, DevicePtr memory, std::size_t size) {
  Bytes bytes(size);
  gpu.copy_d2h(bytes.data(), memory, size);
  return bytes;
}

void without_pools(const FakeCuda& fake) {
  fake->set_attribute(0, cuda::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0);
}

}  // namespace

TEST_CASE("cuda: bytes go to the device and back", "[cuda][no-device]") {
  const FakeCuda fake;
  const bool pools = GENERATE(true, false);
  if (!pools) without_pools(fake);
  auto gpu = fake.open();
  {
    const Buffer x(gpu, 4 * kib);
    const Buffer y(gpu, 4 * kib);
    const OwnedStream stream(gpu);
    const Bytes bytes = counting(4 * kib);
    gpu->copy_h2d(x.get(), bytes.data(), bytes.size());
    gpu->copy_d2d(y.get(), x.get(), bytes.size());
    CHECK(read(*gpu, y.get(), bytes.size()) == bytes);

    Bytes back(bytes.size());
    gpu->copy_h2d_async(x.get().offset(1), bytes.data(), 100, stream.get());
    gpu->copy_d2d_async(y.get(), x.get(), 101, stream.get());
    gpu->copy_d2h_async(back.data(), y.get(), 101, stream.get());
    gpu->synchronize(stream.get());
    CHECK(std::equal(bytes.begin(), bytes.begin() + 100, back.begin() + 1));
  }
  CHECK((fake.calls("cuMemAllocFromPoolAsync") != 0) == pools);
  CHECK((fake.calls("cuMemPoolCreate") != 0) == pools);
  CHECK((fake.calls("cuMemAlloc_v2") != 0) == !pools);
  gpu.reset();
  KDART_CHECK_CLEAN(fake);
}

TEST_CASE("cuda: fills have the width that was asked for", "[cuda][no-device]") {
  const FakeCuda fake;
  const auto gpu = fake.open();
  const Buffer memory(gpu, 64);
  const OwnedStream stream(gpu);
  gpu->fill(memory.get(), 0, 1, 64, stream.get());
  gpu->fill(memory.get(), 0xffffff11, 1, 3, stream.get());
  gpu->fill(memory.get().offset(16), 0xffff2233, 2, 3, stream.get());
  gpu->fill(memory.get().offset(32), 0x44556677, 4, 3, stream.get());
  gpu->synchronize(stream.get());
  Bytes expected(64);
  for (std::size_t i = 0; i < 3; ++i) {
    expected[i] = 0x11;
    expected[16 + 2 * i] = 0x33;
    expected[17 + 2 * i] = 0x22;
    expected[32 + 4 * i] = 0x77;
    expected[33 + 4 * i] = 0x66;
    expected[34 + 4 * i] = 0x55;
    expected[35 + 4 * i] = 0x44;
  }
  CHECK(read(*gpu, memory.get(), 64) == expected);
}

TEST_CASE("cuda: rows are copied at once or, where the pitch is beyond the driver, one by one", "[cuda][no-device]") {
  const FakeCuda fake;
  const int max_pitch = GENERATE(2147483647, 100);
  fake->set_attribute(0, cuda::CU_DEVICE_ATTRIBUTE_MAX_PITCH, max_pitch);
  const auto gpu = fake.open();
  const Buffer x(gpu, kib);
  const Buffer y(gpu, kib);
  const OwnedStream stream(gpu);
  const Bytes bytes = counting(kib);
  gpu->copy_h2d(x.get(), bytes.data(), bytes.size());
  gpu->fill(y.get(), 0xaa, 1, kib, stream.get());
  gpu->copy_2d_d2d_async(y.get().offset(3), 64, x.get().offset(5), 200, 20, 4, stream.get());
  gpu->synchronize(stream.get());
  Bytes expected(kib, 0xaa);
  for (std::size_t row = 0; row < 4; ++row)
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(5 + row * 200), 20,
                expected.begin() + static_cast<std::ptrdiff_t>(3 + row * 64));
  CHECK(read(*gpu, y.get(), kib) == expected);
  CHECK(fake.calls("cuMemcpy2DAsync_v2") == (max_pitch == 100 ? 0 : 1));
  CHECK(fake.calls("cuMemcpyDtoDAsync_v2") == (max_pitch == 100 ? 4 : 0));
}

// --- out of memory ----------------------------------------------------------------------------------------------------

TEST_CASE("cuda: what a pool holds in reserve is given back before memory is refused", "[cuda][no-device]") {
  const FakeCuda fake;
  fake->set_total_memory(0, 1024 * kib);
  fake->close_pools(true);  // the reserve fits no other size
  const auto gpu = fake.open();
  {
    const Buffer first(gpu, 700 * kib);
  }
  CHECK(fake.calls("cuMemPoolTrimTo") == 0);
  {
    const Buffer same(gpu, 700 * kib);
  }  // out of the reserve
  CHECK(fake.calls("cuMemPoolTrimTo") == 0);
  const std::uint64_t asked = fake.calls("cuMemAllocFromPoolAsync");
  const Buffer other(gpu, 600 * kib);
  CHECK(fake.calls("cuMemPoolTrimTo") == 1);
  CHECK(fake.calls("cuMemAllocFromPoolAsync") == asked + 2);
}

TEST_CASE("cuda: memory that a stream has yet to free is waited for", "[cuda][no-device]") {
  const FakeCuda fake;
  if (GENERATE(false, true)) without_pools(fake);
  fake->set_total_memory(0, 1024 * kib);
  const auto gpu = fake.open();
  const OwnedStream stream(gpu);
  const OwnedStream other(gpu);
  for (int i = 0; i < 3; ++i) {
    const DevicePtr memory = gpu->alloc_async(700 * kib, stream.get());
    gpu->fill(memory, 1, 4, 100, stream.get());
    gpu->free_async(memory, stream.get());
    const DevicePtr next = gpu->alloc_async(700 * kib, other.get());
    gpu->free_async(next, other.get());
  }
  CHECK(fake.violations().empty());
}

TEST_CASE("cuda: memory is freed after the work that a stream was given before", "[cuda][no-device]") {
  const FakeCuda fake;
  if (GENERATE(false, true)) without_pools(fake);
  const auto gpu = fake.open();
  const OwnedStream stream(gpu);
  const DevicePtr memory = gpu->alloc_async(kib, stream.get());
  gpu->fill(memory, 1, 4, 256, stream.get());
  gpu->free_async(memory, stream.get());
  fake->run_all();
  CHECK(fake.violations().empty());
}

TEST_CASE("cuda: memory that a blocking call has freed is waited for", "[cuda][no-device]") {
  const FakeCuda fake;
  fake->set_total_memory(0, 1024 * kib);
  const auto gpu = fake.open();
  const OwnedStream stream(gpu);
  {
    const Buffer first(gpu, 700 * kib);
  }
  const DevicePtr memory = gpu->alloc_async(700 * kib, stream.get());
  gpu->free_async(memory, stream.get());
}

TEST_CASE("cuda: what is freed stays with the pool for the next", "[cuda][no-device]") {
  const FakeCuda fake;
  fake->set_total_memory(0, 1024 * kib);
  const auto gpu = fake.open();
  {
    const Buffer first(gpu, 700 * kib);
  }
  for (int i = 0; i < 2; ++i) {
    const OwnedStream stream(gpu);
    const Buffer small(gpu, kib);
    gpu->synchronize(stream.get());
  }
  fake->push(gpu->service<CudaInterop>()->native_context());
  std::size_t left = 0;
  std::size_t total = 0;
  REQUIRE(fake.cu().mem_get_info(&left, &total) == 0);
  fake->pop();
  CHECK(left <= 324 * kib);  // as others see it
  fake->run_all();
  CHECK(gpu->memory_info().free == 1024 * kib);
}

TEST_CASE("cuda: out of memory is told with its figures, and passes", "[cuda][no-device]") {
  const FakeCuda fake;
  const bool pools = GENERATE(true, false);
  if (!pools) without_pools(fake);
  fake->set_total_memory(0, 1024 * kib);
  const auto gpu = fake.open();
  std::vector<Buffer> held;
  held.emplace_back(gpu, 600 * kib);
  held.emplace_back(gpu, 300 * kib);
  const char* const symbol = pools ? "cuMemAllocFromPoolAsync" : "cuMemAlloc_v2";
  const std::uint64_t asked = fake.calls(symbol);
  const Error error = error_of([&] { held.emplace_back(gpu, 200 * kib); });
  CHECK(error.code() == ErrorCode::out_of_device_memory);
  CHECK(error.native_code() == cuda::CUDA_ERROR_OUT_OF_MEMORY);
  const std::string message = error.what();
  for (const auto bytes : {200 * kib, 900 * kib, 124 * kib, 1024 * kib}) {
    INFO(message << ", expected: " << bytes);
    CHECK(message.find(std::to_string(bytes)) != std::string::npos);
  }
  CHECK(fake.calls(symbol) == asked + 2);  // one retry
  CHECK(gpu->memory_info().live == 900 * kib);

  held.clear();
  held.emplace_back(gpu, 600 * kib);
  held.emplace_back(gpu, 300 * kib);
  const OwnedStream stream(gpu);
  CHECK(error_of([&] { static_cast<void>(gpu->alloc_async(200 * kib, stream.get())); }).code() ==
        ErrorCode::out_of_device_memory);
  held.clear();
  held.emplace_back(gpu, 1000 * kib);
  CHECK(gpu->memory_info().live == 1000 * kib);
}

TEST_CASE("cuda: the memory limit is held without the driver", "[cuda][no-device]") {
  const FakeCuda fake;
  OpenOptions options = fake.options();
  options.memory_limit = 100 * kib;
  const auto gpu = fake.open(options);
  const Buffer most(gpu, 90 * kib);
  const std::uint64_t asked = fake.calls();
  expect_error(ErrorCode::out_of_device_memory, {"memory_limit", "102400", "20480"},
               [&] { static_cast<void>(gpu->alloc(20 * kib)); });
  CHECK(fake.calls() == asked);
}

TEST_CASE("cuda: what is free counts a pool's reserve as free", "[cuda][no-device]") {
  const FakeCuda fake;
  const bool pools = GENERATE(true, false);
  if (!pools) without_pools(fake);
  fake->set_total_memory(0, 1024 * kib);
  const auto gpu = fake.open();
  const auto info = [&] { return gpu->memory_info(); };
  CHECK(info().total == 1024 * kib);
  CHECK(info().free == 1024 * kib);
  auto memory = std::make_unique<Buffer>(gpu, 300 * kib);
  CHECK(info().free == 724 * kib);
  CHECK(info().live == 300 * kib);
  memory.reset();
  fake->run_all();
  CHECK(info().free == 1024 * kib);
  CHECK(info().live == 0);
}

TEST_CASE("cuda: an allocation that could not be freed is still there", "[cuda][no-device]") {
  const FakeCuda fake;
  const bool pools = GENERATE(true, false);
  if (!pools) without_pools(fake);
  auto gpu = fake.open();
  const DevicePtr memory = gpu->alloc(100);
  fake->fail(pools ? "cuMemFreeAsync" : "cuMemFree_v2", 1, 999, false);
  expect_error(ErrorCode::driver_error, {"freeing", "999"}, [&] { gpu->free(memory); });
  CHECK(gpu->contains(memory, 100));
  gpu->free(memory);
  CHECK(!gpu->contains(memory, 100));
  gpu.reset();
  KDART_CHECK_CLEAN(fake);
}

TEST_CASE("cuda: memory is there for any stream when alloc returns", "[cuda][no-device]") {
  const FakeCuda fake;
  const auto gpu = fake.open();
  const std::uint64_t first = fake.calls();
  const Buffer memory(gpu, 100);
  const auto calls = fake.calls_since(first);
  const auto taken = std::find(calls.begin(), calls.end(), "cuMemAllocFromPoolAsync");
  REQUIRE(taken != calls.end());
  CHECK(std::find(taken, calls.end(), "cuStreamSynchronize") != calls.end());
}

// --- host memory ------------------------------------------------------------------------------------------------------

TEST_CASE("cuda: an asynchronous copy has read its source when it returns", "[cuda][no-device]") {
  const FakeCuda fake;
  Bytes source = counting(kib);
  const char* const kind = GENERATE("ordinary", "registered", "registered from within", "host page tables");
  const std::string_view name = kind;
  if (name == "registered") fake->register_host(source.data(), source.size());
  if (name == "registered from within") fake->register_host(source.data() + 512, 512);
  if (name == "host page tables")
    fake->set_attribute(0, cuda::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, 1);
  INFO(kind);
  const auto gpu = fake.open();
  const Buffer memory(gpu, kib);
  const OwnedStream stream(gpu);
  const std::uint64_t waits = fake.calls("cuStreamSynchronize");
  gpu->copy_h2d_async(memory.get(), source.data(), kib, stream.get());
  CHECK((fake.calls("cuStreamSynchronize") > waits) == (name != "ordinary"));
  std::fill(source.begin(), source.end(), std::uint8_t{0xee});
  gpu->synchronize(stream.get());
  CHECK(read(*gpu, memory.get(), kib) == counting(kib));
}

TEST_CASE("cuda: page-locked memory is copied without waiting", "[cuda][no-device]") {
  const FakeCuda fake;
  auto gpu = fake.open();
  {
    const Buffer memory(gpu, kib);
    PinnedBuffer pinned(gpu, kib);
    const OwnedStream stream(gpu);
    std::memset(pinned.get(), 7, kib);
    const std::uint64_t waits = fake.calls("cuStreamSynchronize");
    const std::uint64_t asks = fake.calls("cuPointerGetAttribute");
    gpu->copy_h2d_async(memory.get(), pinned.get(), kib, stream.get());
    CHECK(fake.calls("cuStreamSynchronize") == waits);
    CHECK(fake.calls("cuPointerGetAttribute") == asks);
    gpu->copy_d2h_async(pinned.get(), memory.get(), kib, stream.get());
    pinned = PinnedBuffer();  // waits: the driver writes there
    CHECK(read(*gpu, memory.get(), kib) == Bytes(kib, 7));
  }
  gpu.reset();
  KDART_CHECK_CLEAN(fake);
}

TEST_CASE("cuda: host memory that cannot be page-locked is the host's lack", "[cuda][no-device]") {
  const FakeCuda fake;
  const auto gpu = fake.open();
  fake->fail("cuMemHostAlloc", 1, cuda::CUDA_ERROR_OUT_OF_MEMORY, false);
  expect_error(ErrorCode::out_of_host_memory, {"alloc_pinned", "4096"},
               [&] { static_cast<void>(gpu->alloc_pinned(4096)); });
  const PinnedBuffer pinned(gpu, 4096);
  CHECK(pinned.get() != nullptr);
}

TEST_CASE("cuda: imported memory is usable, waited for and not freed", "[cuda][no-device]") {
  const FakeCuda fake;
  auto gpu = fake.open();
  const auto set = gpu->load(fake_cuda_set());
  fake->push(gpu->service<CudaInterop>()->native_context());
  cuda::CUdeviceptr mine = 0;
  REQUIRE(fake.cu().mem_alloc(&mine, kib) == 0);
  const DevicePtr imported = gpu->import_memory(mine, kib);
  CHECK(imported.address() == mine);
  const Bytes bytes = counting(kib);
  gpu->copy_h2d(imported, bytes.data(), kib);
  CHECK(read(*gpu, imported, kib) == bytes);
  {
    const OwnedStream stream(gpu);
    launch_scale(*gpu, *set, imported, imported.offset(512), stream.get());
    gpu->release_import(imported);
    CHECK(fake.launches().back().runs == 1);
  }
  CHECK(!gpu->contains(imported, 1));
  REQUIRE(fake.cu().mem_free(mine) == 0);
  fake->pop();
  CHECK(fake.violations().empty());
}

TEST_CASE("cuda: memory stays flat however often it is taken and given back", "[cuda][no-device]") {
  const FakeCuda fake;
  fake->set_total_memory(0, 1024 * kib);
  const auto gpu = fake.open();
  const OwnedStream stream(gpu);
  for (int i = 0; i < 500; ++i) {
    const Buffer memory(gpu, 400 * kib);
    const DevicePtr more = gpu->alloc_async(400 * kib, stream.get());
    gpu->free_async(more, stream.get());
    gpu->synchronize(stream.get());
  }
  fake->run_all();
  CHECK(gpu->memory_info().free == 1024 * kib);
}

}  // namespace kdart::test
