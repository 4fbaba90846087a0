#include "modes.h"

#include <algorithm>
#include <array>
#include <set>

namespace kdart::probe {
namespace {

// Widths around the powers of two and the row counts that kernels treat apart (1, 2..16, more).
constexpr std::array<std::uint32_t, 7> decode_k_cycle{1, 2, 3, 5, 8, 16, max_decode_k};

Pieces decode_k_pieces(std::uint32_t tokens) {
  Pieces pieces;
  for (std::size_t i = 0; tokens > 0; ++i) {
    const std::uint32_t k = std::min(decode_k_cycle[i % decode_k_cycle.size()], tokens);
    pieces.push_back({Call::decode_k, k});
    tokens -= k;
  }
  return pieces;
}

std::vector<Pieces> split_pieces(std::uint32_t tokens) {
  std::set<std::uint32_t> cuts;
  for (const std::uint32_t cut : {1U, 16U, 17U, tokens - 1}) {
    if (cut > 0 && cut < tokens) cuts.insert(cut);
  }
  std::vector<Pieces> runs;
  runs.reserve(cuts.size());
  for (const std::uint32_t cut : cuts) runs.push_back({{Call::prefill, cut}, {Call::prefill, tokens - cut}});
  return runs;
}

}  // namespace

std::string_view to_string(Mode mode) noexcept {
  switch (mode) {
    case Mode::decode:
      return "decode";
    case Mode::decode_k:
      return "decode_k";
    case Mode::prefill:
      return "prefill";
    case Mode::prefill_split:
      return "prefill_split";
  }
  return "unknown";
}

const std::vector<Mode>& all_modes() {
  static const std::vector<Mode> modes{Mode::decode, Mode::decode_k, Mode::prefill, Mode::prefill_split};
  return modes;
}

std::optional<Mode> parse_mode(std::string_view text) noexcept {
  for (const Mode mode : {Mode::decode, Mode::decode_k, Mode::prefill, Mode::prefill_split}) {
    if (text == to_string(mode)) return mode;
  }
  return std::nullopt;
}

std::vector<Pieces> plan(Mode mode, std::uint32_t tokens) {
  if (tokens == 0) return {};
  switch (mode) {
    case Mode::decode:
      return {Pieces(tokens, Piece{Call::decode, 1})};
    case Mode::decode_k:
      return {decode_k_pieces(tokens)};
    case Mode::prefill:
      return {Pieces{{Call::prefill, tokens}}};
    case Mode::prefill_split:
      return split_pieces(tokens);
  }
  return {};
}

std::uint32_t longest_piece(const std::vector<Mode>& modes, std::uint32_t tokens) {
  if (std::any_of(modes.begin(), modes.end(), is_prefill)) return tokens;
  return std::min(tokens, max_decode_k);
}

}  // namespace kdart::probe
