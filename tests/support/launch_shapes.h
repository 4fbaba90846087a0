// Launches of the small test kernels ids, visit and rotate: their shapes, and what they should write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kdart/types.h"

namespace kdart::test {

struct Shape {
  Dim3 grid, block;
};

[[nodiscard]] inline std::uint32_t threads_of(const Shape& shape) {
  return static_cast<std::uint32_t>(shape.grid.threads() * shape.block.threads());
}

// What ids writes: for each thread its block's and its own index, then both dimensions, three words each.
[[nodiscard]] inline std::vector<std::uint32_t> ids_of(const Shape& shape) {
  std::vector<std::uint32_t> ids;
  for (std::uint32_t b = 0; b < shape.grid.threads(); ++b) {
    for (std::uint32_t t = 0; t < shape.block.threads(); ++t) {
      for (const auto& [i, dim] : {std::pair{b, shape.grid}, std::pair{t, shape.block}}) {
        ids.insert(ids.end(), {i % dim.x, i / dim.x % dim.y, i / dim.x / dim.y});
      }
      for (const Dim3 dim : {shape.grid, shape.block}) ids.insert(ids.end(), {dim.x, dim.y, dim.z});
    }
  }
  return ids;
}

// Threads whose rotation of `rounds` steps, in blocks of `threads`, went wrong.
[[nodiscard]] inline std::uint32_t count_wrong_rotations(std::span<const std::uint32_t> values, std::uint32_t threads,
                                                         std::uint32_t rounds) {
  std::uint32_t wrong = 0;
  for (std::uint32_t i = 0; i < values.size(); ++i) wrong += values[i] == (i % threads + rounds) % threads ? 0U : 1U;
  return wrong;
}

}  // namespace kdart::test
