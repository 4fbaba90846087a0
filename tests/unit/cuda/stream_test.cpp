// Streams and events, and waiting for them; streams of the caller's.
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <chrono>
#include <thread>

#include "kdart/cuda.h"
#include "kdart/owned.h"
#include "tests/support/expect_error.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/sample_set.h"

namespace kdart::test {
namespace {

using namespace std::chrono_literals;

// A device with a kernel under way on a stream.
struct Busy {
  FakeCuda fake;
  std::shared_ptr<GpuBackend> gpu = fake.open();
  std::shared_ptr<LoadedSet> set = gpu->load(fake_cuda_set());
  Buffer memory{gpu, 1024};
  OwnedStream stream{gpu};
  OwnedEvent event{gpu};

  void launch(Stream on) { launch_scale(*gpu, *set, memory.get(), memory.get().offset(512), on); }
  [[nodiscard]] CudaInterop& interop() { return *gpu->service<CudaInterop>(); }
  [[nodiscard]] std::uint64_t runs() const { return fake.launches().back().runs; }
};

// Whether `wait`, on a thread of its own, returned only after the driver was let go.
template <class Wait>
bool returns_when_let_go(const FakeCuda& fake, const Wait& wait) {
  fake->hold();
  std::atomic<bool> returned{false};
  std::thread waiting([&] {
    wait();
    returned = true;
  });
  std::this_thread::sleep_for(20ms);
  const bool too_early = returned;
  fake->go();
  waiting.join();
  return !too_early;
}

}  // namespace

TEST_CASE("cuda: a wait returns when the work is done and not before", "[cuda][no-device]") {
  Busy busy;
  busy.fake->hold();
  busy.launch(busy.stream.get());
  busy.gpu->record(busy.event.get(), busy.stream.get());
  SECTION("for a stream") {
    CHECK(returns_when_let_go(busy.fake, [&] { busy.gpu->synchronize(busy.stream.get()); }));
  }
  SECTION("for a stream and a time") {
    CHECK(returns_when_let_go(busy.fake, [&] { busy.gpu->synchronize(busy.stream.get(), 20s); }));
  }
  SECTION("for an event") {
    CHECK(returns_when_let_go(busy.fake, [&] { busy.gpu->wait_host(busy.event.get()); }));
  }
  SECTION("for an event and a time") {
    CHECK(returns_when_let_go(busy.fake, [&] { busy.gpu->wait_host(busy.event.get(), 20s); }));
  }
  SECTION("for a stream's end") {
    CHECK(returns_when_let_go(busy.fake, [&] { busy.stream.reset(); }));
  }
  SECTION("for memory that it may use") {
    CHECK(returns_when_let_go(busy.fake, [&] { busy.memory = Buffer(); }));
  }
  SECTION("for a kernel that it may run") {
    CHECK(returns_when_let_go(busy.fake, [&] { busy.set.reset(); }));
  }
  CHECK(busy.runs() == 1);
  CHECK(busy.fake.violations().empty());
}

TEST_CASE("cuda: a bounded wait runs out and changes nothing", "[cuda][no-device]") {
  Busy busy;
  busy.fake->hold();
  busy.launch(busy.stream.get());
  busy.gpu->record(busy.event.get(), busy.stream.get());
  for (const auto timeout : {0ns, std::chrono::nanoseconds(3ms)}) {
    const auto start = std::chrono::steady_clock::now();
    expect_error(ErrorCode::timeout, {"stream", " ms"}, [&] { busy.gpu->synchronize(busy.stream.get(), timeout); });
    CHECK(std::chrono::steady_clock::now() - start >= timeout);
    expect_error(ErrorCode::timeout, {"event", " ms"}, [&] { busy.gpu->wait_host(busy.event.get(), timeout); });
  }
  CHECK(!busy.gpu->query(busy.event.get()));
  busy.fake->go();
  busy.gpu->synchronize(busy.stream.get(), 10s);
  CHECK(busy.gpu->query(busy.event.get()));
  CHECK(busy.runs() == 1);
}

TEST_CASE("cuda: a bounded wait asks until the work is done", "[cuda][no-device]") {
  Busy busy;
  busy.launch(busy.stream.get());
  busy.fake->not_ready(7);
  busy.gpu->synchronize(busy.stream.get(), 10s);
  CHECK(busy.fake.calls("cuStreamQuery") == 8);
  busy.launch(busy.stream.get());
  busy.gpu->record(busy.event.get(), busy.stream.get());
  busy.fake->not_ready(7);
  busy.gpu->wait_host(busy.event.get(), 10s);
  CHECK(busy.fake.calls("cuEventQuery") == 8);
}

TEST_CASE("cuda: a stream waits for another's event", "[cuda][no-device]") {
  Busy busy;
  const OwnedStream other(busy.gpu);
  busy.gpu->fill(busy.memory.get(), 5, 1, 64, busy.stream.get());
  busy.gpu->record(busy.event.get(), busy.stream.get());
  busy.gpu->wait(other.get(), busy.event.get());
  busy.gpu->copy_d2d_async(busy.memory.get().offset(512), busy.memory.get(), 64, other.get());
  busy.gpu->synchronize(other.get());
  std::byte byte{};
  busy.gpu->copy_d2h(&byte, busy.memory.get().offset(512), 1);
  CHECK(byte == std::byte{5});
  CHECK(busy.fake.calls("cuStreamWaitEvent") == 1);
}

TEST_CASE("cuda: the time between two events is the driver's", "[cuda][no-device]") {
  Busy busy;
  const OwnedEvent end(busy.gpu);
  busy.gpu->record(busy.event.get(), busy.stream.get());
  for (int i = 0; i < 499; ++i) busy.launch(busy.stream.get());
  busy.gpu->record(end.get(), busy.stream.get());
  expect_error(ErrorCode::invalid_argument, {"not passed"}, [&] {
    busy.fake->hold();
    static_cast<void>(busy.gpu->elapsed_ms(busy.event.get(), end.get()));
  });
  busy.fake->go();
  CHECK(busy.gpu->elapsed_ms(busy.event.get(), end.get()) == 0.5);  // the fake takes 1 us for each operation
}

TEST_CASE("cuda: flushing has nothing to do", "[cuda][no-device]") {
  Busy busy;
  busy.launch(busy.stream.get());
  const std::uint64_t calls = busy.fake.calls();
  busy.gpu->flush(busy.stream.get());
  CHECK(busy.fake.calls() == calls);
}

TEST_CASE("cuda: a device's own streams run apart from the default stream", "[cuda][no-device]") {
  Busy busy;
  const Stream legacy = busy.interop().adopt_stream(nullptr);
  busy.gpu->begin_capture(busy.stream.get());
  busy.launch(busy.stream.get());
  busy.launch(legacy);  // would end the capture of a stream that waits for it
  busy.gpu->synchronize(legacy);
  const OwnedGraph graph(busy.gpu, busy.gpu->end_capture(busy.stream.get()));
  CHECK(graph.get());
  CHECK(busy.runs() == 1);
}

// --- adoption ---------------------------------------------------------------------------------------------------------

TEST_CASE("cuda: the caller's streams take work and are not destroyed", "[cuda][no-device]") {
  Busy busy;
  void* const context = busy.interop().native_context();
  void* const mine = busy.fake->create_stream(context, 0);

  const std::uint64_t destroyed = busy.fake.calls("cuStreamDestroy_v2");
  for (void* native : {static_cast<void*>(nullptr), reinterpret_cast<void*>(1), reinterpret_cast<void*>(2), mine}) {
    const Stream adopted = unmoved(busy.fake, [&] { return busy.interop().adopt_stream(native); });
    CHECK(busy.interop().native_stream(adopted) == native);
    busy.launch(adopted);
    CHECK(busy.fake.launches().back().stream == native);
    busy.gpu->synchronize(adopted);
    CHECK(busy.runs() == 1);
    busy.launch(adopted);
    CHECK(returns_when_let_go(busy.fake, [&] {
      if (native != reinterpret_cast<void*>(2)) return busy.gpu->destroy_stream(adopted);
      std::this_thread::sleep_for(30ms);  // that thread's own is another
    }));
    if (native == reinterpret_cast<void*>(2)) busy.gpu->destroy_stream(adopted);
    CHECK(busy.runs() == 1);
    expect_error(ErrorCode::invalid_handle, {"stream"}, [&] { busy.gpu->synchronize(adopted); });
  }
  CHECK(busy.fake.calls("cuStreamDestroy_v2") == destroyed);

  busy.fake->push(context);
  CHECK(busy.fake.cu().stream_query(static_cast<cuda::CUstream>(mine)) == 0);  // as alive as before
  busy.fake->pop();
  CHECK(busy.fake.violations().empty());
}

TEST_CASE("cuda: an adopted stream that nobody destroyed is left alone at the end", "[cuda][no-device]") {
  Busy busy;
  void* const foreign = busy.fake->create_context(0);
  busy.fake->push(foreign);
  cuda::CUstream mine = nullptr;
  REQUIRE(busy.fake.cu().stream_create(&mine, 1) == 0);
  {
    const auto gpu = adopt_cuda_context(foreign, busy.fake.options());
    static_cast<void>(gpu->service<CudaInterop>()->adopt_stream(mine));
  }
  CHECK(busy.fake.cu().stream_query(mine) == 0);
  REQUIRE(busy.fake.cu().stream_destroy(mine) == 0);
  busy.fake->pop();
  busy.fake->destroy_context(foreign);
  CHECK(busy.fake.violations().empty());
}

TEST_CASE("cuda: a stream of another context is refused", "[cuda][no-device]") {
  Busy busy;
  void* const foreign = busy.fake->create_context(0);
  busy.fake->push(foreign);
  cuda::CUstream theirs = nullptr;
  REQUIRE(busy.fake.cu().stream_create(&theirs, 0) == 0);
  unmoved(busy.fake, [&] {
    expect_error(ErrorCode::invalid_argument, {"adopt_stream", "cuda:0"},
                 [&] { static_cast<void>(busy.interop().adopt_stream(theirs)); });
  });
  REQUIRE(busy.fake.cu().stream_destroy(theirs) == 0);
  expect_error(ErrorCode::invalid_argument, {"adopt_stream"},
               [&] { static_cast<void>(busy.interop().adopt_stream(theirs)); });  // of no context any more
  busy.fake->pop();
  busy.fake->destroy_context(foreign);
  CHECK(busy.fake.violations().empty());
}

TEST_CASE("cuda: a stream whose context the driver does not tell is not adopted", "[cuda][no-device]") {
  Busy busy;
  CudaInterop& interop = busy.interop();
  void* const mine = interop.native_stream(busy.stream.get());
  busy.fake->fail("cuStreamGetCtx", 1, 999, false);
  expect_error(ErrorCode::driver_error, {"adopt_stream", "999"},
               [&] { static_cast<void>(interop.adopt_stream(mine)); });
  busy.fake->fail("cuStreamGetCtx", 1, 700, false);
  expect_error(ErrorCode::device_fault, {"adopt_stream"}, [&] { static_cast<void>(interop.adopt_stream(mine)); });
  const std::uint64_t calls = busy.fake.calls();
  expect_error(ErrorCode::device_fault, {}, [&] { static_cast<void>(interop.adopt_stream(nullptr)); });
  CHECK(busy.fake.calls() == calls);
}

TEST_CASE("cuda: an adopted stream that the caller captures takes launches into that graph", "[cuda][no-device]") {
  FakeCuda fake;
  OpenOptions options = fake.options();
  options.synchronous_launches = GENERATE(false, true);
  const auto gpu = fake.open(options);
  const auto set = gpu->load(fake_cuda_set());
  Buffer memory(gpu, 1024);
  auto& interop = *gpu->service<CudaInterop>();
  fake->push(interop.native_context());
  cuda::CUstream mine = nullptr;
  REQUIRE(fake.cu().stream_create(&mine, 1) == 0);
  const Stream adopted = interop.adopt_stream(mine);

  REQUIRE(fake.cu().stream_begin_capture(mine, cuda::CU_STREAM_CAPTURE_MODE_RELAXED) == 0);
  launch_scale(*gpu, *set, memory.get(), memory.get().offset(512), adopted);
  gpu->fill(memory.get(), 1, 4, 16, adopted);
  {
    const Buffer other(gpu, 64);  // freed while the capture runs: nobody waits for a captured stream
  }
  cuda::CUgraph graph = nullptr;
  CHECK(fake.cu().stream_end_capture(mine, &graph) == 0);
  REQUIRE(graph != nullptr);
  CHECK(fake.launches().back().captured);
  CHECK(fake.launches().back().runs == 0);
  REQUIRE(fake.cu().graph_destroy(graph) == 0);
  gpu->destroy_stream(adopted);
  REQUIRE(fake.cu().stream_destroy(mine) == 0);
  fake->pop();
  CHECK(fake.violations().empty());
}

}  // namespace kdart::test
