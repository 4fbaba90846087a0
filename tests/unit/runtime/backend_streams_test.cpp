#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "kdart/backend.h"
#include "tests/support/expect_error.h"
#include "tests/support/fake_backend.h"

namespace kdart::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// Every call that names a stream.
std::vector<std::pair<std::string, std::function<void(Stream)>>> stream_calls(FakeBackend& gpu, Event event,
                                                                              Graph graph) {
  return {{"alloc_async", [&](Stream s) { static_cast<void>(gpu.alloc_async(1, s)); }},
          {"free_async", [&](Stream s) { gpu.free_async({}, s); }},
          {"fill", [&](Stream s) { gpu.fill({}, 0, 1, 0, s); }},
          {"copy_h2d_async", [&](Stream s) { gpu.copy_h2d_async({}, nullptr, 0, s); }},
          {"copy_d2h_async", [&](Stream s) { gpu.copy_d2h_async(nullptr, {}, 0, s); }},
          {"copy_d2d_async", [&](Stream s) { gpu.copy_d2d_async({}, {}, 0, s); }},
          {"copy_2d_d2d_async", [&](Stream s) { gpu.copy_2d_d2d_async({}, 0, {}, 0, 0, 0, s); }},
          {"flush", [&](Stream s) { gpu.flush(s); }},
          {"synchronize", [&](Stream s) { gpu.synchronize(s); }},
          {"record", [&gpu, event](Stream s) { gpu.record(event, s); }},
          {"wait", [&gpu, event](Stream s) { gpu.wait(s, event); }},
          {"launch", [&](Stream s) { gpu.launch({}, s); }},
          {"begin_capture", [&](Stream s) { gpu.begin_capture(s); }},
          {"end_capture", [&](Stream s) { static_cast<void>(gpu.end_capture(s)); }},
          {"launch_graph", [&gpu, graph](Stream s) { gpu.launch_graph(graph, s); }},
          {"destroy_stream", [&](Stream s) { gpu.destroy_stream(s); }}};
}

TEST_CASE("every call refuses a stream that is empty, stale or foreign", "[runtime][streams]") {
  const auto gpu = FakeBackend::open();
  const auto other = FakeBackend::open();
  const Stream origin = gpu->create_stream();
  gpu->begin_capture(origin);
  const Graph graph = gpu->end_capture(origin);
  const Event event = gpu->create_event();
  const Stream stale = gpu->create_stream();
  gpu->destroy_stream(stale);
  const Stream foreign = other->create_stream();
  const std::set<std::string> before = gpu->called();
  for (const auto& [name, call] : stream_calls(*gpu, event, graph)) {
    expect_error(ErrorCode::invalid_handle, {name, "empty"}, [&] { call(Stream{}); });
    expect_error(ErrorCode::invalid_handle, {name, "stale"}, [&] { call(stale); });
    expect_error(ErrorCode::invalid_handle, {name, "another backend"}, [&] { call(foreign); });
  }
  CHECK(gpu->called() == before);
}

TEST_CASE("every call refuses an event or graph that is empty or stale", "[runtime][streams]") {
  const auto gpu = FakeBackend::open();
  const Stream stream = gpu->create_stream();
  const Event good = gpu->create_event();
  const Event stale_event = gpu->create_event();
  gpu->destroy_event(stale_event);
  for (const Event event : {Event{}, stale_event}) {
    const std::string word = event ? "stale" : "empty";
    expect_error(ErrorCode::invalid_handle, {"record", word}, [&] { gpu->record(event, stream); });
    expect_error(ErrorCode::invalid_handle, {"wait", word}, [&] { gpu->wait(stream, event); });
    expect_error(ErrorCode::invalid_handle, {"wait_host", word}, [&] { gpu->wait_host(event); });
    expect_error(ErrorCode::invalid_handle, {"query", word}, [&] { static_cast<void>(gpu->query(event)); });
    gpu->record(good, stream);
    expect_error(ErrorCode::invalid_handle, {"elapsed_ms", word},
                 [&] { static_cast<void>(gpu->elapsed_ms(good, event)); });
    expect_error(ErrorCode::invalid_handle, {"destroy_event", word}, [&] { gpu->destroy_event(event); });
  }
  gpu->begin_capture(stream);
  const Graph stale_graph = gpu->end_capture(stream);
  gpu->destroy_graph(stale_graph);
  for (const Graph graph : {Graph{}, stale_graph}) {
    expect_error(ErrorCode::invalid_handle, {"launch_graph"}, [&] { gpu->launch_graph(graph, stream); });
    expect_error(ErrorCode::invalid_handle, {"destroy_graph"}, [&] { gpu->destroy_graph(graph); });
  }
}

