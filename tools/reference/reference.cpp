#include "tools/reference/reference.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "core/runtime/format.h"
#include "kdart/error.h"
#include "tools/reference/delta_rule.h"
#include "tools/reference/matrix.h"
#include "tools/reference/parallel.h"
#include "tools/reference/scalar.h"

namespace kdart::reference {
namespace {

// Tokens in flight: bounds the memory of long sequences, and enough of them to pay for widening the weights.
constexpr std::size_t block_tokens = 512;

double wide(bf16 x) {
  return static_cast<double>(to_float(x));
}
double wide(float x) {
  return static_cast<double>(x);
}

void check_length(std::string_view name, std::size_t found, std::uint64_t expected) {
  if (found != expected) {
    throw Error(ErrorCode::invalid_argument,
                detail::format("reference::forward: {} has {} elements; expected {}", name, found, expected));
  }
}

void check_rows(std::span<const std::uint64_t> rows, std::uint64_t tokens) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] >= tokens || (i > 0 && rows[i] <= rows[i - 1])) {
      throw Error(ErrorCode::invalid_argument,
                  detail::format("reference::forward_rows: row {} of the list is {}; expected ascending rows below {}",
                                 i, rows[i], tokens));
    }
  }
}

// One head's part of rows that are `stride` apart.
struct HeadRows {
  double* data;
  std::size_t tokens, dim, stride;
  [[nodiscard]] std::span<double> row(std::size_t t) const { return {data + t * stride, dim}; }
};

// Replaces x by silu(conv(x)); `taps` and `window` are those of the head's channels.
void convolve(const HeadRows& x, const bf16* taps, double* window) {
  for (std::size_t t = 0; t < x.tokens; ++t) {
    const auto row = x.row(t);
    for (std::size_t c = 0; c < x.dim; ++c) {
      double* w = window + 4 * c;
      w[0] = w[1], w[1] = w[2], w[2] = w[3], w[3] = row[c];
      double sum = 0;
      for (std::size_t j = 0; j < 4; ++j) sum += w[j] * wide(taps[4 * c + j]);
      row[c] = silu(sum);
    }
  }
}

void normalise(const HeadRows& x, double eps) {
  for (std::size_t t = 0; t < x.tokens; ++t) {
    double squares = 0;
    for (const double value : x.row(t)) squares += value * value;
    for (double& value : x.row(t)) value /= std::sqrt(squares + eps);
  }
}

// The layer over at most block_tokens tokens.
class Block {
 public:
  // `wanted`: the rows of the result, counted from the block's first token.
  Block(const KdaWeights& weights, std::span<const bf16> hidden, std::size_t tokens,
        std::span<const std::size_t> wanted)
      : w_(weights), c_(weights.config), hidden_(hidden), tokens_(tokens), wanted_(wanted) {}

  std::vector<double> run(State& state) {
    project_inputs();
    // Four exponentials and more per channel weigh as much as the recurrence's 7 D.
    const double operations = static_cast<double>(q_.size()) * static_cast<double>(7 * c_.head_dim + 400);
    parallel_for(c_.heads, operations, [&](std::size_t h) { run_head(h, state); });
    if (wanted_.empty()) return {};
    return project(PackedRows(norm_and_gate(), wanted_.size(), c_.qkv()), w_.o_proj, c_.hidden_size);
  }

 private:
  void project_inputs() {
    const std::size_t qkv = c_.qkv();
    const PackedRows x(hidden_, tokens_, c_.hidden_size);
    q_ = project(x, w_.q_proj, qkv);
    k_ = project(x, w_.k_proj, qkv);
    v_ = project(x, w_.v_proj, qkv);
    f_ = project(PackedRows(project(x, w_.f_a_proj, c_.decay_rank), tokens_, c_.decay_rank), w_.f_b_proj, qkv);
    beta_ = project(x, w_.b_proj, c_.heads);
    for (double& b : beta_) b = sigmoid(b);
    core_.resize(q_.size());
  }

