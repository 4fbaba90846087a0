// What happens to a device at the edges of a process: fork, and exit with objects alive. Each child reports by its exit
// code; an alarm ends one that hangs.
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "tests/support/child.h"
#include "tests/support/test_device.h"

namespace kdart::test {
namespace {

constexpr unsigned hang_seconds = 60;

// The exit code of a forked child that runs `body`; -1 when a signal ended it.
int exit_code_of(const std::function<void()>& body) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(hang_seconds);
    try {
      body();
    } catch (const std::exception& error) {
      static_cast<void>(std::fprintf(stderr, "in a child: %s\n", error.what()));
      _exit(98);
    }
    _exit(99);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

constexpr int exit_called = 7;

// Ends the process by exit() with a device that is at work: owned by objects that exit() destroys, or by nobody.
void exit_with_objects(bool leaked) {
  alarm(hang_seconds);
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
  std::exit(exit_called);
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

TEST_CASE("child process forks and opens a device in the fork", "[.child]") {
  const int code = exit_code_of([] {
    const TestDevice device;
    _exit(device.canary() ? 0 : 1);
  });
  _exit(code);
}

TEST_CASE("a process that forked before may open a device in the child", "[device][process]") {
  const TestDevice device;
  // In a process that starts afresh: a driver that this process has used may not work in a fork of it.
  const ChildResult child = run_test_case("child process forks and opens a device in the fork");
  INFO(child.output);
  CHECK(child.code == 0);
  CHECK(TestDevice().canary());
}

TEST_CASE("child process exits with objects that exit destroys", "[.child]") {
  exit_with_objects(false);
}

TEST_CASE("child process exits with objects that nobody destroys", "[.child]") {
  exit_with_objects(true);
}

TEST_CASE("a process may exit with objects alive", "[device][process]") {
  const TestDevice device;
  for (const char* name : {"child process exits with objects that exit destroys",
                           "child process exits with objects that nobody destroys"}) {
    const ChildResult child = run_test_case(name);
    INFO(child.output);
    CHECK(child.code == exit_called);
  }
  CHECK(TestDevice().canary());
}

}  // namespace kdart::test