TEST_CASE("an event that was never recorded holds nobody up", "[runtime][events]") {
  const auto gpu = FakeBackend::open();
  const Stream stream = gpu->create_stream();
  const Event event = gpu->create_event();
  gpu->set_busy(true);
  gpu->wait(stream, event);
  gpu->wait_host(event, milliseconds(0));
  CHECK(gpu->query(event));
  CHECK(gpu->calls("wait") == 0);
  CHECK(gpu->calls("wait_host") == 0);
  expect_error(ErrorCode::invalid_argument, {"never recorded"},
               [&] { static_cast<void>(gpu->elapsed_ms(event, event)); });
  gpu->record(event, stream);
  gpu->wait(stream, event);
  CHECK(gpu->calls("wait") == 1);
  CHECK_FALSE(gpu->query(event));
}

TEST_CASE("elapsed time needs two events that have passed", "[runtime][events]") {
  const auto gpu = FakeBackend::open();
  const Stream stream = gpu->create_stream();
  const Event start = gpu->create_event();
  const Event end = gpu->create_event();
  gpu->record(start, stream);
  gpu->record(end, stream);
  gpu->set_busy(true);
  expect_error(ErrorCode::invalid_argument, {"not passed"}, [&] { static_cast<void>(gpu->elapsed_ms(start, end)); });
  gpu->set_busy(false);
  CHECK(gpu->elapsed_ms(start, end) == 1.5);
}

TEST_CASE("a bounded wait that runs out is a timeout and breaks nothing", "[runtime][streams]") {
  const auto gpu = FakeBackend::open();
  const Stream stream = gpu->create_stream();
  const Event event = gpu->create_event();
  gpu->record(event, stream);
  gpu->set_busy(true);
  expect_error(ErrorCode::timeout, {"stream", "2.5"}, [&] { gpu->synchronize(stream, nanoseconds(2'500'000)); });
  expect_error(ErrorCode::timeout, {"event"}, [&] { gpu->wait_host(event, milliseconds(1)); });
  expect_error(ErrorCode::timeout, {"0.000 ms"}, [&] { gpu->synchronize(stream, milliseconds(-7)); });
  CHECK(gpu->last_timeout() == Timeout(nanoseconds(0)));  // a deadline that has passed
  gpu->set_busy(false);
  gpu->synchronize(stream, milliseconds(0));
  gpu->synchronize(stream);
  CHECK_FALSE(gpu->last_timeout().value().has_value());
  gpu->wait_host(event);
}

TEST_CASE("a stream or event that the driver cannot create or destroy changes nothing", "[runtime][streams]") {
  const auto gpu = FakeBackend::open();
  const Stream stream = gpu->create_stream();
  gpu->fail_call("create_stream", Error(ErrorCode::driver_error, "no more"));
  expect_error(ErrorCode::driver_error, {"no more"}, [&] { static_cast<void>(gpu->create_stream()); });
  gpu->fail_call("destroy_stream", Error(ErrorCode::driver_error, "not now"));
  expect_error(ErrorCode::driver_error, {"not now"}, [&] { gpu->destroy_stream(stream); });
  gpu->synchronize(stream);
  gpu->destroy_stream(stream);
  const Event event = gpu->create_event();
  gpu->record(event, gpu->create_stream());
  gpu->fail_call("record", Error(ErrorCode::driver_error, "not now"));
  expect_error(ErrorCode::driver_error, {}, [&] { gpu->record(event, gpu->create_stream()); });
  CHECK(gpu->query(event));
}

}  // namespace
}  // namespace kdart::test
