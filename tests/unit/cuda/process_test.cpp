// Forks of a process that has used the driver.
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdio>
#include <exception>
#include <functional>

#include "kdart/cuda.h"
#include "kdart/owned.h"
#include "kdart/registry.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/sample_set.h"

namespace kdart::test {
namespace {

constexpr unsigned hang_seconds = 60;
constexpr int good = 0;

// The exit code of a forked child that runs `body`; -1 when a signal ended it.
int exit_code_of(const std::function<int()>& body) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(hang_seconds);
    int code = 98;
    try {
      code = body();
    } catch (const std::exception& error) {
      static_cast<void>(std::fprintf(stderr, "in a child: %s\n", error.what()));
    }
    _exit(code);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Whether `call` throws forked_process.
bool is_refused(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code() == ErrorCode::forked_process;
  }
  return false;
}

}  // namespace

TEST_CASE("cuda: a child's copy of a device refuses work and calls no driver", "[cuda][no-device]") {
  const FakeCuda fake;
  auto gpu = fake.open();
  auto set = gpu->load(fake_cuda_set());
  auto memory = std::make_unique<Buffer>(gpu, 1024);
  auto stream = std::make_unique<OwnedStream>(gpu);
  launch_scale(*gpu, *set, memory->get(), memory->get().offset(512), stream->get());
  CudaInterop& interop = *gpu->service<CudaInterop>();
  CHECK(exit_code_of([&] {
          const std::uint64_t calls = fake.calls();
          if (!is_refused([&] { gpu->synchronize(stream->get()); })) return 1;
          if (!is_refused([&] { static_cast<void>(gpu->alloc(16)); })) return 2;
          if (!is_refused([&] { static_cast<void>(gpu->load(fake_cuda_set())); })) return 3;
          if (!is_refused([&] { static_cast<void>(interop.adopt_stream(nullptr)); })) return 5;
          stream.reset();
          memory.reset();
          set.reset();
          gpu.reset();
          return fake.calls() == calls ? good : 4;
        }) == good);
  gpu->synchronize(stream->get());  // the parent's goes on
  CHECK(fake.launches().back().runs == 1);
}

TEST_CASE("cuda: a child of a process that has used the driver opens no device", "[cuda][no-device]") {
  const FakeCuda fake;
  static_cast<void>(fake.open());
  CHECK(exit_code_of([&] {
          const std::uint64_t calls = fake.calls();
          if (!is_refused([&] { static_cast<void>(fake.open()); })) return 1;
          for (const BackendStatus& status : list_backends(fake.options())) {
            if (status.backend == "cuda" && status.error != ErrorCode::forked_process) return 2;
          }
          return fake.calls() == calls ? good : 3;
        }) == good);
  static_cast<void>(fake.open());
}

}  // namespace kdart::test
