// This test program again, as a process of its own: for what a process cannot survive, or must meet afresh.
#pragma once

#include <string>
#include <vector>

namespace kdart::test {

struct ChildResult {
  int code = -1;       // what it exited with; -1 when a signal ended it
  int signal = 0;      // the signal, else 0
  std::string output;  // stdout and stderr together
};

// Runs the program with these arguments and the parent's --data, and waits. A child that takes longer than `seconds` is
// killed. Fails the test when it cannot be started, and in such a child itself.
[[nodiscard]] ChildResult run_test_program(std::vector<std::string> arguments, unsigned seconds = 120);
// One case, a hidden one as a rule, on the device under test.
[[nodiscard]] ChildResult run_test_case(const std::string& name);

}  // namespace kdart::test
