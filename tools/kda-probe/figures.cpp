#include "figures.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/runtime/sha256.h"

namespace kdart::probe {
namespace {

constexpr std::size_t window = 4;  // slots per channel of a convolution state

bool all_finite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
}
bool all_finite(std::span<const bf16> values) {
  return std::all_of(values.begin(), values.end(), [](bf16 x) { return std::isfinite(to_float(x)); });
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

// The rows that the truth has, in f32.
std::vector<float> rows_of(std::span<const bf16> out, const reference::Case& truth) {
  std::vector<float> result;
  result.reserve(truth.out.size());
  const auto append = [&](std::span<const bf16> values) {
    for (const bf16 x : values) result.push_back(to_float(x));
  };
  if (truth.rows.empty()) append(out);
  const std::size_t width = truth.rows.empty() ? 0 : truth.out.size() / truth.rows.size();
  for (const std::uint64_t row : truth.rows) append(out.subspan(row * width, width));
  return result;
}

}  // namespace

std::string RunResult::out_sha256() const {
  return detail::sha256_hex(std::as_bytes(std::span(out)));
}

std::string RunResult::state_sha256() const {
  std::vector<float> values = recurrent;
  values.reserve(recurrent.size() + conv.size());
  for (std::size_t i = 0; i < conv.size(); ++i) {
    if (i % window != 0) values.push_back(conv[i]);
  }
  return detail::sha256_hex(std::as_bytes(std::span(values)));
}

Figures measure(const RunResult& run, const reference::Case& truth) {
  Figures figures;
  figures.out_rel_l2 = reference::relative_l2(rows_of(run.out, truth), truth.out);
  figures.recurrent_rel_l2 = reference::relative_l2(run.recurrent, truth.recurrent_out);
  figures.conv_max_excess = reference::conv_max_excess(run.conv, truth.conv_out);
  figures.finite = all_finite(run.out) && all_finite(run.recurrent) && window_finite(run.conv);
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
