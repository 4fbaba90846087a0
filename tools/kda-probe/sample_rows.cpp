#include "sample_rows.h"

#include <numeric>
#include <random>
#include <set>

namespace kdart::probe {
namespace {

constexpr std::uint64_t chunk = 16;  // what prefill takes by default; 32 is a multiple

// The rows where something is likelier to be wrong, the likeliest first. Some may lie past the end.
std::vector<std::uint64_t> edges(std::uint64_t tokens) {
  std::vector<std::uint64_t> rows{0, tokens - 1};
  for (const std::uint64_t border : {chunk, 2 * chunk, tokens / 2 / chunk * chunk, (tokens - 1) / chunk * chunk}) {
    if (border > 0) rows.insert(rows.end(), {border - 1, border});
  }
  return rows;
}

}  // namespace

std::vector<std::uint64_t> sample_rows(std::uint64_t tokens, std::uint64_t count, std::uint64_t seed) {
  if (count >= tokens) {
    std::vector<std::uint64_t> all(tokens);
    std::iota(all.begin(), all.end(), std::uint64_t{0});
    return all;
  }
  std::set<std::uint64_t> rows;
  for (const std::uint64_t row : edges(tokens)) {
    if (row < tokens && rows.size() < count) rows.insert(row);
  }
  // Not the library's distributions: they differ from one to the next. Where most rows are wanted, those left out are
  // drawn instead of those kept.
  std::mt19937_64 random(seed);
  if (count > tokens / 2) {
    std::set<std::uint64_t> others;
    while (others.size() < tokens - count) {
      const std::uint64_t row = random() % tokens;
      if (!rows.contains(row)) others.insert(row);
    }
    for (std::uint64_t row = 0; row < tokens; ++row) {
      if (!others.contains(row)) rows.insert(row);
    }
  }
  while (rows.size() < count) rows.insert(random() % tokens);
  return {rows.begin(), rows.end()};
}

}  // namespace kdart::probe
