// Launches: every block and thread once, barriers, order, errors.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <chrono>
#include <thread>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "tests/support/launch_shapes.h"
#include "tests/unit/cpu/test_device.h"

namespace kdart::test {
namespace {

std::uint32_t count_wrong_visits(const CpuTestDevice& device, const char* kernel, const Shape& shape,
                                 std::uint32_t times) {
  const OwnedStream stream(device.gpu);
  const Buffer counts = device.upload(std::vector<std::uint32_t>(threads_of(shape), 0));
  for (std::uint32_t i = 0; i < times; ++i) {
    KernelLaunch(*device.gpu, device[kernel])
        .grid(shape.grid.x, shape.grid.y, shape.grid.z)
        .block(shape.block.x, shape.block.y, shape.block.z)
        .arg(counts.get())
        .launch(stream.get());
  }
  device.gpu->synchronize(stream.get());
  const auto values = device.download(counts);
  return static_cast<std::uint32_t>(std::count_if(values.begin(), values.end(), [&](auto v) { return v != times; }));
}

void check_ids(const CpuTestDevice& device, const char* kernel, const Shape& shape) {
  const OwnedStream stream(device.gpu);
  const Buffer ids = device.upload(std::vector<std::uint32_t>(std::size_t{12} * threads_of(shape), 0xffffffffU));
  KernelLaunch(*device.gpu, device[kernel])
      .grid(shape.grid.x, shape.grid.y, shape.grid.z)
      .block(shape.block.x, shape.block.y, shape.block.z)
      .arg(ids.get())
      .launch(stream.get());
  device.gpu->synchronize(stream.get());
  CHECK(device.download(ids) == ids_of(shape));
}

// Threads whose rotation of `rounds` steps went wrong.
std::uint32_t wrong_rotations(const CpuTestDevice& device, std::uint32_t blocks, std::uint32_t threads,
                              std::uint32_t rounds) {
  const OwnedStream stream(device.gpu);
  const Buffer out = device.upload(std::vector<std::uint32_t>(blocks * threads, 0));
  KernelLaunch(*device.gpu, device["rotate"])
      .grid(blocks)
      .block(threads)
      .shared_mem(threads * 4)
      .arg(out.get())
      .arg(rounds)
      .launch(stream.get());
  device.gpu->synchronize(stream.get());
  return count_wrong_rotations(device.download(out), threads, rounds);
}

}  // namespace

TEST_CASE("every block and thread runs exactly once", "[cpu][launch]") {
  const CpuTestDevice device(CpuEngine::fibers, GENERATE(1U, 2U, 5U));
  const Shape shapes[]{{{1, 1, 1}, {1, 1, 1}},    {{1, 1, 1}, {1024, 1, 1}}, {{7, 5, 3}, {4, 3, 2}},
                       {{1000, 1, 1}, {1, 1, 1}}, {{1, 63, 65}, {3, 1, 7}},  {{257, 2, 1}, {16, 8, 8}}};
  for (const Shape& shape : shapes) {
    CHECK(count_wrong_visits(device, "visit", shape, 1) == 0);
    CHECK(count_wrong_visits(device, "visit_with_barrier", shape, 1) == 0);
  }
  CHECK(count_wrong_visits(device, "visit", {{65537, 2, 1}, {2, 1, 1}}, 3) == 0);
}

TEST_CASE("every block and thread runs exactly once on the thread engine", "[cpu][launch][tsan]") {
  const CpuTestDevice device(CpuEngine::threads);
  CHECK(count_wrong_visits(device, "visit", {{7, 5, 3}, {4, 3, 2}}, 2) == 0);
  CHECK(count_wrong_visits(device, "visit_with_barrier", {{3, 2, 2}, {4, 3, 2}}, 2) == 0);
  CHECK(count_wrong_visits(device, "visit_with_barrier", {{2, 1, 1}, {1, 1, 1}}, 1) == 0);
}

TEST_CASE("threads are told their indices and dimensions", "[cpu][launch][tsan]") {
  const CpuTestDevice device(GENERATE(CpuEngine::fibers, CpuEngine::threads));
  check_ids(device, "ids", {{3, 4, 2}, {5, 2, 3}});
  check_ids(device, "ids_on_the_engine", {{3, 4, 2}, {5, 2, 3}});
}

TEST_CASE("barriers hold on fibers", "[cpu][launch]") {
  const CpuTestDevice device;
  for (const std::uint32_t threads : {1U, 2U, 31U, 128U, 1024U}) CHECK(wrong_rotations(device, 9, threads, 37) == 0);
}

TEST_CASE("barriers hold on threads", "[cpu][launch][tsan]") {
  const CpuTestDevice device(CpuEngine::threads);
  for (const std::uint32_t threads : {1U, 2U, 16U, 3U}) CHECK(wrong_rotations(device, 3, threads, 5) == 0);
}

TEST_CASE("a thread that returns early is not waited for", "[cpu][launch][tsan]") {
  const CpuTestDevice device(GENERATE(CpuEngine::fibers, CpuEngine::threads));
  const std::uint32_t stay = GENERATE(1U, 5U, 16U);
  const OwnedStream stream(device.gpu);
  const Buffer out = device.upload(std::vector<std::uint32_t>(3 * stay, 0));
  KernelLaunch(*device.gpu, device["leave"])
      .grid(3)
      .block(16)
      .shared_mem(64)
      .arg(out.get())
      .arg(stay)
      .launch(stream.get());
  device.gpu->synchronize(stream.get());
  CHECK(device.download(out) == std::vector<std::uint32_t>(3 * stay, stay * (stay + 1) / 2));
}

TEST_CASE("more launches than a queue takes at once keep their order", "[cpu][launch]") {
  const CpuTestDevice device;
  const OwnedStream stream(device.gpu);
  constexpr std::uint32_t count = 40;
  const Buffer data = device.upload(std::vector<std::uint32_t>(count, 1));
  std::uint32_t expected = 1;
  for (std::uint32_t i = 0; i < 50000; ++i) {
    KernelLaunch(*device.gpu, device["affine"])
        .grid(5)
        .block(8)
        .arg(data.get())
        .arg(count)
        .arg(3U)
        .arg(i)
        .launch(stream.get());
    expected = expected * 3 + i;
  }
  device.gpu->synchronize(stream.get());
  CHECK(device.download(data) == std::vector<std::uint32_t>(count, expected));
}

TEST_CASE("a kernel that throws is a sticky fault with its name", "[cpu][launch][tsan]") {
  const CpuEngine engine = GENERATE(CpuEngine::fibers, CpuEngine::threads);
  const char* kernel = GENERATE("fail", "fail_on_the_engine");
  const CpuTestDevice device(engine);
  const OwnedStream stream(device.gpu);
  KernelLaunch(*device.gpu, device[kernel]).grid(6).block(2).arg(4U).launch(stream.get());
  const Error error = error_of([&] { device.gpu->synchronize(stream.get()); });
  CHECK(error.code() == ErrorCode::device_fault);
  const std::string message = error.what();
  CHECK(message.find(kernel) != std::string::npos);
  CHECK(message.find("(4, 0, 0)") != std::string::npos);
  CHECK(message.find("as asked") != std::string::npos);
  CHECK(error_of([&] { static_cast<void>(device.gpu->create_stream()); }).code() == ErrorCode::device_fault);

  const CpuTestDevice another(engine);  // a fresh one is not affected
  CHECK(another.canary());
}

#if defined(__SSE__)
TEST_CASE("kernels keep denormals whatever the application's threads do", "[cpu][launch]") {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040U);  // flush to zero, denormals are zero
  std::uint32_t bits = 0;
  {
    const CpuTestDevice device;
    const OwnedStream stream(device.gpu);
    const Buffer out = device.upload(std::vector<std::uint32_t>(1, 0));
    KernelLaunch(*device.gpu, device["halve"]).arg(out.get()).arg(0x1p-140F).launch(stream.get());
    device.gpu->synchronize(stream.get());
    bits = device.download(out)[0];
  }
  _mm_setcsr(before);
  CHECK(bits == 0x100U);  // 2^-141
}
#endif

}  // namespace kdart::test
