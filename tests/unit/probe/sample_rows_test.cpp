#include "sample_rows.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>

namespace kdart::probe {
namespace {

using Rows = std::vector<std::uint64_t>;

bool has(const Rows& rows, std::uint64_t row) {
  return std::binary_search(rows.begin(), rows.end(), row);
}

TEST_CASE("as many rows are sampled as were asked for, each once, in order, inside", "[probe]") {
  for (const std::uint64_t tokens : {1U, 2U, 15U, 16U, 17U, 33U, 1000U, 65536U}) {
    for (const std::uint64_t count : {1U, 2U, 3U, 10U, 64U, 999U, 70000U}) {
      INFO(count << " of " << tokens);
      const Rows rows = sample_rows(tokens, count, 5);
      CHECK(rows.size() == std::min(tokens, count));
      CHECK(std::adjacent_find(rows.begin(), rows.end(), std::greater_equal<>()) == rows.end());
      CHECK(rows.back() < tokens);
    }
  }
}

TEST_CASE("the first and the last row and those at chunk borders are among the sampled", "[probe]") {
  const Rows rows = sample_rows(65536, 64, 1);
  for (const std::uint64_t row : {0U, 15U, 16U, 31U, 32U, 32767U, 32768U, 65519U, 65520U, 65535U})
    CHECK(has(rows, row));
  CHECK(sample_rows(100, 1, 1) == Rows{0});
  CHECK(sample_rows(100, 2, 1) == Rows{0, 99});
  CHECK(sample_rows(100, 4, 1) == Rows{0, 15, 16, 99});
}

TEST_CASE("the seed alone decides which other rows are sampled", "[probe]") {
  CHECK(sample_rows(8192, 64, 1) == sample_rows(8192, 64, 1));
  CHECK(sample_rows(8192, 64, 1) != sample_rows(8192, 64, 2));
  CHECK(sample_rows(8192, 8000, 1) != sample_rows(8192, 8000, 2));
}

}  // namespace
}  // namespace kdart::probe
