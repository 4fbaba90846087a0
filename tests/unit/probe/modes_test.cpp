#include "modes.h"

#include <catch2/catch_test_macros.hpp>
#include <numeric>

namespace kdart::probe {
namespace {

std::uint32_t total(const Pieces& pieces) {
  return std::accumulate(pieces.begin(), pieces.end(), 0U,
                         [](std::uint32_t sum, const Piece& p) { return sum + p.tokens; });
}

std::vector<std::uint32_t> sizes(const Pieces& pieces) {
  std::vector<std::uint32_t> result;
  for (const Piece& piece : pieces) result.push_back(piece.tokens);
  return result;
}

std::vector<std::uint32_t> cuts(std::uint32_t tokens) {
  std::vector<std::uint32_t> result;
  for (const Pieces& pieces : plan(Mode::prefill_split, tokens)) {
    REQUIRE(pieces.size() == 2);
    result.push_back(pieces.front().tokens);
  }
  return result;
}

TEST_CASE("every mode covers the whole sequence, whatever its length", "[probe]") {
  for (const Mode mode : all_modes()) {
    for (std::uint32_t tokens = 0; tokens <= 130; ++tokens) {
      for (const Pieces& pieces : plan(mode, tokens)) CHECK(total(pieces) == tokens);
      const bool too_short = tokens == 0 || (mode == Mode::prefill_split && tokens == 1);
      CHECK(plan(mode, tokens).empty() == too_short);
    }
  }
}

TEST_CASE("decode_k cycles through its widths and cuts the last one short", "[probe]") {
  using Sizes = std::vector<std::uint32_t>;
  CHECK(sizes(plan(Mode::decode_k, 1).front()) == Sizes{1});
  CHECK(sizes(plan(Mode::decode_k, 17).front()) == Sizes{1, 2, 3, 5, 6});
  CHECK(sizes(plan(Mode::decode_k, 56).front()) == Sizes{1, 2, 3, 5, 8, 16, 21});
  CHECK(sizes(plan(Mode::decode_k, 60).front()) == Sizes{1, 2, 3, 5, 8, 16, 21, 1, 2, 1});
}

TEST_CASE("prefill_split cuts at 1, 16, 17 and before the last token, each once and inside", "[probe]") {
  using Cuts = std::vector<std::uint32_t>;
  CHECK(cuts(1).empty());
  CHECK(cuts(2) == Cuts{1});
  CHECK(cuts(3) == Cuts{1, 2});
  CHECK(cuts(16) == Cuts{1, 15});
  CHECK(cuts(17) == Cuts{1, 16});
  CHECK(cuts(18) == Cuts{1, 16, 17});
  CHECK(cuts(100) == Cuts{1, 16, 17, 99});
}

TEST_CASE("decode and prefill are what they say", "[probe]") {
  CHECK(plan(Mode::decode, 3) == std::vector<Pieces>{{{Call::decode, 1}, {Call::decode, 1}, {Call::decode, 1}}});
  CHECK(plan(Mode::prefill, 3) == std::vector<Pieces>{{{Call::prefill, 3}}});
}

TEST_CASE("a workspace for the longest piece holds every piece", "[probe]") {
  for (const Mode mode : all_modes()) {
    for (std::uint32_t tokens = 1; tokens <= 130; ++tokens) {
      for (const Pieces& pieces : plan(mode, tokens)) {
        for (const Piece& piece : pieces) CHECK(piece.tokens <= longest_piece({mode}, tokens));
      }
    }
  }
  CHECK(longest_piece({Mode::decode, Mode::decode_k}, 1000) == max_decode_k);
  CHECK(longest_piece(all_modes(), 1000) == 1000);
}

TEST_CASE("modes are spelled one way", "[probe]") {
  for (const Mode mode : all_modes()) CHECK(parse_mode(to_string(mode)) == mode);
  CHECK_FALSE(parse_mode("all"));
  CHECK_FALSE(parse_mode(""));
  CHECK_FALSE(parse_mode("Decode"));
}

}  // namespace
}  // namespace kdart::probe
