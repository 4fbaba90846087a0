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

// The bytes of several arrays, one after the other.
template <class... T>
[[nodiscard]] std::vector<std::byte> bytes_of(const std::vector<T>&... parts) {
  std::vector<std::byte> result;
  const auto add = [&](std::span<const std::byte> bytes) { result.insert(result.end(), bytes.begin(), bytes.end()); };
  (add(std::as_bytes(std::span<const T>(parts))), ...);
  return result;
}

}  // namespace kdart::test