  void run_head(std::size_t h, State& state) {
    const std::size_t dim = c_.head_dim;
    const std::size_t qkv = c_.qkv();
    const std::size_t channel = h * dim;
    const auto part = [&](std::vector<double>& x) { return HeadRows{x.data() + channel, tokens_, dim, qkv}; };
    convolve(part(q_), &w_.q_conv[4 * channel], &state.conv[4 * channel]);
    convolve(part(k_), &w_.k_conv[4 * channel], &state.conv[4 * (qkv + channel)]);
    convolve(part(v_), &w_.v_conv[4 * channel], &state.conv[4 * (2 * qkv + channel)]);
    normalise(part(q_), wide(c_.l2_eps));
    normalise(part(k_), wide(c_.l2_eps));
    std::vector<double> decay(tokens_ * dim);
    for (std::size_t i = 0; i < decay.size(); ++i) {
      const std::size_t at = channel + i % dim;
      decay[i] = std::exp(log_decay(c_.gate_law, wide(c_.gate_lower_bound), wide(w_.a_log[h]), f_[i / dim * qkv + at],
                                    wide(w_.dt_bias[at])));
    }
    delta_rule({&q_[channel], &k_[channel], &v_[channel], decay.data(), &beta_[h], &core_[channel], tokens_, dim, qkv,
                c_.heads},
               &state.recurrent[h * dim * dim]);
  }

  // z of the wanted rows.
  [[nodiscard]] std::vector<double> output_gate() const {
    std::vector<bf16> rows;
    rows.reserve(wanted_.size() * c_.hidden_size);
    for (const std::size_t t : wanted_) {
      const auto row = hidden_.subspan(t * c_.hidden_size, c_.hidden_size);
      rows.insert(rows.end(), row.begin(), row.end());
    }
    const PackedRows x(rows, wanted_.size(), c_.hidden_size);
    if (c_.output_gate_rank == 0) return project(x, w_.g_proj, c_.qkv());
    const PackedRows middle(project(x, w_.g_a_proj, c_.output_gate_rank), wanted_.size(), c_.output_gate_rank);
    return project(middle, w_.g_b_proj, c_.qkv(), w_.g_b_bias);
  }

  [[nodiscard]] std::vector<double> norm_and_gate() const {
    const std::size_t dim = c_.head_dim;
    std::vector<double> y = output_gate();
    for (std::size_t first = 0; first < y.size(); first += dim) {
      const double* core = &core_[wanted_[first / c_.qkv()] * c_.qkv() + first % c_.qkv()];
      double squares = 0;
      for (std::size_t i = 0; i < dim; ++i) squares += core[i] * core[i];
      const double root = std::sqrt(squares / static_cast<double>(dim) + wide(c_.rms_norm_eps));
      for (std::size_t i = 0; i < dim; ++i) y[first + i] = core[i] * wide(w_.o_norm[i]) / root * sigmoid(y[first + i]);
    }
    return y;
  }

  const KdaWeights& w_;
  const KdaConfig& c_;
  std::span<const bf16> hidden_;
  std::size_t tokens_;
  std::span<const std::size_t> wanted_;
  std::vector<double> q_, k_, v_, f_, beta_, core_;
};

}  // namespace

State zero_state(const KdaConfig& config) {
  return {std::vector<double>(config.recurrent_elements()), std::vector<double>(config.conv_elements())};
}

std::vector<double> forward_rows(const KdaWeights& weights, std::span<const bf16> hidden, std::uint64_t tokens,
                                 State& state, std::span<const std::uint64_t> rows, const OnTokens& on_tokens) {
  weights.validate();
  const std::size_t width = weights.config.hidden_size;
  check_length("hidden", hidden.size(), tokens * width);
  check_length("state.recurrent", state.recurrent.size(), weights.config.recurrent_elements());
  check_length("state.conv", state.conv.size(), weights.config.conv_elements());
  check_rows(rows, tokens);
  std::vector<double> out;
  out.reserve(rows.size() * width);
  auto next = rows.begin();
  for (std::size_t first = 0; first < tokens; first += block_tokens) {
    const std::size_t count = std::min<std::size_t>(block_tokens, tokens - first);
    std::vector<std::size_t> wanted;
    for (; next != rows.end() && *next < first + count; ++next) wanted.push_back(*next - first);
    const auto part = Block(weights, hidden.subspan(first * width, count * width), count, wanted).run(state);
    out.insert(out.end(), part.begin(), part.end());
    if (on_tokens) on_tokens(count);
  }
  return out;
}

std::vector<double> forward(const KdaWeights& weights, std::span<const bf16> hidden, std::uint64_t tokens,
                            State& state) {
  std::vector<std::uint64_t> rows(tokens);
  std::iota(rows.begin(), rows.end(), std::uint64_t{0});
  return forward_rows(weights, hidden, tokens, state, rows);
}

}  // namespace kdart::reference
