// What happens to a device at the edges of a process: fork, and exit with objects alive. Each child reports by its exit
// code; an alarm ends one that hangs.
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <memory>

#include "tests/support/test_device.h"

namespace kdart::test {
namespace {

constexpr unsigned hang_seconds = 60;

// The exit code of a child that runs `body`; -1 when a signal ended it.
int exit_code_of(const std::function<void()>& body) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(hang_seconds);
    body();
    _exit(99);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("a forked child is told, and does not hang", "[device][process]") {
  auto device = std::make_unique<TestDevice>();
  auto stream = std::make_unique<OwnedStream>(device->gpu);
  auto buffer = std::make_unique<Buffer>(device->gpu, 64);
  device->spin(stream->get(), 50);
  const int code = exit_code_of([&] {
    const std::function<void()> calls[]{
        [&] { device->gpu->synchronize(stream->get()); },
        [&] { static_cast<void>(device->gpu->alloc(64)); },
        [&] { static_cast<void>(device->gpu->create_stream()); },
        [&] { device->spin(stream->get(), 1); },
    };
    for (const auto& call : calls) {
      try {
        call();
        _exit(1);
      } catch (const Error& error) {
        if (error.code() != ErrorCode::forked_process) _exit(2);
      }
    }
    buffer.reset();
    stream.reset();
    device.reset();  // waits for nothing and joins nobody
    _exit(0);
  });
  CHECK(code == 0);
  device->gpu->synchronize(stream->get());  // the parent's device is untouched
  CHECK(device->canary());
}

TEST_CASE("a process that forked before may open a device in the child", "[device][process]") {
  const int code = exit_code_of([] {
    const TestDevice device;
    _exit(device.canary() ? 0 : 1);
  });
  CHECK(code == 0);
}

TEST_CASE("a process may exit with objects alive", "[device][process]") {
  // Destroyed by exit(), and leaked.
  for (const bool leaked : {false, true}) {
    const int code = exit_code_of([leaked] {
      static std::unique_ptr<TestDevice> device;
      static std::unique_ptr<OwnedStream> stream;
      static TestDevice* never_destroyed = nullptr;
      device = std::make_unique<TestDevice>();
      stream = std::make_unique<OwnedStream>(device->gpu);
      device->spin(stream->get(), 20);
      if (leaked) {
        never_destroyed = device.release();
        static_cast<void>(stream->release());
      }
      static_cast<void>(never_destroyed);
      std::exit(7);
    });
    CHECK(code == 7);
  }
}

}  // namespace kdart::test
