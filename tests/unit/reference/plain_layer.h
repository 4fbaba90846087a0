// kda.md section 1 as it is written there, sum by sum and token by token: what the blocked and threaded reference must equal.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "tools/reference/reference.h"
#include "tools/reference/scalar.h"

namespace kdart::test {

class PlainLayer {
 public:
  explicit PlainLayer(const KdaWeights& weights) : w_(weights), c_(weights.config) {}

  // One token; the state is updated.
  std::vector<double> token(std::span<const bf16> hidden, reference::State& state) const {
    const std::vector<double> x = wide(hidden);
    const std::size_t dim = c_.head_dim;
    std::vector<double> q = convolved(dot(w_.q_proj, x), w_.q_conv, &state.conv[0]);
    std::vector<double> k = convolved(dot(w_.k_proj, x), w_.k_conv, &state.conv[4 * c_.qkv()]);
    const std::vector<double> v = convolved(dot(w_.v_proj, x), w_.v_conv, &state.conv[8 * c_.qkv()]);
    const std::vector<double> f = dot(w_.f_b_proj, dot(w_.f_a_proj, x));
    const std::vector<double> b = dot(w_.b_proj, x);
    std::vector<double> z = c_.output_gate_rank == 0 ? dot(w_.g_proj, x) : dot(w_.g_b_proj, dot(w_.g_a_proj, x));
    for (std::size_t i = 0; i < w_.g_b_bias.size(); ++i) z[i] += wide(w_.g_b_bias[i]);
    std::vector<double> y(c_.qkv());
    for (std::size_t h = 0; h < c_.heads; ++h) {
      const std::size_t at = h * dim;
      scale_to_unit(&q[at]);
      scale_to_unit(&k[at]);
      std::vector<double> o = delta(h, &q[at], &k[at], &v[at], &f[at], reference::sigmoid(b[h]), state);
      double squares = 0;
      for (const double value : o) squares += value * value;
      const double root = std::sqrt(squares / static_cast<double>(dim) + static_cast<double>(c_.rms_norm_eps));
      for (std::size_t i = 0; i < dim; ++i) {
        y[at + i] = o[i] / root * wide(w_.o_norm[i]) * reference::sigmoid(z[at + i]);
      }
    }
    return dot(w_.o_proj, y);
  }

 private:
  static double wide(bf16 x) { return static_cast<double>(to_float(x)); }
  static std::vector<double> wide(std::span<const bf16> x) {
    std::vector<double> y;
    for (const bf16 value : x) y.push_back(wide(value));
    return y;
  }

  static std::vector<double> dot(std::span<const bf16> weight, const std::vector<double>& x) {
    std::vector<double> y(weight.size() / x.size());
    for (std::size_t r = 0; r < y.size(); ++r) {
      for (std::size_t c = 0; c < x.size(); ++c) y[r] += wide(weight[r * x.size() + c]) * x[c];
    }
    return y;
  }

  static std::vector<double> convolved(std::vector<double> x, std::span<const bf16> taps, double* window) {
    for (std::size_t c = 0; c < x.size(); ++c) {
      double* w = window + 4 * c;
      for (std::size_t j = 0; j < 3; ++j) w[j] = w[j + 1];
      w[3] = x[c];
      double sum = 0;
      for (std::size_t j = 0; j < 4; ++j) sum += w[j] * wide(taps[4 * c + j]);
      x[c] = reference::silu(sum);
    }
    return x;
  }

  void scale_to_unit(double* x) const {
    double squares = 0;
    for (std::size_t i = 0; i < c_.head_dim; ++i) squares += x[i] * x[i];
    const double root = std::sqrt(squares + static_cast<double>(c_.l2_eps));
    for (std::size_t i = 0; i < c_.head_dim; ++i) x[i] /= root;
  }

  std::vector<double> delta(std::size_t head, const double* q, const double* k, const double* v, const double* f,
                            double beta, reference::State& state) const {
    const std::size_t dim = c_.head_dim;
    double* s = &state.recurrent[head * dim * dim];
    for (std::size_t i = 0; i < dim; ++i) {
      const double g = reference::log_decay(c_.gate_law, static_cast<double>(c_.gate_lower_bound),
                                            static_cast<double>(w_.a_log[head]), f[i],
                                            static_cast<double>(w_.dt_bias[head * dim + i]));
      for (std::size_t j = 0; j < dim; ++j) s[i * dim + j] *= std::exp(g);
    }
    std::vector<double> o(dim);
    for (std::size_t j = 0; j < dim; ++j) {
      double seen = 0;
      for (std::size_t i = 0; i < dim; ++i) seen += s[i * dim + j] * k[i];
      for (std::size_t i = 0; i < dim; ++i) s[i * dim + j] += k[i] * beta * (v[j] - seen);
      for (std::size_t i = 0; i < dim; ++i) o[j] += s[i * dim + j] * q[i] / std::sqrt(static_cast<double>(dim));
    }
    return o;
  }

  const KdaWeights& w_;
  const KdaConfig& c_;
};

}  // namespace kdart::test
