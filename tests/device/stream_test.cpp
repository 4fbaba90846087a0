// Streams, events and memory operations in them.
#include <algorithm>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include "tests/support/error_of.h"
#include "tests/support/test_device.h"

namespace kdart::test {
namespace {

using std::chrono::milliseconds;

}  // namespace

TEST_CASE("a stream is asynchronous, and waits for it are bounded", "[device][stream][tsan]") {
  const TestDevice device;
  const OwnedStream stream(device.gpu);
  const OwnedEvent event(device.gpu);
  CHECK(device.gpu->query(event.get()));  // never recorded
  device.spin(stream.get(), 200);
  device.gpu->record(event.get(), stream.get());
  CHECK_FALSE(device.gpu->query(event.get()));
  CHECK(error_of([&] { device.gpu->synchronize(stream.get(), milliseconds(0)); }).code() == ErrorCode::timeout);
  CHECK(error_of([&] { device.gpu->synchronize(stream.get(), milliseconds(5)); }).code() == ErrorCode::timeout);
  CHECK(error_of([&] { device.gpu->wait_host(event.get(), milliseconds(5)); }).code() == ErrorCode::timeout);
  device.gpu->wait_host(event.get());
  CHECK(device.gpu->query(event.get()));
  device.gpu->synchronize(stream.get(), std::chrono::nanoseconds::max());
  device.gpu->synchronize(stream.get(), milliseconds(0));  // what has ended is no timeout
}

TEST_CASE("a wait orders two streams", "[device][stream][tsan]") {
  const TestDevice device;
  const OwnedStream first(device.gpu);
  const OwnedStream second(device.gpu);
  const OwnedEvent event(device.gpu);
  const Buffer data = device.upload(std::vector<std::uint32_t>(16, 1));
  std::uint32_t expected = 1;
  for (std::uint32_t i = 0; i < 20; ++i) {
    if (i % 5 == 0) device.spin(first.get(), 3);
    device.affine(data, 3, i, first.get());
    device.gpu->record(event.get(), first.get());
    device.gpu->wait(second.get(), event.get());
    device.affine(data, 5, i, second.get());
    device.gpu->record(event.get(), second.get());
    device.gpu->wait(first.get(), event.get());
    expected = (expected * 3 + i) * 5 + i;
  }
  device.gpu->synchronize(first.get());
  CHECK(device.download(data) == std::vector<std::uint32_t>(16, expected));
  device.gpu->synchronize(second.get());
}

TEST_CASE("a wait means the latest record at the time of the call", "[device][stream]") {
  const TestDevice device;
  const OwnedStream slow(device.gpu);
  const OwnedStream quick(device.gpu);
  const OwnedEvent event(device.gpu);
  const Buffer data = device.upload(std::vector<std::uint32_t>(16, 1));
  device.gpu->wait(quick.get(), event.get());  // never recorded: nothing
  device.affine(data, 2, 1, slow.get());
  device.gpu->record(event.get(), slow.get());
  device.gpu->wait(quick.get(), event.get());
  device.affine(data, 10, 0, quick.get());
  device.gpu->synchronize(quick.get());
  CHECK(device.download(data) == std::vector<std::uint32_t>(16, 30));
  CHECK(device.gpu->query(event.get()));
  device.spin(slow.get(), 200);
  device.gpu->record(event.get(), slow.get());
  // What waited before does not see this record.
  device.gpu->synchronize(quick.get(), milliseconds(0));
  CHECK_FALSE(device.gpu->query(event.get()));
  device.gpu->synchronize(slow.get());
  CHECK(device.gpu->query(event.get()));
}

TEST_CASE("an event recorded again in another stream stands for that record alone", "[device][stream]") {
  const TestDevice device;
  const OwnedStream slow(device.gpu);
  const OwnedStream quick(device.gpu);
  const OwnedEvent event(device.gpu);
  device.gpu->record(event.get(), quick.get());
  device.gpu->wait_host(event.get());
  device.spin(slow.get(), 200);
  device.gpu->record(event.get(), slow.get());
  CHECK_FALSE(device.gpu->query(event.get()));
  // Queues may run one after the other, so this record may wait for the slow stream too; it does not have to.
  device.gpu->record(event.get(), quick.get());
  device.gpu->wait_host(event.get());
  CHECK(device.gpu->query(event.get()));
  device.gpu->synchronize(slow.get());
}

TEST_CASE("elapsed time is that between two records", "[device][stream]") {
  const TestDevice device;
  const OwnedStream stream(device.gpu);
  const OwnedEvent start(device.gpu);
  const OwnedEvent middle(device.gpu);
  const OwnedEvent end(device.gpu);
  device.spin(stream.get(), 1);  // what the first call of a kernel costs comes before
  device.gpu->record(start.get(), stream.get());
  device.spin(stream.get(), 10);
  device.gpu->record(middle.get(), stream.get());
  device.spin(stream.get(), 100);
  device.gpu->record(end.get(), stream.get());
  CHECK(error_of([&] { static_cast<void>(device.gpu->elapsed_ms(start.get(), end.get())); }).code() ==
        ErrorCode::invalid_argument);
  device.gpu->synchronize(stream.get());
  const auto elapsed = [&](const OwnedEvent& from, const OwnedEvent& to) {
    return device.gpu->elapsed_ms(from.get(), to.get());
  };
  const auto& quirks = device.gpu->info().quirks;
  if (std::find(quirks.begin(), quirks.end(), "no_timestamps") != quirks.end()) {
    CHECK(error_of([&] { static_cast<void>(elapsed(start, end)); }).code() == ErrorCode::unsupported);
    return;
  }
  // Clocks change between measurements, and other work may come in between.
  CHECK(elapsed(start, middle) >= 2.0);
  CHECK(elapsed(middle, end) >= 20.0);
  CHECK(elapsed(start, end) < 5000.0);
  CHECK(std::abs(elapsed(start, middle) + elapsed(middle, end) - elapsed(start, end)) < 0.01);
  CHECK(elapsed(end, start) == -elapsed(start, end));
  CHECK(elapsed(start, start) == 0.0);
}

TEST_CASE("an unpinned source may be changed when the call returns", "[device][stream][tsan]") {
  const TestDevice device;
  const OwnedStream stream(device.gpu);
  // Staged, and beyond what is staged.
  for (const std::size_t count : {std::size_t{1000}, std::size_t{2} << 20}) {
    std::vector<std::uint32_t> source(count, 7);
    const Buffer buffer(device.gpu, count * 4);
    device.spin(stream.get(), 20);
    device.gpu->copy_h2d_async(buffer.get(), source.data(), count * 4, stream.get());
    std::fill(source.begin(), source.end(), 8U);
    device.gpu->synchronize(stream.get());
    CHECK(device.download(buffer) == std::vector<std::uint32_t>(count, 7));
  }
}

TEST_CASE("copies and fills run in stream order", "[device][stream][tsan]") {
  const TestDevice device;
  const OwnedStream stream(device.gpu);
  const Buffer a(device.gpu, 64);
  const Buffer b(device.gpu, 64);
  PinnedBuffer pinned(device.gpu, 64);
  auto* host = static_cast<std::uint32_t*>(pinned.get());
  std::fill_n(host, 16, 2U);
  device.spin(stream.get(), 10);
  device.gpu->copy_h2d_async(a.get(), host, 64, stream.get());
  device.affine(a, 10, 1, stream.get());
  device.gpu->copy_d2d_async(b.get(), a.get(), 64, stream.get());
  device.gpu->fill(a.get(), 0xabcd, 2, 32, stream.get());
  std::vector<std::uint32_t> out(16);
  device.gpu->copy_d2h_async(out.data(), b.get(), 64, stream.get());
  device.gpu->synchronize(stream.get());
  CHECK(out == std::vector<std::uint32_t>(16, 21));
  CHECK(device.download(a) == std::vector<std::uint32_t>(16, 0xabcdabcdU));
}

TEST_CASE("free_async keeps memory until its stream gets there", "[device][stream]") {
  const TestDevice device;
  const OwnedStream stream(device.gpu);
  const Buffer out = device.upload(std::vector<std::uint32_t>(16, 0));
  const DevicePtr memory = device.gpu->alloc_async(64, stream.get());
  device.spin(stream.get(), 30);
  device.gpu->fill(memory, 5, 4, 16, stream.get());
  device.gpu->copy_d2d_async(out.get(), memory, 64, stream.get());
  device.gpu->free_async(memory, stream.get());
  device.gpu->synchronize(stream.get());
  CHECK(device.download(out) == std::vector<std::uint32_t>(16, 5));
}

TEST_CASE("free waits for the work that may use the memory", "[device][stream][tsan]") {
  const TestDevice device;
  const OwnedStream stream(device.gpu);
  for (int i = 0; i < 20; ++i) {
    const DevicePtr memory = device.gpu->alloc(64);
    device.gpu->fill(memory, 1, 4, 16, stream.get());
    if (i == 0) device.spin(stream.get(), 30);
    device.affine(memory, 16, 2, 1, stream.get());
    device.gpu->free(memory);
  }
  device.gpu->synchronize(stream.get());
}

TEST_CASE("streams and devices end while work is queued", "[device][stream][tsan]") {
  std::vector<std::uint32_t> out(16, 0);
  {
    const TestDevice device;
    const Buffer data = device.upload(std::vector<std::uint32_t>(16, 1));
    OwnedStream stream(device.gpu);
    device.spin(stream.get(), 20);
    device.affine(data, 2, 1, stream.get());
    device.gpu->copy_d2h_async(out.data(), data.get(), 64, stream.get());
    stream.reset();
    CHECK(out == std::vector<std::uint32_t>(16, 3));
  }
  {
    const auto gpu = std::make_unique<TestDevice>();
    const Stream stream = gpu->gpu->create_stream();
    gpu->spin(stream, 20);
  }
}

TEST_CASE("eight threads with streams of their own", "[device][stream][tsan]") {
  const TestDevice device;
  const std::uint32_t rounds = under_tsan ? 25 : device.shares_host_memory() ? 400 : 10000;
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < 8; ++t) {
    threads.emplace_back([&device, &right, rounds, t] {
      const OwnedStream stream(device.gpu);
      const Buffer data = device.upload(std::vector<std::uint32_t>(16, t));
      const Buffer turned = device.upload(std::vector<std::uint32_t>(8, 0));
      std::uint32_t expected = t;
      for (std::uint32_t i = 0; i < rounds; ++i) {
        device.affine(data, 3, i + t, stream.get());
        expected = expected * 3 + i + t;
        if (i % 10 != 0) continue;
        const Buffer passing(device.gpu, 256 * (i + 1));
        KernelLaunch(*device.gpu, device["rotate"])
            .args(kernels::RotateArgs{.out = turned.get(), .blocks = 2, .threads = 4, .rounds = t})
            .launch(stream.get());
      }
      device.gpu->synchronize(stream.get());
      bool all = device.download(data) == std::vector<std::uint32_t>(16, expected);
      const auto values = device.download(turned);
      for (std::uint32_t i = 0; i < 8; ++i) all = all && values[i] == (i % 4 + t) % 4;
      right += all ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(right == 8);
}

}  // namespace kdart::test
