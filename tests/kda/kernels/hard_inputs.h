// Every kernel of the set on inputs that saturate, cancel, overflow and underflow, for tests that compare bits: what is
// right about them is what the kernels' own tests say. No result is NaN, whose bits IEEE 754 leaves open.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "tests/support/kernel_runner.h"

namespace kdart::test {

struct HardEntry {
  std::string_view kernel;
  std::string_view input;
  // Runs it and returns all that it wrote.
  std::function<std::vector<std::byte>(KernelRunner& runner)> run;
};

// A test checks that no kernel of the contract is missing.
[[nodiscard]] std::span<const HardEntry> hard_inputs();

}  // namespace kdart::test
