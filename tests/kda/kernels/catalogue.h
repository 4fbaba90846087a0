// Every kernel of the set once, on a small problem whose shape is a multiple of nothing: for what must hold of all of
// them, whatever they compute.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "tests/support/kernel_runner.h"

namespace kdart::test {

struct CatalogueEntry {
  std::string_view kernel;
  // Runs it and returns all that it wrote. `smallest`: one head or row, as few elements as it takes at all.
  std::function<std::vector<std::byte>(KernelRunner& runner, bool smallest)> run;
};

// In contract order; a test checks that none is missing.
[[nodiscard]] std::span<const CatalogueEntry> catalogue();

}  // namespace kdart::test
