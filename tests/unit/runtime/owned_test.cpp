#include "kdart/owned.h"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/fake_backend.h"

namespace kdart::test {
namespace {

TEST_CASE("owners release what they own, once", "[runtime][owned]") {
  const int before = FakeBackend::live_objects();
  const auto gpu = FakeBackend::open();
  {
    const Buffer buffer(gpu, 64);
    const PinnedBuffer pinned(gpu, 32);
    const OwnedStream stream(gpu);
    const OwnedEvent event(gpu);
    gpu->begin_capture(stream.get());
    const OwnedGraph graph(gpu, gpu->end_capture(stream.get()));
    CHECK(buffer.bytes() == 64);
    CHECK(pinned.bytes() == 32);
    CHECK(pinned.get() != nullptr);
    CHECK(gpu->contains(buffer.get(), 64));
    CHECK(FakeBackend::live_objects() == before + 5);
  }
  CHECK(FakeBackend::live_objects() == before);
}

TEST_CASE("owners move, and what they moved from is empty", "[runtime][owned]") {
  STATIC_CHECK_FALSE(std::is_copy_constructible_v<OwnedStream>);
  STATIC_CHECK_FALSE(std::is_copy_constructible_v<Buffer>);
  STATIC_CHECK(std::is_nothrow_move_constructible_v<Buffer>);
  const auto gpu = FakeBackend::open();
  OwnedStream a(gpu);
  const Stream stream = a.get();
  OwnedStream b(std::move(a));
  CHECK(b.get() == stream);
  CHECK_FALSE(a);  // NOLINT(bugprone-use-after-move): what this is about
  OwnedStream c(gpu);
  c = std::move(b);
  CHECK(c.get() == stream);
  CHECK(gpu->calls("destroy_stream") == 1);  // what c had before
  OwnedStream& self = c;
  c = std::move(self);
  CHECK(c.get() == stream);
  c.reset();
  c.reset();
  CHECK(gpu->calls("destroy_stream") == 2);
  OwnedEvent event(gpu);
  const Event given_up = event.release();
  event.reset();
  CHECK(gpu->calls("destroy_event") == 0);
  gpu->destroy_event(given_up);
}

TEST_CASE("a moved buffer keeps its size with it", "[runtime][owned]") {
  const auto gpu = FakeBackend::open();
  Buffer a(gpu, 64);
  const Buffer b(std::move(a));
  CHECK(b.bytes() == 64);
  CHECK_FALSE(a);         // NOLINT(bugprone-use-after-move)
  CHECK(a.bytes() == 0);  // NOLINT(bugprone-use-after-move)
  CHECK(a.get() == DevicePtr{});
}

TEST_CASE("an owner keeps its backend alive", "[runtime][owned]") {
  const int before = FakeBackend::live_objects();
  auto gpu = FakeBackend::open();
  Buffer buffer(gpu, 64);
  gpu.reset();
  CHECK(FakeBackend::live_objects() == before + 1);
  buffer = Buffer();
  CHECK(FakeBackend::live_objects() == before);
}

TEST_CASE("a release that fails goes to the log and nowhere else", "[runtime][owned]") {
  std::vector<std::string> lines;
  const auto gpu = FakeBackend::open({.log = [&](LogSeverity severity, std::string_view line) {
    CHECK(severity == LogSeverity::warning);
    lines.emplace_back(line);
  }});
  {
    const Buffer buffer(gpu, 64);
    gpu->fail_call("free", Error(ErrorCode::driver_error, "the driver has shut down"));
  }
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find("the driver has shut down") != std::string::npos);
  {
    const OwnedStream stream(gpu);
    const Buffer buffer(gpu, 64);
    gpu->report(Error(ErrorCode::device_lost, "gone"));
  }
  CHECK(lines.size() == 1);  // a lost device has been reported where it was lost
}

TEST_CASE("an owner that could not be made owns nothing", "[runtime][owned]") {
  const auto gpu = FakeBackend::open({.memory_limit = 10});
  expect_error(ErrorCode::out_of_device_memory, {}, [&] { const Buffer buffer(gpu, 11); });
  CHECK(gpu->calls("free") == 0);
}

}  // namespace
}  // namespace kdart::test
