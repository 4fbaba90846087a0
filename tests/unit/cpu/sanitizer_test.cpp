// What the thread engine is for: ThreadSanitizer sees the threads of a block, and so the barrier that a kernel forgot.
#include "backends/cpu/platform.h"

#if KDART_CPU_TSAN

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "tests/unit/cpu/test_device.h"

namespace kdart::test {
namespace {

constexpr int tsan_exit_code = 66;  // what it ends a process with that had a report

// The exit code of this program, run again with one test filter and its output thrown away.
int exit_code_of_test(std::string filter) {
  std::array<char, 4096> path{};
  REQUIRE(readlink("/proc/self/exe", path.data(), path.size() - 1) > 0);
  posix_spawn_file_actions_t quiet;
  REQUIRE(posix_spawn_file_actions_init(&quiet) == 0);
  for (const int output : {STDOUT_FILENO, STDERR_FILENO}) {
    REQUIRE(posix_spawn_file_actions_addopen(&quiet, output, "/dev/null", O_WRONLY, 0) == 0);
  }
  std::array<char*, 3> arguments{path.data(), filter.data(), nullptr};
  pid_t child = 0;
  REQUIRE(posix_spawn(&child, path.data(), &quiet, nullptr, arguments.data(), environ) == 0);
  posix_spawn_file_actions_destroy(&quiet);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void rotate(const char* kernel) {
  const CpuTestDevice device(CpuEngine::threads);
  const OwnedStream stream(device.gpu);
  const Buffer out = device.upload(std::vector<std::uint32_t>(32, 0));
  KernelLaunch(*device.gpu, device[kernel])
      .grid(2)
      .block(16)
      .shared_mem(64)
      .arg(out.get())
      .arg(20U)
      .launch(stream.get());
  device.gpu->synchronize(stream.get());
}

}  // namespace

// Hidden: run by the test below alone.
TEST_CASE("rotate with every barrier", "[.with-barriers]") {
  rotate("rotate");
  SUCCEED();
}
TEST_CASE("rotate with one barrier too few", "[.without-a-barrier]") {
  rotate("rotate_wrongly");
  SUCCEED();
}

TEST_CASE("ThreadSanitizer finds a missing barrier, and nothing where there is none missing", "[cpu][launch][tsan]") {
  CHECK(exit_code_of_test("[.with-barriers]") == 0);
  CHECK(exit_code_of_test("[.without-a-barrier]") == tsan_exit_code);
}

}  // namespace kdart::test

#endif
