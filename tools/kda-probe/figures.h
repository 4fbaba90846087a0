// How far one run of a layer is from the truth, and whether that passes.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kdart/bf16.h"
#include "modes.h"
#include "tools/reference/cases.h"

namespace kdart::probe {

// What a run left behind, on the host.
struct RunResult {
  std::vector<bf16> out;         // [tokens, hidden_size]
  std::vector<float> recurrent;  // [H, D, D] key-major
  std::vector<float> conv;       // [3 * qkv, 4]; slot 0 means nothing
  double seconds = 0.0;          // from the first call to the end of its stream

  [[nodiscard]] std::string out_sha256() const;
  // Of the recurrent state, and after it the window's slots 1..3.
  [[nodiscard]] std::string state_sha256() const;
};

// NaN stands for a figure that is not finite.
struct Figures {
  double out_rel_l2 = 0.0;
  double recurrent_rel_l2 = 0.0;
  double conv_max_excess = 0.0;
  bool finite = true;  // every element of out and of both states (the window's slot 0 apart)
};

// `out` is compared in the rows that the truth has; it must be finite in all.
[[nodiscard]] Figures measure(const RunResult& run, const reference::Case& truth);
// Per figure the worse of the two; NaN is worse than any number.
[[nodiscard]] Figures worse(const Figures& a, const Figures& b) noexcept;

// True when out and both states agree in every bit, the window's slot 0 apart.
[[nodiscard]] bool bits_equal(const RunResult& a, const RunResult& b) noexcept;

struct OutBounds {
  double out = 0.0;
  double recurrent = 0.0;
};
// Those of `bounds` that hold in this mode.
[[nodiscard]] OutBounds bounds_of(Mode mode, const reference::Bounds& bounds) noexcept;

// True when all is finite, each figure is within its bound and no comparison of bits that was made failed.
[[nodiscard]] bool passes(const Figures& figures, const OutBounds& bounds, std::optional<bool> bits_equal_decode,
                          std::optional<bool> bits_equal_recurrent) noexcept;

}  // namespace kdart::probe
