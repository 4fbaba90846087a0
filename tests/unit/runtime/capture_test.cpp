#include <array>
#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <string>
#include <vector>

#include "kdart/backend.h"
#include "tests/support/expect_error.h"
#include "tests/support/fake_backend.h"
#include "tests/support/sample_set.h"

namespace kdart::test {
namespace {

// A device with a loaded set, some memory and three streams.
struct Bench {
  std::shared_ptr<FakeBackend> gpu = FakeBackend::open();
  std::shared_ptr<LoadedSet> set = gpu->load(sample_set());
  DevicePtr a = gpu->alloc(64), b = gpu->alloc(64);
  Stream s1 = gpu->create_stream(), s2 = gpu->create_stream(), s3 = gpu->create_stream();
  Event e1 = gpu->create_event(), e2 = gpu->create_event();

  void launch(Stream stream) {
    KernelLaunch(*gpu, set->get("scale")).args(ScaleArgs{.x = a, .y = b, .bias = {}, .n = 4, .a = 1.0F}).launch(stream);
  }
  // s2 joins the capture on s1.
  void join() {
    gpu->record(e1, s1);
    gpu->wait(s2, e1);
  }
};

TEST_CASE("a capture holds launches, d2d copies and fills, and a graph runs them each time", "[runtime][capture]") {
  Bench bench;
  FakeBackend& gpu = *bench.gpu;
  gpu.begin_capture(bench.s1);
  gpu.fill(bench.a, 7, 1, 64, bench.s1);
  gpu.copy_d2d_async(bench.b, bench.a, 32, bench.s1);
  gpu.copy_2d_d2d_async(bench.b.offset(32), 8, bench.a, 8, 8, 4, bench.s1);
  bench.launch(bench.s1);
  const Graph graph = gpu.end_capture(bench.s1);
  CHECK(gpu.launches().empty());
  for (int i = 0; i < 3; ++i) gpu.launch_graph(graph, bench.s1);
  CHECK(gpu.launches().size() == 3);
  std::array<char, 64> bytes{};
  gpu.copy_d2h(bytes.data(), bench.b, 64);
  CHECK(std::string(bytes.data(), 64) == std::string(64, 7));
  gpu.destroy_graph(graph);
}

TEST_CASE("streams join by waiting for an event of the capture and must be joined back", "[runtime][capture]") {
  Bench bench;
  FakeBackend& gpu = *bench.gpu;
  gpu.begin_capture(bench.s1);
  bench.join();
  bench.launch(bench.s2);
  gpu.record(bench.e2, bench.s2);
  gpu.wait(bench.s1, bench.e2);
  const Graph graph = gpu.end_capture(bench.s1);
  gpu.launch_graph(graph, bench.s3);
  CHECK(gpu.launches().size() == 1);
  gpu.synchronize(bench.s2);  // no longer captured
}

TEST_CASE("joining back through another stream counts", "[runtime][capture]") {
  Bench bench;
  FakeBackend& gpu = *bench.gpu;
  const Event e3 = gpu.create_event();
  gpu.begin_capture(bench.s1);
  bench.join();
  bench.launch(bench.s2);
  gpu.record(bench.e2, bench.s2);
  gpu.wait(bench.s3, bench.e2);  // s3 joins through s2
  gpu.record(e3, bench.s3);
  gpu.wait(bench.s1, e3);  // and brings s2's work back
  CHECK_NOTHROW(static_cast<void>(gpu.end_capture(bench.s1)));
}

TEST_CASE("a stream that was not joined back invalidates the capture by name", "[runtime][capture]") {
  const std::vector<std::pair<std::string, std::function<void(Bench&)>>> cases{
      {"joined and did nothing", [](Bench&) {}},
      {"worked", [](Bench& b) { b.launch(b.s2); }},
      {"worked after the join back",
       [](Bench& b) {
         b.gpu->record(b.e2, b.s2);
         b.gpu->wait(b.s1, b.e2);
         b.launch(b.s2);
       }},
      {"filled after the join back",
       [](Bench& b) {
         b.gpu->record(b.e2, b.s2);
         b.gpu->wait(b.s1, b.e2);
         b.gpu->fill(b.a, 0, 4, 4, b.s2);
       }},
      {"was waited for before its last work", [](Bench& b) {
         b.gpu->record(b.e2, b.s2);
         b.launch(b.s2);
         b.gpu->wait(b.s1, b.e2);
       }}};
  for (const auto& [name, work] : cases) {
    INFO(name);
    Bench bench;
    bench.gpu->begin_capture(bench.s1);
    bench.join();
    work(bench);
    expect_error(ErrorCode::capture_invalidated, {"stream " + std::to_string(bench.s2.index()), "joined"},
                 [&] { static_cast<void>(bench.gpu->end_capture(bench.s1)); });
    CHECK(bench.gpu->calls("end_capture") == 0);
    CHECK(bench.gpu->calls("abort_capture") == 1);
    bench.launch(bench.s1);
    bench.launch(bench.s2);
    CHECK(bench.gpu->launches().size() == 2);
    expect_error(ErrorCode::invalid_argument, {"no capture"},
                 [&] { static_cast<void>(bench.gpu->end_capture(bench.s1)); });
  }
}

// What a capture cannot hold, on the stream it is called for.
std::vector<std::pair<std::string, std::function<void(Bench&, Stream)>>> illegal_calls() {
  static std::array<char, 64> host{};
  return {{"synchronize", [](Bench& b, Stream s) { b.gpu->synchronize(s); }},
          {"flush", [](Bench& b, Stream s) { b.gpu->flush(s); }},
          {"alloc_async", [](Bench& b, Stream s) { static_cast<void>(b.gpu->alloc_async(16, s)); }},
          {"free_async", [](Bench& b, Stream s) { b.gpu->free_async(b.a, s); }},
          {"copy_h2d_async", [](Bench& b, Stream s) { b.gpu->copy_h2d_async(b.a, host.data(), 8, s); }},
          {"copy_d2h_async", [](Bench& b, Stream s) { b.gpu->copy_d2h_async(host.data(), b.a, 8, s); }},
          {"begin_capture", [](Bench& b, Stream s) { b.gpu->begin_capture(s); }},
          {"destroy_stream", [](Bench& b, Stream s) { b.gpu->destroy_stream(s); }}};
}

TEST_CASE("an illegal call ends the capture and leaves its streams usable", "[runtime][capture]") {
  for (const auto& [name, call] : illegal_calls()) {
    for (const bool on_joined : {false, true}) {
      INFO(name << (on_joined ? " on a stream that joined" : " on the origin"));
      Bench bench;
      bench.gpu->begin_capture(bench.s1);
      bench.join();
      bench.launch(bench.s1);
      const int before = bench.gpu->calls(name);
      expect_error(ErrorCode::capture_invalidated, {name, "is being captured"},
                   [&] { call(bench, on_joined ? bench.s2 : bench.s1); });
      CHECK(bench.gpu->calls(name) == before);
      CHECK(bench.gpu->calls("abort_capture") == 1);
      for (const Stream stream : {bench.s1, bench.s2}) {
        CHECK_NOTHROW(bench.gpu->synchronize(stream));
        CHECK_NOTHROW(bench.launch(stream));
      }
      CHECK(bench.gpu->launches().size() == 2);  // the captured one is gone
      expect_error(ErrorCode::capture_invalidated, {name},
                   [&] { static_cast<void>(bench.gpu->end_capture(bench.s1)); });  // says why, once
      expect_error(ErrorCode::invalid_argument, {"no capture"},
                   [&] { static_cast<void>(bench.gpu->end_capture(bench.s1)); });
      bench.gpu->begin_capture(bench.s1);
      CHECK_NOTHROW(static_cast<void>(bench.gpu->end_capture(bench.s1)));
    }
  }
}

TEST_CASE("a graph is not launched into a capture, and a joined stream does not end it", "[runtime][capture]") {
  Bench bench;
  bench.gpu->begin_capture(bench.s3);
  const Graph graph = bench.gpu->end_capture(bench.s3);
  bench.gpu->begin_capture(bench.s1);
  expect_error(ErrorCode::capture_invalidated, {"launch_graph"}, [&] { bench.gpu->launch_graph(graph, bench.s1); });
  bench.gpu->begin_capture(bench.s1);
  bench.join();
  expect_error(ErrorCode::capture_invalidated, {"end_capture", "joined"},
               [&] { static_cast<void>(bench.gpu->end_capture(bench.s2)); });
  CHECK_NOTHROW(bench.gpu->synchronize(bench.s1));
}

TEST_CASE("a refused argument does not end a capture", "[runtime][capture]") {
  Bench bench;
  bench.gpu->begin_capture(bench.s1);
  expect_error(ErrorCode::invalid_argument, {}, [&] { bench.gpu->fill(DevicePtr(8), 0, 4, 1, bench.s1); });
  bench.gpu->fail_call("fill", Error(ErrorCode::driver_error, "once"));
  expect_error(ErrorCode::driver_error, {}, [&] { bench.gpu->fill(bench.a, 0, 4, 1, bench.s1); });
  bench.launch(bench.s1);
  CHECK_NOTHROW(static_cast<void>(bench.gpu->end_capture(bench.s1)));
}

TEST_CASE("a vendor's capture_invalidated ends the capture", "[runtime][capture]") {
  Bench bench;
  bench.gpu->begin_capture(bench.s1);
  bench.gpu->fail_call("launch", Error(ErrorCode::capture_invalidated, "kernel 'scale' was not prepared"));
  expect_error(ErrorCode::capture_invalidated, {"not prepared"}, [&] { bench.launch(bench.s1); });
  CHECK(bench.gpu->calls("abort_capture") == 1);
  CHECK_NOTHROW(bench.gpu->synchronize(bench.s1));
  expect_error(ErrorCode::capture_invalidated, {"not prepared"},
               [&] { static_cast<void>(bench.gpu->end_capture(bench.s1)); });
}

TEST_CASE("a capture that the driver cannot end is over", "[runtime][capture]") {
  Bench bench;
  bench.gpu->begin_capture(bench.s1);
  bench.gpu->fail_call("end_capture", Error(ErrorCode::driver_error, "no graph"));
  expect_error(ErrorCode::driver_error, {"no graph"}, [&] { static_cast<void>(bench.gpu->end_capture(bench.s1)); });
  CHECK_NOTHROW(bench.gpu->synchronize(bench.s1));
}

TEST_CASE("the host cannot ask about an event of a running capture", "[runtime][capture]") {
  const std::vector<std::pair<std::string, std::function<void(Bench&)>>> calls{
      {"wait_host", [](Bench& b) { b.gpu->wait_host(b.e1); }},
      {"query", [](Bench& b) { static_cast<void>(b.gpu->query(b.e1)); }},
      {"elapsed_ms", [](Bench& b) { static_cast<void>(b.gpu->elapsed_ms(b.e1, b.e1)); }}};
  for (const auto& [name, call] : calls) {
    INFO(name);
    Bench bench;
    bench.gpu->begin_capture(bench.s1);
    bench.gpu->record(bench.e1, bench.s1);
    expect_error(ErrorCode::capture_invalidated, {name, "capture"}, [&] { call(bench); });
    CHECK_NOTHROW(bench.gpu->synchronize(bench.s1));
    expect_error(ErrorCode::invalid_argument, {name, "over"}, [&] { call(bench); });
  }
}

TEST_CASE("an event of a capture that is over stands for nothing until it is recorded again", "[runtime][capture]") {
  Bench bench;
  bench.gpu->begin_capture(bench.s1);
  bench.gpu->record(bench.e1, bench.s1);
  static_cast<void>(bench.gpu->end_capture(bench.s1));
  const int waits = bench.gpu->calls("wait");
  expect_error(ErrorCode::invalid_argument, {"over"}, [&] { bench.gpu->wait(bench.s2, bench.e1); });
  expect_error(ErrorCode::invalid_argument, {"over"}, [&] { bench.gpu->wait_host(bench.e1); });
  CHECK(bench.gpu->calls("wait") == waits);
  bench.gpu->record(bench.e1, bench.s1);
  CHECK_NOTHROW(bench.gpu->wait(bench.s2, bench.e1));
  CHECK(bench.gpu->query(bench.e1));
}

TEST_CASE("a captured stream waits only for events of its own capture", "[runtime][capture]") {
  Bench bench;
  FakeBackend& gpu = *bench.gpu;
  gpu.record(bench.e1, bench.s2);
  gpu.begin_capture(bench.s1);
  CHECK_NOTHROW(gpu.wait(bench.s1, bench.e2));  // never recorded: nothing to wait for
  expect_error(ErrorCode::capture_invalidated, {"outside"}, [&] { gpu.wait(bench.s1, bench.e1); });

  gpu.begin_capture(bench.s1);
  gpu.begin_capture(bench.s2);
  gpu.record(bench.e1, bench.s1);
  expect_error(ErrorCode::capture_invalidated, {}, [&] { gpu.wait(bench.s2, bench.e1); });
  CHECK_NOTHROW(gpu.synchronize(bench.s1));  // both captures are over
  CHECK_NOTHROW(gpu.synchronize(bench.s2));
}

TEST_CASE("an event may be destroyed while it is an edge of a capture", "[runtime][capture]") {
  Bench bench;
  bench.gpu->begin_capture(bench.s1);
  bench.join();
  bench.gpu->destroy_event(bench.e1);
  bench.gpu->record(bench.e2, bench.s2);
  bench.gpu->wait(bench.s1, bench.e2);
  const Graph graph = bench.gpu->end_capture(bench.s1);
  CHECK_NOTHROW(bench.gpu->launch_graph(graph, bench.s1));
}

TEST_CASE("a wait that the driver refuses joins nothing", "[runtime][capture]") {
  Bench bench;
  bench.gpu->begin_capture(bench.s1);
  bench.gpu->record(bench.e1, bench.s1);
  bench.gpu->fail_call("wait", Error(ErrorCode::driver_error, "once"));
  expect_error(ErrorCode::driver_error, {}, [&] { bench.gpu->wait(bench.s2, bench.e1); });
  CHECK_NOTHROW(bench.gpu->synchronize(bench.s2));
  CHECK_NOTHROW(static_cast<void>(bench.gpu->end_capture(bench.s1)));
}

}  // namespace
}  // namespace kdart::test
