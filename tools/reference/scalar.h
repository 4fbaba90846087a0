// The scalar functions of the layer in float64, written so that no argument overflows into NaN.
#pragma once

#include <cmath>

#include "kdart/config.h"

namespace kdart::reference {

[[nodiscard]] inline double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}
[[nodiscard]] inline double silu(double x) {
  return x / (1.0 + std::exp(-x));
}
[[nodiscard]] inline double softplus(double x) {
  return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}

// The log-decay of one key channel.
[[nodiscard]] inline double log_decay(GateLaw law, double lower_bound, double a_log, double f, double dt_bias) {
  const double scale = std::exp(a_log);
  return law == GateLaw::softplus ? -scale * softplus(f + dt_bias) : lower_bound * sigmoid(scale * (f + dt_bias));
}

}  // namespace kdart::reference
