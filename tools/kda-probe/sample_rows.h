// Which rows of a long result are compared with the truth.
#pragma once

#include <cstdint>
#include <vector>

namespace kdart::probe {

// `count` of `tokens` rows, ascending, no row twice; all of them when there are no more. The first and the last come first
// of all, then the rows on both sides of the borders of the first two chunks, of the middle one and of the last whole one
// (chunks of 16), then pseudo-random ones; the same seed gives the same rows. `count` is at least 1.
[[nodiscard]] std::vector<std::uint64_t> sample_rows(std::uint64_t tokens, std::uint64_t count, std::uint64_t seed);

}  // namespace kdart::probe
