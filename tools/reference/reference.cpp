#include "tools/reference/reference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "core/runtime/format.h"
#include "kdart/error.h"
#include "tools/reference/scalar.h"

namespace kdart::reference {
namespace {

constexpr std::size_t block_tokens = 64;  // tokens in flight: bounds the memory of long sequences
constexpr std::size_t lanes = 8;          // tokens that share one pass over a weight row

void check_length(std::string_view name, std::size_t found, std::uint64_t expected) {
  if (found != expected) {
    throw Error(ErrorCode::invalid_argument,
                detail::format("reference::forward: {} has {} elements; expected {}", name, found, expected));
  }
}

// x [tokens, columns] regrouped as [tokens / lanes][columns][lanes], the last group filled up with zeros.
std::vector<double> in_lanes(std::span<const double> x, std::size_t tokens, std::size_t columns) {
  std::vector<double> tiles((tokens + lanes - 1) / lanes * columns * lanes);
  for (std::size_t t = 0; t < tokens; ++t) {
    double* tile = tiles.data() + t / lanes * columns * lanes + t % lanes;
    for (std::size_t c = 0; c < columns; ++c) tile[c * lanes] = x[t * columns + c];
  }
  return tiles;
}

// Two rows of the weight against one group of tokens: plain sums, column by column.
using Sums = std::array<double, 2 * lanes>;
Sums row_pair(const double* row0, const double* row1, const double* tile, std::size_t columns) {
  Sums sums{};
  for (std::size_t c = 0; c < columns; ++c) {
    for (std::size_t l = 0; l < lanes; ++l) sums[l] += row0[c] * tile[c * lanes + l];
    for (std::size_t l = 0; l < lanes; ++l) sums[lanes + l] += row1[c] * tile[c * lanes + l];
  }
  return sums;
}

// x [tokens, columns] times the transpose of weight [rows, columns]; bias [rows] or empty. Each weight row is widened
// once, for all tokens: the weights are never held in float64 as a whole.
std::vector<double> project(std::span<const double> x, std::size_t tokens, std::span<const bf16> weight,
                            std::size_t rows, std::span<const bf16> bias = {}) {
  const std::size_t columns = weight.size() / rows;
  const std::vector<double> tiles = in_lanes(x, tokens, columns);
  std::vector<double> y(tokens * rows);
  std::vector<double> pair(2 * columns);
  for (std::size_t r = 0; r < rows; r += 2) {
    const std::size_t height = std::min<std::size_t>(2, rows - r);
    for (std::size_t i = 0; i < height * columns; ++i) pair[i] = static_cast<double>(to_float(weight[r * columns + i]));
    for (std::size_t first = 0; first < tokens; first += lanes) {
      const Sums sums = row_pair(pair.data(), pair.data() + columns, tiles.data() + first * columns, columns);
      for (std::size_t i = 0; i < height; ++i) {
        const double offset = bias.empty() ? 0.0 : static_cast<double>(to_float(bias[r + i]));
        for (std::size_t l = 0; l < lanes && first + l < tokens; ++l) {
          y[(first + l) * rows + r + i] = sums[i * lanes + l] + offset;
        }
      }
    }
  }
  return y;
}

// Replaces x [tokens, qkv] by silu(conv(x)); `window` is this third of the state's channels.
void convolve(std::span<double> x, std::size_t tokens, std::span<const bf16> taps, double* window) {
  const std::size_t channels = x.size() / tokens;
  for (std::size_t c = 0; c < channels; ++c) {
    double* w = window + 4 * c;
    for (std::size_t t = 0; t < tokens; ++t) {
      w[0] = w[1], w[1] = w[2], w[2] = w[3], w[3] = x[t * channels + c];
      double sum = 0;
      for (std::size_t j = 0; j < 4; ++j) sum += w[j] * static_cast<double>(to_float(taps[4 * c + j]));
      x[t * channels + c] = silu(sum);
    }
  }
}

void normalise_heads(std::span<double> x, std::size_t head_dim, double eps) {
  for (std::size_t first = 0; first < x.size(); first += head_dim) {
    const auto head = x.subspan(first, head_dim);
    double squares = 0;
    for (const double value : head) squares += value * value;
    for (double& value : head) value /= std::sqrt(squares + eps);
  }
}

// One head, one token: S [D, D] key-major.
void delta_step(double* state, std::size_t dim, const double* q, const double* k, const double* v, const double* g,
                double beta, double* out) {
  std::vector<double> d(dim, 0.0);
  for (std::size_t i = 0; i < dim; ++i) {
    const double decay = std::exp(g[i]);
    for (std::size_t j = 0; j < dim; ++j) {
      state[i * dim + j] *= decay;
      d[j] += state[i * dim + j] * k[i];
    }
  }
  for (std::size_t j = 0; j < dim; ++j) d[j] = beta * (v[j] - d[j]);
  std::fill(out, out + dim, 0.0);
  for (std::size_t i = 0; i < dim; ++i) {
    for (std::size_t j = 0; j < dim; ++j) {
      state[i * dim + j] += k[i] * d[j];
      out[j] += state[i * dim + j] * q[i];
    }
  }
  for (std::size_t j = 0; j < dim; ++j) out[j] /= std::sqrt(static_cast<double>(dim));
}

// The layer over at most block_tokens tokens.
class Block {
 public:
  Block(const KdaWeights& weights, std::span<const bf16> hidden, std::size_t tokens)
      : w_(weights), c_(weights.config), tokens_(tokens), x_(hidden.size()) {
    std::transform(hidden.begin(), hidden.end(), x_.begin(), [](bf16 h) { return static_cast<double>(to_float(h)); });
  }

