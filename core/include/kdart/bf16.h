// bfloat16 as a storage type, and its two conversions.
#pragma once

#include <bit>
#include <cstdint>

namespace kdart {

// The upper 16 bits of an IEEE-754 binary32. A storage type: arithmetic happens in float.
struct bf16 {
  std::uint16_t bits = 0;
  friend constexpr bool operator==(bf16, bf16) = default;  // compares bits: +0 and -0 differ, equal NaNs are equal
};
static_assert(sizeof(bf16) == 2);

[[nodiscard]] constexpr float to_float(bf16 x) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}

// Round to nearest, ties to even. A value beyond the largest bf16 becomes infinity; a NaN stays a NaN (quiet, with its
// sign and upper payload), which the usual "add 0x7FFF" does not promise.
[[nodiscard]] constexpr bf16 to_bf16(float x) noexcept {
  const auto u = std::bit_cast<std::uint32_t>(x);
  if ((u & 0x7FFFFFFFu) > 0x7F800000u) return bf16{static_cast<std::uint16_t>((u >> 16) | 0x0040u)};
  return bf16{static_cast<std::uint16_t>((u + 0x7FFFu + ((u >> 16) & 1u)) >> 16)};
}

}  // namespace kdart
