// One backend from many threads: each on its own stream, sharing memory accounting, kernels and handles.
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <thread>
#include <vector>

#include "kdart/backend.h"
#include "kdart/owned.h"
#include "tests/support/fake_backend.h"
#include "tests/support/sample_set.h"

namespace kdart::test {
namespace {

constexpr int thread_count = 6;

void in_threads(const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < thread_count; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

TEST_CASE("threads use one backend on streams of their own", "[runtime][threads][tsan]") {
  const auto gpu = FakeBackend::open();
  const auto set = gpu->load(sample_set());
  std::atomic<int> errors{0};
  in_threads([&](int index) {
    try {
      for (int i = 0; i < 50; ++i) {
        const OwnedStream stream(gpu);
        const OwnedEvent event(gpu);
        const Buffer memory(gpu, 256);
        gpu->fill(memory.get(), static_cast<std::uint32_t>(index), 4, 64, stream.get());
        KernelLaunch(*gpu, set->get("scale"))
            .args(ScaleArgs{.x = memory.get(), .y = memory.get().offset(128), .bias = {}, .n = 1, .a = 1.0F})
            .launch(stream.get());
        gpu->record(event.get(), stream.get());
        gpu->wait(stream.get(), event.get());
        gpu->synchronize(stream.get());
        std::uint32_t value = 0;
        gpu->copy_d2h(&value, memory.get().offset(252), 4);
        if (value != static_cast<std::uint32_t>(index)) ++errors;
      }
    } catch (const Error&) {
      ++errors;
    }
  });
  CHECK(errors == 0);
  CHECK(gpu->launches().size() == thread_count * 50);
  CHECK(gpu->memory_info().live == 0);
}

TEST_CASE("threads do not pass the memory limit together", "[runtime][threads][tsan]") {
  const auto gpu = FakeBackend::open({.memory_limit = 1000});
  std::atomic<int> given{0};
  std::atomic<int> refused{0};
  in_threads([&](int) {
    for (int i = 0; i < 20; ++i) {
      try {
        static_cast<void>(gpu->alloc(100));
        ++given;
      } catch (const Error& error) {
        if (error.code() == ErrorCode::out_of_device_memory) ++refused;
      }
    }
  });
  CHECK(given == 10);
  CHECK(refused == thread_count * 20 - 10);
  CHECK(gpu->memory_info().live == 1000);
}

TEST_CASE("of threads that free one allocation exactly one does", "[runtime][threads][tsan]") {
  const auto gpu = FakeBackend::open();
  for (int round = 0; round < 20; ++round) {
    const DevicePtr memory = gpu->alloc(64);
    std::atomic<int> freed{0};
    std::atomic<int> refused{0};
    in_threads([&](int) {
      try {
        gpu->free(memory);
        ++freed;
      } catch (const Error& error) {
        if (error.code() == ErrorCode::invalid_handle) ++refused;
      }
    });
    REQUIRE(freed == 1);
    REQUIRE(refused == thread_count - 1);
  }
}

TEST_CASE("every thread gets the sticky error that one of them met", "[runtime][threads][tsan]") {
  const auto gpu = FakeBackend::open();
  std::atomic<int> lost{0};
  in_threads([&](int index) {
    try {
      if (index == 0) gpu->report(Error(ErrorCode::device_lost, "gone"));
      for (;;) gpu->free(gpu->alloc(16));
    } catch (const Error& error) {
      if (error.code() == ErrorCode::device_lost) ++lost;
    }
  });
  CHECK(lost == thread_count);
}

TEST_CASE("captures on streams of their own do not meet", "[runtime][threads][tsan]") {
  const auto gpu = FakeBackend::open();
  const Buffer memory(gpu, 4096);
  std::atomic<int> errors{0};
  in_threads([&](int index) {
    try {
      const OwnedStream stream(gpu);
      for (int i = 0; i < 20; ++i) {
        gpu->begin_capture(stream.get());
        gpu->fill(memory.get().offset(static_cast<std::uint64_t>(index) * 64), 1, 4, 16, stream.get());
        const OwnedGraph graph(gpu, gpu->end_capture(stream.get()));
        gpu->launch_graph(graph.get(), stream.get());
      }
    } catch (const Error&) {
      ++errors;
    }
  });
  CHECK(errors == 0);
}

}  // namespace
}  // namespace kdart::test
