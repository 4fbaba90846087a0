// The KDA layer in float64: the truth that every backend and kernel is judged against. A library for tools and tests,
// written for reading, never used by the layer itself.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kdart/bf16.h"
#include "kdart/weights.h"

namespace kdart::reference {

// Both states of one sequence, in float64.
struct State {
  std::vector<double> recurrent;  // [H, D, D], key-major: S[(h * D + k) * D + v]
  std::vector<double> conv;       // [3 * qkv, 4], channels q | k | v, oldest first; slot 0 is shifted out unread
};
[[nodiscard]] State zero_state(const KdaConfig& config);

// Runs `tokens` tokens of one sequence through the layer: kda.md section 1 with no rounding anywhere.
//   hidden  bf16 [tokens, hidden_size]
//   state   read and updated
// Returns float64 [tokens, hidden_size]. Token by token recurrence; on all cores; a token's bits do not depend on how a
// sequence is cut into calls. Throws Error(invalid_argument) for a length that does not fit.
[[nodiscard]] std::vector<double> forward(const KdaWeights& weights, std::span<const bf16> hidden, std::uint64_t tokens,
                                          State& state);

// Called with the number of tokens that went through the layer since the last call.
using OnTokens = std::function<void(std::uint64_t tokens)>;

// The same for `rows` (ascending, below `tokens`) of the result alone, which spares the others what only they need: for
// prompts whose whole result would be too long. Beside hidden and the result it takes some hundred megabytes at most,
// whatever `tokens` is. Returns [rows.size(), hidden_size], and the state after all tokens.
[[nodiscard]] std::vector<double> forward_rows(const KdaWeights& weights, std::span<const bf16> hidden,
                                               std::uint64_t tokens, State& state, std::span<const std::uint64_t> rows,
                                               const OnTokens& on_tokens = {});

}  // namespace kdart::reference
