#include "figures.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace kdart::probe {
namespace {

constexpr std::size_t window = 4;  // slots per channel of a convolution state

bool all_finite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
}

bool window_finite(std::span<const float> conv) {
  for (std::size_t i = 0; i < conv.size(); ++i) {
    if (i % window != 0 && !std::isfinite(conv[i])) return false;
  }
  return true;
}

double worse(double a, double b) noexcept {
  return std::isnan(a) || std::isnan(b) ? std::numeric_limits<double>::quiet_NaN() : std::max(a, b);
}

bool same_bits(float a, float b) noexcept {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

}  // namespace

Figures measure(const RunResult& run, const reference::Case& truth) {
  std::vector<float> out(run.out.size());
  std::transform(run.out.begin(), run.out.end(), out.begin(), [](bf16 x) { return to_float(x); });
  Figures figures;
  figures.out_rel_l2 = reference::relative_l2(out, truth.out);
  figures.recurrent_rel_l2 = reference::relative_l2(run.recurrent, truth.recurrent_out);
  figures.conv_max_excess = reference::conv_max_excess(run.conv, truth.conv_out);
  figures.finite = all_finite(out) && all_finite(run.recurrent) && window_finite(run.conv);
  return figures;
}

Figures worse(const Figures& a, const Figures& b) noexcept {
  return {worse(a.out_rel_l2, b.out_rel_l2), worse(a.recurrent_rel_l2, b.recurrent_rel_l2),
          worse(a.conv_max_excess, b.conv_max_excess), a.finite && b.finite};
}

bool bits_equal(const RunResult& a, const RunResult& b) noexcept {
  if (a.out != b.out || a.conv.size() != b.conv.size()) return false;
  if (!std::equal(a.recurrent.begin(), a.recurrent.end(), b.recurrent.begin(), b.recurrent.end(), same_bits)) {
    return false;
  }
  for (std::size_t i = 0; i < a.conv.size(); ++i) {
    if (i % window != 0 && !same_bits(a.conv[i], b.conv[i])) return false;
  }
  return true;
}

OutBounds bounds_of(Mode mode, const reference::Bounds& bounds) noexcept {
  if (is_prefill(mode)) return {bounds.prefill_out, bounds.prefill_state};
  return {bounds.decode_out, bounds.decode_state};
}

bool passes(const Figures& figures, const OutBounds& bounds, std::optional<bool> bits_equal_decode,
            std::optional<bool> bits_equal_recurrent) noexcept {
  // A comparison with NaN is false, so a figure that is not a number fails here too.
  return figures.finite && figures.out_rel_l2 <= bounds.out && figures.recurrent_rel_l2 <= bounds.recurrent &&
         figures.conv_max_excess <= 0.0 && bits_equal_decode.value_or(true) && bits_equal_recurrent.value_or(true);
}

}  // namespace kdart::probe
