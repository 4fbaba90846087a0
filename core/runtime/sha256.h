// SHA-256 (FIPS 180-4).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace kdart::detail {

using Sha256Digest = std::array<std::uint8_t, 32>;

[[nodiscard]] Sha256Digest sha256(std::span<const std::byte> data) noexcept;
// As 64 lower-case hex digits.
[[nodiscard]] std::string sha256_hex(std::span<const std::byte> data);

}  // namespace kdart::detail
