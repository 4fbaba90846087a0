#include "tests/support/child.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>

#include "tests/support/options.h"

namespace kdart::test {
namespace {

// Set in every child, which may start none of its own: a mistaken argument could have it run this very test again.
constexpr const char* child_mark = "KDART_TEST_CHILD";

// Starts `program`, with both its outputs going to `output`.
pid_t start(const char* program, std::vector<std::string> arguments, int output) {
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  std::string mark = std::string(child_mark) + "=1";
  std::vector<char*> environment{mark.data()};
  for (char** variable = environ; *variable != nullptr; ++variable) environment.push_back(*variable);
  environment.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  REQUIRE(posix_spawn_file_actions_init(&actions) == 0);
  const bool redirected = posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO) == 0 &&
                          posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO) == 0;
  pid_t child = -1;
  const int error =
      redirected ? posix_spawn(&child, program, &actions, nullptr, argv.data(), environment.data()) : ENOMEM;
  posix_spawn_file_actions_destroy(&actions);
  REQUIRE(error == 0);
  return child;
}

// What comes until the other end is closed; false when the time runs out first.
bool read_all(int input, std::chrono::steady_clock::time_point end, std::string& text) {
  std::array<char, 4096> piece{};
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    pollfd waited{input, POLLIN, 0};
    const int ready = poll(&waited, 1, static_cast<int>(std::max<long long>(0, left)));
    if (ready == 0) return false;
    if (ready < 0 && errno == EINTR) continue;
    const ssize_t bytes = read(input, piece.data(), piece.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) return true;
    text.append(piece.data(), static_cast<std::size_t>(bytes));
  }
}

}  // namespace

ChildResult run_test_program(std::vector<std::string> arguments, unsigned seconds) {
  if (std::getenv(child_mark) != nullptr) FAIL("a child process started by a test starts no other");
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  const std::string program = "/proc/self/exe";
  arguments.insert(arguments.begin(), {program, "--data", test_data().string()});
  std::array<int, 2> pipe{};
  REQUIRE(pipe2(pipe.data(), O_CLOEXEC) == 0);
  const pid_t child = start(program.c_str(), std::move(arguments), pipe[1]);
  close(pipe[1]);
  ChildResult result;
  if (!read_all(pipe[0], end, result.output)) {
    kill(child, SIGKILL);
    result.output += "\n(killed: it took too long)\n";
  }
  close(pipe[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  if (WIFEXITED(status)) result.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  return result;
}

ChildResult run_test_case(const std::string& name) {
  return run_test_program({"--device", test_device(), name});
}

}  // namespace kdart::test
