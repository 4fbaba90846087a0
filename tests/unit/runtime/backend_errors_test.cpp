#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "kdart/backend.h"
#include "kdart/owned.h"
#include "tests/support/expect_error.h"
#include "tests/support/fake_backend.h"
#include "tests/support/sample_set.h"

namespace kdart::test {
namespace {

// One call of each kind, on objects that exist.
std::vector<std::pair<std::string, std::function<void()>>> all_calls(FakeBackend& gpu, Stream stream, Event event,
                                                                     Graph graph, DevicePtr memory) {
  return {{"facts", [&gpu] { static_cast<void>(gpu.facts()); }},
          {"service", [&gpu] { static_cast<void>(gpu.service<GemmService>()); }},
          {"alloc", [&gpu] { static_cast<void>(gpu.alloc(1)); }},
          {"alloc 0", [&gpu] { static_cast<void>(gpu.alloc(0)); }},
          {"free", [&gpu, memory] { gpu.free(memory); }},
          {"free null", [&gpu] { gpu.free({}); }},
          {"alloc_async", [&gpu, stream] { static_cast<void>(gpu.alloc_async(1, stream)); }},
          {"free_async", [&gpu, stream] { gpu.free_async({}, stream); }},
          {"fill", [&gpu, stream] { gpu.fill({}, 0, 1, 0, stream); }},
          {"copy_h2d", [&gpu] { gpu.copy_h2d({}, nullptr, 0); }},
          {"copy_d2h", [&gpu] { gpu.copy_d2h(nullptr, {}, 0); }},
          {"copy_d2d", [&gpu] { gpu.copy_d2d({}, {}, 0); }},
          {"copy_h2d_async", [&gpu, stream] { gpu.copy_h2d_async({}, nullptr, 0, stream); }},
          {"copy_d2h_async", [&gpu, stream] { gpu.copy_d2h_async(nullptr, {}, 0, stream); }},
          {"copy_d2d_async", [&gpu, stream] { gpu.copy_d2d_async({}, {}, 0, stream); }},
          {"copy_2d", [&gpu, stream] { gpu.copy_2d_d2d_async({}, 0, {}, 0, 0, 0, stream); }},
          {"alloc_pinned", [&gpu] { static_cast<void>(gpu.alloc_pinned(1)); }},
          {"free_pinned", [&gpu] { gpu.free_pinned(nullptr); }},
          {"import_memory", [&gpu] { static_cast<void>(gpu.import_memory(0, 0)); }},
          {"release_import", [&gpu] { gpu.release_import({}); }},
          {"memory_info", [&gpu] { static_cast<void>(gpu.memory_info()); }},
          {"create_stream", [&gpu] { static_cast<void>(gpu.create_stream()); }},
          {"destroy_stream", [&gpu, stream] { gpu.destroy_stream(stream); }},
          {"flush", [&gpu, stream] { gpu.flush(stream); }},
          {"synchronize", [&gpu, stream] { gpu.synchronize(stream); }},
          {"create_event", [&gpu] { static_cast<void>(gpu.create_event()); }},
          {"destroy_event", [&gpu, event] { gpu.destroy_event(event); }},
          {"record", [&gpu, event, stream] { gpu.record(event, stream); }},
          {"wait", [&gpu, event, stream] { gpu.wait(stream, event); }},
          {"wait_host", [&gpu, event] { gpu.wait_host(event); }},
          {"query", [&gpu, event] { static_cast<void>(gpu.query(event)); }},
          {"elapsed_ms", [&gpu, event] { static_cast<void>(gpu.elapsed_ms(event, event)); }},
          {"load", [&gpu] { static_cast<void>(gpu.load(sample_set())); }},
          {"kernel_info", [&gpu] { static_cast<void>(gpu.kernel_info({})); }},
          {"prepare", [&gpu] { gpu.prepare({}, {}, 0); }},
          {"launch", [&gpu, stream] { gpu.launch({}, stream); }},
          {"begin_capture", [&gpu, stream] { gpu.begin_capture(stream); }},
          {"end_capture", [&gpu, stream] { static_cast<void>(gpu.end_capture(stream)); }},
          {"launch_graph", [&gpu, graph, stream] { gpu.launch_graph(graph, stream); }},
          {"destroy_graph", [&gpu, graph] { gpu.destroy_graph(graph); }}};
}

TEST_CASE("after a sticky error every call repeats it and the driver is left alone", "[runtime][errors]") {
  for (const ErrorCode code : {ErrorCode::device_fault, ErrorCode::device_lost}) {
    const auto gpu = FakeBackend::open();
    const Stream stream = gpu->create_stream();
    const Event event = gpu->create_event();
    gpu->begin_capture(stream);
    const Graph graph = gpu->end_capture(stream);
    const DevicePtr memory = gpu->alloc(64);
    gpu->fail_call("synchronize", Error(code, "kernel 'gate' wrote to 0x1234", 700, "ILLEGAL_ADDRESS"));
    expect_error(code, {"gate"}, [&] { gpu->synchronize(stream); });
    const std::set<std::string> before = gpu->called();
    for (const auto& [name, call] : all_calls(*gpu, stream, event, graph, memory)) {
      INFO(name);
      try {
        call();
        FAIL(name << " did not throw");
      } catch (const Error& error) {
        CHECK(error.code() == code);
        CHECK(error.native_code() == 700);
        CHECK(error.native_text() == "ILLEGAL_ADDRESS");
        CHECK(std::string(error.what()) == "kernel 'gate' wrote to 0x1234");
      }
    }
    CHECK(gpu->called() == before);
    CHECK(gpu->contains(memory, 64));
  }
}

TEST_CASE("a fault that a worker met surfaces in the call that waits for it", "[runtime][errors]") {
  const auto run = [](const std::function<void(FakeBackend&, Stream, Event)>& wait) {
    const auto gpu = FakeBackend::open();
    const Stream stream = gpu->create_stream();
    const Event event = gpu->create_event();
    gpu->record(event, stream);
    gpu->set_while_waiting([&] { gpu->report(Error(ErrorCode::device_fault, "kernel 'l2' trapped")); });
    expect_error(ErrorCode::device_fault, {"l2"}, [&] { wait(*gpu, stream, event); });
    gpu->report(Error(ErrorCode::device_lost, "later"));
    expect_error(ErrorCode::device_fault, {"l2"}, [&] { static_cast<void>(gpu->alloc(1)); });  // the first one stays
    gpu->set_while_waiting({});
  };
  run([](FakeBackend& gpu, Stream stream, Event) { gpu.synchronize(stream); });
  run([](FakeBackend& gpu, Stream, Event event) { gpu.wait_host(event); });
}

TEST_CASE("an error that is not sticky leaves the device usable", "[runtime][errors]") {
  const auto gpu = FakeBackend::open();
  const Stream stream = gpu->create_stream();
  for (const ErrorCode code : {ErrorCode::out_of_device_memory, ErrorCode::timeout, ErrorCode::driver_error}) {
    gpu->fail_call("flush", Error(code, "once", 12345, "DRIVER_SAYS"));
    try {
      gpu->flush(stream);
      FAIL("flush did not throw");
    } catch (const Error& error) {
      CHECK(error.code() == code);
      CHECK(error.native_code() == 12345);  // also numbers that kdart has never heard of
    }
    CHECK_NOTHROW(gpu->flush(stream));
  }
}

TEST_CASE("nothing but Error leaves the library", "[runtime][errors]") {
  const auto gpu = FakeBackend::open();
  gpu->fail_call_with_bad_alloc("create_stream");
  expect_error(ErrorCode::out_of_host_memory, {}, [&] { static_cast<void>(gpu->create_stream()); });
  const Stream stream = gpu->create_stream();
  gpu->set_while_waiting([] { throw std::runtime_error("a vendor's mistake"); });
  expect_error(ErrorCode::driver_error, {"a vendor's mistake"}, [&] { gpu->synchronize(stream); });
  gpu->set_while_waiting({});
}

// Runs `body` in a child process and gives its exit status; 99 when it threw, 98 when it did not end by itself.
int in_child(const std::function<int()>& body) {
  std::cout.flush();  // a sanitizer's _exit would write the copied buffer once more
  const pid_t child = ::fork();
  if (child == 0) {
    int status = 99;
    try {
      status = body();
    } catch (...) {
    }
    ::_exit(status);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return 98;
  return WEXITSTATUS(status);
}

TEST_CASE("a child of fork gets forked_process from every call and no call of the driver", "[runtime][errors][fork]") {
  const auto gpu = FakeBackend::open();
  const Stream stream = gpu->create_stream();
  const Event event = gpu->create_event();
  gpu->begin_capture(stream);
  const Graph graph = gpu->end_capture(stream);
  const DevicePtr memory = gpu->alloc(64);
  const std::set<std::string> before = gpu->called();
  const int status = in_child([&] {
    int wrong = 0;
    for (const auto& [name, call] : all_calls(*gpu, stream, event, graph, memory)) {
      try {
        call();
        ++wrong;
      } catch (const Error& error) {
        if (error.code() != ErrorCode::forked_process) ++wrong;
      }
    }
    if (gpu->contains(memory, 1) || gpu->called() != before) ++wrong;
    return wrong;
  });
  CHECK(status == 0);
  CHECK_NOTHROW(gpu->synchronize(stream));  // the parent goes on
}

TEST_CASE("owners and backends end quietly in a child of fork, and a new device opens there",
          "[runtime][errors][fork]") {
  const int status = in_child([] {
    auto gpu = FakeBackend::open();
    FakeBackend* raw = gpu.get();
    auto buffer = std::make_unique<Buffer>(gpu, 64);
    auto stream = std::make_unique<OwnedStream>(gpu);
    auto set = gpu->load(sample_set());
    return in_child([&] {
      buffer.reset();
      stream.reset();
      set.reset();
      if (raw->calls("free") + raw->calls("destroy_stream") + raw->calls("unload_image") != 0) return 1;
      gpu.reset();
      const auto fresh = FakeBackend::open();
      fresh->free(fresh->alloc(16));
      return 0;
    });
  });
  CHECK(status == 0);
}

TEST_CASE("the log callback may throw and a backend without one is silent", "[runtime][errors]") {
  std::vector<std::string> lines;
  Manifest manifest = sample_manifest();
  manifest.kernels.push_back({"stranger", {}, 0});
  manifest.images[0].kernels.push_back({.name = "stranger", .symbol = "s"});
  const auto set = sample_set(manifest);
  const auto talking = FakeBackend::open({.log = [&](LogSeverity, std::string_view line) {
    lines.emplace_back(line);
    throw std::runtime_error("from the log");
  }});
  CHECK_NOTHROW(static_cast<void>(talking->load(set)));
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find("'stranger'") != std::string::npos);
  CHECK_NOTHROW(static_cast<void>(FakeBackend::open()->load(set)));
}

}  // namespace
}  // namespace kdart::test
