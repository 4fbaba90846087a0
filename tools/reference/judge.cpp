#include "tools/reference/judge.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/runtime/format.h"
#include "kdart/error.h"
#include "tools/reference/kernels_reference.h"

namespace kdart::reference {
namespace {

void check_lengths(std::size_t x, std::size_t truth) {
  if (x != truth) {
    throw Error(ErrorCode::invalid_argument,
                detail::format("a result of {} elements is compared with a truth of {}", x, truth));
  }
}

// The bf16 values in order as whole numbers, both zeros at 0, so that neighbours differ by 1.
std::int32_t rank(bf16 x) {
  const std::int32_t magnitude = x.bits & 0x7FFF;
  return (x.bits & 0x8000) != 0 ? -magnitude : magnitude;
}

}  // namespace

std::string Comparison::text() const {
  return detail::format("{}: {} of {} elements outside, {} allowed; worst at {}: {} for {}, ratio {:.3g}, {} ulp{}",
                        pass ? "pass" : "FAIL", outside, elements, outside_allowed, worst_index, worst_value,
                        worst_truth, worst_ratio, worst_ulps, finite ? "" : "; not finite");
}

double largest_magnitude(std::initializer_list<std::span<const float>> inputs) {
  double largest = 0;
  for (const auto& input : inputs) {
    for (const float value : input) {
      if (std::isfinite(value)) largest = std::max(largest, std::abs(static_cast<double>(value)));
    }
  }
  return largest;
}

Comparison compare_f32(std::span<const float> x, std::span<const double> truth, double largest_input) {
  check_lengths(x.size(), truth.size());
  double largest = std::max(1.0, largest_input);
  for (const double t : truth) largest = std::max(largest, std::abs(t));
  Comparison result;
  result.elements = x.size();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double value = static_cast<double>(x[i]);
    const bool finite = std::isfinite(value) && std::isfinite(truth[i]);
    const double allowed = std::max(2e-6 * largest, 1e-4 * std::abs(truth[i]));
    const double ratio = finite ? std::abs(value - truth[i]) / allowed : std::numeric_limits<double>::infinity();
    result.finite = result.finite && finite;
    if (!(ratio <= 1)) ++result.outside;
    if (i == 0 || ratio > result.worst_ratio) {
      result.worst_ratio = ratio;
      result.worst_index = i;
      result.worst_value = value;
      result.worst_truth = truth[i];
    }
  }
  result.pass = result.elements > 0 && result.finite && result.outside == 0;
  return result;
}

Comparison compare_bf16(std::span<const bf16> x, std::span<const double> truth, Denormals denormals) {
  check_lengths(x.size(), truth.size());
  Comparison result;
  result.elements = x.size();
  result.outside_allowed = std::max<std::size_t>(1, x.size() / 200);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bf16 rounded = round_to_bf16(truth[i]);
    const double value = static_cast<double>(to_float(x[i]));
    const double expected = static_cast<double>(to_float(rounded));
    const bool finite = std::isfinite(value) ? !std::isnan(expected) : value == expected;
    constexpr double smallest_normal = 0x1p-126;  // of f32
    if (denormals == Denormals::may_flush && value == 0 && std::abs(truth[i]) < smallest_normal) continue;
    const auto ulps = finite ? static_cast<std::uint32_t>(std::abs(rank(x[i]) - rank(rounded)))
                             : std::numeric_limits<std::uint32_t>::max();
    result.finite = result.finite && finite;
    if (ulps != 0) ++result.outside;
    if (i == 0 || ulps > result.worst_ulps) {
      result.worst_ulps = ulps;
      result.worst_index = i;
      result.worst_value = value;
      result.worst_truth = expected;
    }
  }
  result.pass =
      result.elements > 0 && result.finite && result.worst_ulps <= 1 && result.outside <= result.outside_allowed;
  return result;
}

}  // namespace kdart::reference