  std::vector<double> run(State& state) {
    front_end(state);
    recurrence(state);
    norm_and_gate();
    return project(core_, tokens_, w_.o_proj, c_.hidden_size);
  }

 private:
  void front_end(State& state) {
    const std::size_t qkv = c_.qkv();
    q_ = project(x_, tokens_, w_.q_proj, qkv);
    k_ = project(x_, tokens_, w_.k_proj, qkv);
    v_ = project(x_, tokens_, w_.v_proj, qkv);
    convolve(q_, tokens_, w_.q_conv, state.conv.data());
    convolve(k_, tokens_, w_.k_conv, state.conv.data() + 4 * qkv);
    convolve(v_, tokens_, w_.v_conv, state.conv.data() + 8 * qkv);
    normalise_heads(q_, c_.head_dim, static_cast<double>(c_.l2_eps));
    normalise_heads(k_, c_.head_dim, static_cast<double>(c_.l2_eps));
    beta_ = project(x_, tokens_, w_.b_proj, c_.heads);
    for (double& b : beta_) b = sigmoid(b);
    gate_ = project(project(x_, tokens_, w_.f_a_proj, c_.decay_rank), tokens_, w_.f_b_proj, qkv);
    for (std::size_t i = 0; i < gate_.size(); ++i) {
      const std::size_t channel = i % qkv;
      gate_[i] = log_decay(c_.gate_law, static_cast<double>(c_.gate_lower_bound),
                           static_cast<double>(w_.a_log[channel / c_.head_dim]), gate_[i],
                           static_cast<double>(w_.dt_bias[channel]));
    }
    z_ = c_.output_gate_rank == 0
             ? project(x_, tokens_, w_.g_proj, qkv)
             : project(project(x_, tokens_, w_.g_a_proj, c_.output_gate_rank), tokens_, w_.g_b_proj, qkv, w_.g_b_bias);
  }

  void recurrence(State& state) {
    const std::size_t dim = c_.head_dim;
    core_.resize(q_.size());
    for (std::size_t h = 0; h < c_.heads; ++h) {
      for (std::size_t t = 0; t < tokens_; ++t) {
        const std::size_t at = (t * c_.heads + h) * dim;
        delta_step(state.recurrent.data() + h * dim * dim, dim, &q_[at], &k_[at], &v_[at], &gate_[at],
                   beta_[t * c_.heads + h], &core_[at]);
      }
    }
  }

  void norm_and_gate() {
    const std::size_t dim = c_.head_dim;
    for (std::size_t first = 0; first < core_.size(); first += dim) {
      double squares = 0;
      for (std::size_t i = 0; i < dim; ++i) squares += core_[first + i] * core_[first + i];
      const double root = std::sqrt(squares / static_cast<double>(dim) + static_cast<double>(c_.rms_norm_eps));
      for (std::size_t i = 0; i < dim; ++i) {
        core_[first + i] *= static_cast<double>(to_float(w_.o_norm[i])) / root * sigmoid(z_[first + i]);
      }
    }
  }

  const KdaWeights& w_;
  const KdaConfig& c_;
  std::size_t tokens_;
  std::vector<double> x_, q_, k_, v_, beta_, gate_, z_, core_;
};

}  // namespace

State zero_state(const KdaConfig& config) {
  return {std::vector<double>(config.recurrent_elements()), std::vector<double>(config.conv_elements())};
}

std::vector<double> forward(const KdaWeights& weights, std::span<const bf16> hidden, std::uint64_t tokens,
                            State& state) {
  weights.validate();
  const std::size_t width = weights.config.hidden_size;
  check_length("hidden", hidden.size(), tokens * width);
  check_length("state.recurrent", state.recurrent.size(), weights.config.recurrent_elements());
  check_length("state.conv", state.conv.size(), weights.config.conv_elements());
  std::vector<double> out;
  out.reserve(hidden.size());
  for (std::size_t first = 0; first < tokens; first += block_tokens) {
    const std::size_t count = std::min<std::size_t>(block_tokens, tokens - first);
    const auto rows = Block(weights, hidden.subspan(first * width, count * width), count).run(state);
    out.insert(out.end(), rows.begin(), rows.end());
  }
  return out;
}

}  // namespace kdart::reference
