// Graphs by capture, and captures that fail.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "kdart/launch.h"
#include "kdart/owned.h"
#include "tests/support/error_of.h"
#include "tests/support/expect_error.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/sample_set.h"

namespace kdart::test {
namespace {

struct Recording {
  FakeCuda fake;
  std::shared_ptr<GpuBackend> gpu = fake.open();
  std::shared_ptr<LoadedSet> set = gpu->load(fake_cuda_set());
  Buffer memory{gpu, 1024};
  OwnedStream stream{gpu};

  void launch(Stream on) { launch_scale(*gpu, *set, memory.get(), memory.get().offset(512), on); }
  // A graph of one launch.
  [[nodiscard]] Graph capture() {
    gpu->begin_capture(stream.get());
    launch(stream.get());
    return gpu->end_capture(stream.get());
  }
  [[nodiscard]] std::size_t live(const std::string& what) const {
    const auto lines = fake.live();
    return static_cast<std::size_t>(std::count(lines.begin(), lines.end(), what));
  }
  // After a capture that failed: the stream takes work, and another capture.
  void check_usable() {
    CHECK(live("a graph") == 0);
    CHECK(live("an executable graph") == 0);
    CHECK(live("a capture") == 0);
    launch(stream.get());
    gpu->synchronize(stream.get());
    CHECK(fake.launches().back().runs == 1);
    const OwnedGraph graph(gpu, capture());
    gpu->launch_graph(graph.get(), stream.get());
    gpu->synchronize(stream.get());
    CHECK(fake.launches().back().runs == 1);
  }
  void check_clean() {
    set.reset();
    memory = Buffer();
    stream.reset();
    gpu.reset();
    KDART_CHECK_CLEAN(fake);
  }
};

}  // namespace

TEST_CASE("cuda: a captured launch runs when its graph does", "[cuda][no-device]") {
  Recording r;
  r.gpu->fill(r.memory.get(), 0, 1, 1024, r.stream.get());
  r.gpu->begin_capture(r.stream.get());
  r.launch(r.stream.get());
  r.gpu->fill(r.memory.get(), 9, 1, 16, r.stream.get());
  r.gpu->copy_d2d_async(r.memory.get().offset(512), r.memory.get(), 16, r.stream.get());
  OwnedGraph graph(r.gpu, r.gpu->end_capture(r.stream.get()));
  CHECK(r.live("a graph") == 0);  // the executable one is enough
  CHECK(r.live("an executable graph") == 1);
  r.gpu->synchronize(r.stream.get());
  CHECK(r.fake.launches().back().captured);
  CHECK(r.fake.launches().back().runs == 0);
  for (int i = 0; i < 5; ++i) r.gpu->launch_graph(graph.get(), r.stream.get());
  r.gpu->synchronize(r.stream.get());
  CHECK(r.fake.launches().back().runs == 5);
  std::byte byte{};
  r.gpu->copy_d2h(&byte, r.memory.get().offset(527), 1);
  CHECK(byte == std::byte{9});
  graph.reset();
  r.check_clean();
}

TEST_CASE("cuda: streams join a capture by events", "[cuda][no-device]") {
  Recording r;
  OwnedStream other(r.gpu);
  OwnedEvent fork(r.gpu);
  OwnedEvent join(r.gpu);
  r.gpu->begin_capture(r.stream.get());
  r.gpu->record(fork.get(), r.stream.get());
  r.gpu->wait(other.get(), fork.get());
  r.launch(other.get());
  r.gpu->record(join.get(), other.get());
  r.gpu->wait(r.stream.get(), join.get());
  {
    const Buffer unrelated(r.gpu, 100);
  }  // nobody waits for the stream that joined either
  OwnedGraph graph(r.gpu, r.gpu->end_capture(r.stream.get()));
  fork.reset();  // a graph does not need its events
  join.reset();
  r.launch(other.get());  // the stream is free again
  r.gpu->synchronize(other.get());
  CHECK(r.fake.launches()[1].runs == 1);
  r.gpu->launch_graph(graph.get(), other.get());
  r.gpu->synchronize(other.get());
  CHECK(r.fake.launches()[0].runs == 1);
  r.launch(other.get());
  r.memory = Buffer();  // waits for it as for any stream, since the capture is over
  CHECK(r.fake.launches()[2].runs == 1);
  r.set.reset();
  CHECK(r.live("a module") == 1);  // in the graph
  r.gpu->launch_graph(graph.get(), other.get());
  graph.reset();
  CHECK(r.live("a module") == 0);
  other.reset();
  r.check_clean();
}

TEST_CASE("cuda: a capture that does not begin leaves the stream as it was", "[cuda][no-device]") {
  Recording r;
  r.fake->fail("cuStreamBeginCapture_v2", 1, 999, false);
  expect_error(ErrorCode::driver_error, {"beginning a capture", "999"}, [&] { r.gpu->begin_capture(r.stream.get()); });
  r.check_usable();
  r.check_clean();
}

TEST_CASE("cuda: a capture that does not end well is over", "[cuda][no-device]") {
  Recording r;
  const int result = GENERATE(901, 2, 999);
  r.gpu->begin_capture(r.stream.get());
  r.launch(r.stream.get());
  r.fake->fail("cuStreamEndCapture", 1, result, false);
  const Error error = error_of([&] { static_cast<void>(r.gpu->end_capture(r.stream.get())); });
  CHECK(error.native_code() == result);
  CHECK(error.code() == (result == 901   ? ErrorCode::capture_invalidated
                         : result == 999 ? ErrorCode::driver_error
                                         : ErrorCode::out_of_device_memory));
  r.check_usable();
  r.check_clean();
}

TEST_CASE("cuda: a graph that cannot be instantiated leaves nothing behind", "[cuda][no-device]") {
  Recording r;
  r.gpu->begin_capture(r.stream.get());
  r.launch(r.stream.get());
  r.fake->fail("cuGraphInstantiateWithFlags", 1, 2, false);
  expect_error(ErrorCode::out_of_device_memory, {"instantiating a graph"},
               [&] { static_cast<void>(r.gpu->end_capture(r.stream.get())); });
  r.check_usable();
  r.check_clean();
}

TEST_CASE("cuda: a call that no capture holds ends it in the driver too", "[cuda][no-device]") {
  Recording r;
  OwnedStream other(r.gpu);
  const OwnedEvent event(r.gpu);
  r.gpu->begin_capture(r.stream.get());
  r.launch(r.stream.get());
  r.gpu->record(event.get(), r.stream.get());
  r.gpu->wait(other.get(), event.get());
  std::byte byte{};
  SECTION("a copy to the host") {
    expect_error(ErrorCode::capture_invalidated, {"copy_d2h_async"},
                 [&] { r.gpu->copy_d2h_async(&byte, r.memory.get(), 1, r.stream.get()); });
  }
  SECTION("a wait for it") {
    expect_error(ErrorCode::capture_invalidated, {"synchronize"}, [&] { r.gpu->synchronize(other.get()); });
  }
  SECTION("an end with a stream that was not joined") {
    expect_error(ErrorCode::capture_invalidated, {"end_capture"},
                 [&] { static_cast<void>(r.gpu->end_capture(r.stream.get())); });
  }
  r.gpu->synchronize(r.stream.get());
  r.gpu->synchronize(other.get());
  r.check_usable();
  // The launch that was captured holds on to no module.
  r.set.reset();
  CHECK(r.live("a module") == 0);
}

TEST_CASE("cuda: other threads take and free memory while a stream is captured", "[cuda][no-device]") {
  Recording r;
  r.gpu->begin_capture(r.stream.get());
  r.launch(r.stream.get());
  on_another_thread([&] {
    const Buffer other(r.gpu, 100);
    const PinnedBuffer pinned(r.gpu, 100);
    const OwnedStream stream(r.gpu);
    r.launch(stream.get());
    r.gpu->synchronize(stream.get());
    static_cast<void>(r.gpu->load(fake_cuda_set()));
  });
  const OwnedGraph graph(r.gpu, r.gpu->end_capture(r.stream.get()));
  CHECK(graph.get());
  CHECK(r.fake.violations().empty());
}

TEST_CASE("cuda: a module stays loaded while a graph has its kernels", "[cuda][no-device]") {
  Recording r;
  OwnedGraph graph(r.gpu, r.capture());
  r.set.reset();
  CHECK(r.live("a module") == 1);
  r.gpu->launch_graph(graph.get(), r.stream.get());
  r.gpu->synchronize(r.stream.get());
  CHECK(r.fake.launches().back().runs == 1);
  r.gpu->launch_graph(graph.get(), r.stream.get());
  graph.reset();  // waits: the code goes with it
  CHECK(r.fake.launches().back().runs == 2);
  CHECK(r.live("a module") == 0);
  CHECK(r.live("an executable graph") == 0);
  r.check_clean();
}

TEST_CASE("cuda: a graph whose module is loaded is destroyed without waiting", "[cuda][no-device]") {
  Recording r;
  OwnedGraph graph(r.gpu, r.capture());
  r.gpu->launch_graph(graph.get(), r.stream.get());
  const std::uint64_t waits = r.fake.calls("cuStreamSynchronize");
  graph.reset();
  CHECK(r.fake.calls("cuStreamSynchronize") == waits);
  r.gpu->synchronize(r.stream.get());
  CHECK(r.fake.launches().back().runs == 1);  // and what is pending completes
  r.check_clean();
}

TEST_CASE("cuda: launches that wait do so outside captures alone", "[cuda][no-device]") {
  FakeCuda fake;
  OpenOptions options = fake.options();
  options.synchronous_launches = true;
  const auto gpu = fake.open(options);
  const auto set = gpu->load(fake_cuda_set());
  const Buffer memory(gpu, 1024);
  const OwnedStream stream(gpu);
  gpu->begin_capture(stream.get());
  launch_scale(*gpu, *set, memory.get(), memory.get().offset(512), stream.get());
  const OwnedGraph graph(gpu, gpu->end_capture(stream.get()));
  gpu->launch_graph(graph.get(), stream.get());
  launch_scale(*gpu, *set, memory.get(), memory.get().offset(512), stream.get());
  CHECK(fake.launches()[0].runs == 1);
  CHECK(fake.launches()[1].runs == 1);
}

TEST_CASE("cuda: a captured launch gets the shared memory it needs", "[cuda][no-device]") {
  Recording r;
  r.gpu->begin_capture(r.stream.get());
  KernelLaunch(r.gpu, r.set->get("extra")).grid(1).block(1).shared_mem(100 << 10).launch(r.stream.get());
  const OwnedGraph graph(r.gpu, r.gpu->end_capture(r.stream.get()));
  CHECK(r.fake.calls("cuFuncSetAttribute") == 1);
  r.gpu->launch_graph(graph.get(), r.stream.get());
  r.gpu->synchronize(r.stream.get());
  CHECK(r.fake.launches().back().runs == 1);
}

TEST_CASE("cuda: a device that goes while a stream is captured ends the capture", "[cuda][no-device]") {
  Recording r;
  r.gpu->begin_capture(r.stream.get());
  r.launch(r.stream.get());
  r.set.reset();
  r.memory = Buffer();
  static_cast<void>(r.stream.release());
  r.gpu.reset();
  KDART_CHECK_CLEAN(r.fake);
}

}  // namespace kdart::test
