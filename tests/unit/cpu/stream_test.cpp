// Streams, events and memory operations in them.
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstring>
#include <thread>

#include "tests/unit/cpu/test_device.h"

namespace kdart::test {
namespace {

using std::chrono::milliseconds;

void nap(const TestDevice& device, Stream stream, std::uint32_t ms) {
  KernelLaunch(*device.gpu, device["nap"]).arg(ms).launch(stream);
}

void affine(const TestDevice& device, DevicePtr data, std::uint32_t factor, std::uint32_t term, Stream stream) {
  KernelLaunch(*device.gpu, device["affine"]).grid(4).block(4).arg(data).arg(16U).arg(factor).arg(term).launch(stream);
}

}  // namespace

TEST_CASE("a stream is asynchronous, and waits for it are bounded", "[cpu][stream][tsan]") {
  const TestDevice device;
  const OwnedStream stream(device.gpu);
  const OwnedEvent event(device.gpu);
  CHECK(device.gpu->query(event.get()));  // never recorded
  nap(device, stream.get(), 200);
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

TEST_CASE("a wait orders two streams", "[cpu][stream][tsan]") {
  const TestDevice device;
  const OwnedStream first(device.gpu);
  const OwnedStream second(device.gpu);
  const OwnedEvent event(device.gpu);
  const Buffer data = device.upload(std::vector<std::uint32_t>(16, 1));
  std::uint32_t expected = 1;
  for (std::uint32_t i = 0; i < 20; ++i) {
    if (i % 5 == 0) nap(device, first.get(), 3);
    affine(device, data.get(), 3, i, first.get());
    device.gpu->record(event.get(), first.get());
    device.gpu->wait(second.get(), event.get());
    affine(device, data.get(), 5, i, second.get());
    device.gpu->record(event.get(), second.get());
    device.gpu->wait(first.get(), event.get());
    expected = (expected * 3 + i) * 5 + i;
  }
  device.gpu->synchronize(first.get());
  CHECK(device.download(data) == std::vector<std::uint32_t>(16, expected));
  device.gpu->synchronize(second.get());
}

TEST_CASE("a wait means the latest record at the time of the call", "[cpu][stream]") {
  const TestDevice device;
  const OwnedStream slow(device.gpu);
  const OwnedStream quick(device.gpu);
  const OwnedEvent event(device.gpu);
  device.gpu->wait(quick.get(), event.get());  // never recorded: nothing
  device.gpu->record(event.get(), slow.get());
  device.gpu->wait(quick.get(), event.get());
  nap(device, slow.get(), 300);
  device.gpu->record(event.get(), slow.get());
  // The wait above does not see this record.
  device.gpu->synchronize(quick.get(), milliseconds(200));
  CHECK_FALSE(device.gpu->query(event.get()));
  device.gpu->synchronize(slow.get());
  CHECK(device.gpu->query(event.get()));
}

TEST_CASE("an event recorded again in another stream stands for that record alone", "[cpu][stream]") {
  const TestDevice device;
  const OwnedStream slow(device.gpu);
  const OwnedStream quick(device.gpu);
  const OwnedEvent event(device.gpu);
  nap(device, slow.get(), 200);
  device.gpu->record(event.get(), slow.get());
  device.gpu->record(event.get(), quick.get());
  device.gpu->wait_host(event.get(), milliseconds(100));
  device.gpu->synchronize(slow.get());
  CHECK(device.gpu->query(event.get()));
}

TEST_CASE("elapsed time is that between two records", "[cpu][stream]") {
  const TestDevice device;
  const OwnedStream stream(device.gpu);
  const OwnedEvent start(device.gpu);
  const OwnedEvent end(device.gpu);
  device.gpu->record(start.get(), stream.get());
  nap(device, stream.get(), 20);
  device.gpu->record(end.get(), stream.get());
  CHECK(error_of([&] { static_cast<void>(device.gpu->elapsed_ms(start.get(), end.get())); }).code() ==
        ErrorCode::invalid_argument);
  device.gpu->synchronize(stream.get());
  const double ms = device.gpu->elapsed_ms(start.get(), end.get());
  CHECK(ms >= 20.0);
  CHECK(ms < 5000.0);
  CHECK(device.gpu->elapsed_ms(end.get(), start.get()) == -ms);
}

TEST_CASE("an unpinned source may be changed when the call returns", "[cpu][stream][tsan]") {
  const TestDevice device;
  const OwnedStream stream(device.gpu);
  // Staged, and beyond what is staged.
  for (const std::size_t count : {std::size_t{1000}, std::size_t{2} << 20}) {
    std::vector<std::uint32_t> source(count, 7);
    const Buffer buffer(device.gpu, count * 4);
    nap(device, stream.get(), 20);
    device.gpu->copy_h2d_async(buffer.get(), source.data(), count * 4, stream.get());
    std::fill(source.begin(), source.end(), 8U);
    device.gpu->synchronize(stream.get());
    CHECK(device.download(buffer) == std::vector<std::uint32_t>(count, 7));
  }
}

TEST_CASE("copies and fills run in stream order", "[cpu][stream][tsan]") {
  const TestDevice device;
  const OwnedStream stream(device.gpu);
  const Buffer a(device.gpu, 64);
  const Buffer b(device.gpu, 64);
  PinnedBuffer pinned(device.gpu, 64);
  auto* host = static_cast<std::uint32_t*>(pinned.get());
  std::fill_n(host, 16, 2U);
  nap(device, stream.get(), 10);
  device.gpu->copy_h2d_async(a.get(), host, 64, stream.get());
  affine(device, a.get(), 10, 1, stream.get());
  device.gpu->copy_d2d_async(b.get(), a.get(), 64, stream.get());
  device.gpu->fill(a.get(), 0xabcd, 2, 32, stream.get());
  std::vector<std::uint32_t> out(16);
  device.gpu->copy_d2h_async(out.data(), b.get(), 64, stream.get());
  device.gpu->synchronize(stream.get());
  CHECK(out == std::vector<std::uint32_t>(16, 21));
  CHECK(device.download(a) == std::vector<std::uint32_t>(16, 0xabcdabcdU));
}

TEST_CASE("fills of each width touch what they are told to", "[cpu][stream]") {
  const TestDevice device;
  const OwnedStream stream(device.gpu);
  const Buffer buffer(device.gpu, 256);
  for (const std::uint32_t width : {1U, 2U, 4U}) {
    for (const std::uint32_t first : {0U, 1U, 7U}) {
      device.gpu->fill(buffer.get(), 0x5a, 1, 256, stream.get());
      device.gpu->fill(buffer.get().offset(first * width), 0xa1b2c3d4U, width, 13, stream.get());
      device.gpu->synchronize(stream.get());
      std::vector<std::uint8_t> expected(256, 0x5a);
      const std::uint32_t value = 0xa1b2c3d4U;
      for (std::uint32_t i = 0; i < 13; ++i) std::memcpy(expected.data() + (first + i) * width, &value, width);
      std::vector<std::uint8_t> found(256);
      device.gpu->copy_d2h(found.data(), buffer.get(), 256);
      CHECK(found == expected);
    }
  }
}

TEST_CASE("a 2-D copy moves rows and leaves the gaps", "[cpu][stream]") {
  const TestDevice device;
  const OwnedStream stream(device.gpu);
  std::vector<std::uint32_t> rows(40);
  for (std::uint32_t i = 0; i < rows.size(); ++i) rows[i] = i;
  const Buffer source = device.upload(rows);
  const Buffer target = device.upload(std::vector<std::uint32_t>(30, 99));
  device.gpu->copy_2d_d2d_async(target.get().offset(4), 24, source.get().offset(8), 40, 12, 4, stream.get());
  device.gpu->synchronize(stream.get());
  std::vector<std::uint32_t> expected(30, 99);
  for (std::uint32_t y = 0; y < 4; ++y) {
    for (std::uint32_t x = 0; x < 3; ++x) expected[1 + y * 6 + x] = 2 + y * 10 + x;
  }
  CHECK(device.download(target) == expected);
}

TEST_CASE("free_async keeps memory until its stream gets there", "[cpu][stream]") {
  const TestDevice device;
  const OwnedStream stream(device.gpu);
  const Buffer out = device.upload(std::vector<std::uint32_t>(16, 0));
  const DevicePtr memory = device.gpu->alloc_async(64, stream.get());
  nap(device, stream.get(), 30);
  device.gpu->fill(memory, 5, 4, 16, stream.get());
  device.gpu->copy_d2d_async(out.get(), memory, 64, stream.get());
  device.gpu->free_async(memory, stream.get());
  device.gpu->synchronize(stream.get());
  CHECK(device.download(out) == std::vector<std::uint32_t>(16, 5));
}

TEST_CASE("free waits for the work that may use the memory", "[cpu][stream][tsan]") {
  const TestDevice device;
  const OwnedStream stream(device.gpu);
  for (int i = 0; i < 20; ++i) {
    const DevicePtr memory = device.gpu->alloc(64);
    device.gpu->fill(memory, 1, 4, 16, stream.get());
    if (i == 0) nap(device, stream.get(), 30);
    affine(device, memory, 2, 1, stream.get());
    device.gpu->free(memory);
  }
  device.gpu->synchronize(stream.get());
}

TEST_CASE("streams and devices end while work is queued", "[cpu][stream][tsan]") {
  std::vector<std::uint32_t> out(16, 0);
  {
    const TestDevice device;
    const Buffer data = device.upload(std::vector<std::uint32_t>(16, 1));
    OwnedStream stream(device.gpu);
    nap(device, stream.get(), 20);
    affine(device, data.get(), 2, 1, stream.get());
    device.gpu->copy_d2h_async(out.data(), data.get(), 64, stream.get());
    stream.reset();
    CHECK(out == std::vector<std::uint32_t>(16, 3));
  }
  {
    const auto gpu = std::make_unique<TestDevice>();
    const Stream stream = gpu->gpu->create_stream();
    nap(*gpu, stream, 20);
  }
}

TEST_CASE("eight threads with streams of their own", "[cpu][stream][tsan]") {
  const TestDevice device(CpuEngine::threads, 3);
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < 8; ++t) {
    threads.emplace_back([&device, &right, t] {
      const OwnedStream stream(device.gpu);
      const Buffer data = device.upload(std::vector<std::uint32_t>(16, t));
      const Buffer turned = device.upload(std::vector<std::uint32_t>(8, 0));
      std::uint32_t expected = t;
      for (std::uint32_t i = 0; i < 25; ++i) {
        affine(device, data.get(), 3, i + t, stream.get());
        expected = expected * 3 + i + t;
        const Buffer passing(device.gpu, 256 * (i + 1));
        if (i % 10 != 0) continue;
        KernelLaunch(*device.gpu, device["rotate"])
            .grid(2)
            .block(4)
            .shared_mem(16)
            .arg(turned.get())
            .arg(t)
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
