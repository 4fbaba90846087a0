#include "kdart/bf16.h"

#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstdint>
#include <limits>

namespace kdart {
namespace {

float from_bits(std::uint32_t bits) {
  return std::bit_cast<float>(bits);
}

// Round to nearest even by looking at both neighbours: slow, and with no trick in it.
std::uint16_t nearest_even(std::uint32_t bits) {
  const auto down = static_cast<std::uint16_t>(bits >> 16);  // towards zero
  const auto rest = bits & 0xFFFFU;
  const bool up = rest > 0x8000U || (rest == 0x8000U && (down & 1U) != 0);
  return static_cast<std::uint16_t>(down + (up ? 1 : 0));  // the largest finite value plus one is infinity
}

TEST_CASE("bf16: every upper half converts to float and back unchanged") {
  std::uint32_t wrong = 0;
  for (std::uint32_t half = 0; half <= 0xFFFFU; ++half) {
    const bf16 x{static_cast<std::uint16_t>(half)};
    const float f = to_float(x);
    const bf16 back = to_bf16(f);
    if (std::isnan(f)) {
      // Stays a NaN, quiet, with its sign.
      if (!std::isnan(to_float(back)) || back.bits != (half | 0x0040U)) ++wrong;
    } else if (back != x) {
      ++wrong;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("bf16: every upper half rounds right with every kind of lower half") {
  constexpr std::uint32_t lower[] = {0x0000, 0x0001, 0x00FF, 0x4000, 0x7FFE, 0x7FFF, 0x8000,
                                     0x8001, 0x8002, 0xBFFF, 0xC000, 0xFFFE, 0xFFFF};
  std::uint32_t wrong = 0;
  std::uint32_t nans = 0;
  for (std::uint32_t half = 0; half <= 0xFFFFU; ++half) {
    for (const std::uint32_t low : lower) {
      const std::uint32_t bits = (half << 16) | low;
      const bf16 result = to_bf16(from_bits(bits));
      if (std::isnan(from_bits(bits))) {
        ++nans;
        // The usual "add 0x7FFF" turns 0x7FFFFFFF into zero and 0x7F800001 into infinity.
        if (!std::isnan(to_float(result)) || (result.bits >> 15) != (bits >> 31)) ++wrong;
      } else if (result.bits != nearest_even(bits)) {
        ++wrong;
      }
    }
  }
  CHECK(wrong == 0);
  CHECK(nans == 2 * (128 * 13 - 1));  // 128 upper halves of either sign, 13 lower ones, less the infinity
}

TEST_CASE("bf16: ties go to even, and what is too large becomes infinity") {
  CHECK(to_bf16(from_bits(0x3F808000)).bits == 0x3F80);  // a tie above an even one goes down
  CHECK(to_bf16(from_bits(0x3F818000)).bits == 0x3F82);  // above an odd one, up
  CHECK(to_bf16(from_bits(0x3F808001)).bits == 0x3F81);
  CHECK(to_bf16(from_bits(0x7F7F7FFF)).bits == 0x7F7F);  // the largest float that stays finite
  CHECK(to_bf16(from_bits(0x7F7F8000)).bits == 0x7F80);
  CHECK(to_bf16(std::numeric_limits<float>::max()).bits == 0x7F80);
  CHECK(to_bf16(-std::numeric_limits<float>::max()).bits == 0xFF80);
  CHECK(to_bf16(std::numeric_limits<float>::infinity()).bits == 0x7F80);
  CHECK(to_bf16(from_bits(0x00000001)).bits == 0x0000);  // denormals round like the rest
  CHECK(to_bf16(from_bits(0x00008001)).bits == 0x0001);
  CHECK(to_bf16(-0.0F).bits == 0x8000);
}

TEST_CASE("bf16: equality compares bits") {
  CHECK(to_bf16(0.0F) != to_bf16(-0.0F));
  const bf16 nan = to_bf16(std::numeric_limits<float>::quiet_NaN());
  CHECK(nan == nan);
}

TEST_CASE("bf16: both conversions run at compile time") {
  static_assert(to_bf16(1.0F).bits == 0x3F80);
  static_assert(to_float(bf16{0xC000}) == -2.0F);
  static_assert(to_bf16(to_float(bf16{0x7FC1})).bits == 0x7FC1);
  SUCCEED();
}

}  // namespace
}  // namespace kdart
