// The ways in which the probe runs a sequence through a layer, each as a list of calls.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace kdart::probe {

enum class Mode : std::uint8_t { decode, decode_k, prefill, prefill_split };
[[nodiscard]] std::string_view to_string(Mode mode) noexcept;
[[nodiscard]] const std::vector<Mode>& all_modes();
// The mode of this spelling; none for any other text, "all" included.
[[nodiscard]] std::optional<Mode> parse_mode(std::string_view text) noexcept;
[[nodiscard]] constexpr bool is_prefill(Mode mode) noexcept {
  return mode == Mode::prefill || mode == Mode::prefill_split;
}

enum class Call : std::uint8_t { decode, decode_k, prefill };

// One call of the layer on the next `tokens` tokens of the sequence.
struct Piece {
  Call call;
  std::uint32_t tokens;
  friend bool operator==(const Piece&, const Piece&) = default;
};
using Pieces = std::vector<Piece>;  // covers the whole sequence, in order

// Most tokens that one decode_k call of the probe takes.
inline constexpr std::uint32_t max_decode_k = 21;

// How often a mode runs a sequence of `tokens` tokens, and in which pieces: once, except for prefill_split, which runs it
// once per cut (before token 1, 16, 17 and the last one, where those lie inside). Empty when the sequence is too short.
[[nodiscard]] std::vector<Pieces> plan(Mode mode, std::uint32_t tokens);

// The longest piece that any of the modes passes to the layer: what a workspace must hold.
[[nodiscard]] std::uint32_t longest_piece(const std::vector<Mode>& modes, std::uint32_t tokens);

}  // namespace kdart::probe
