#include "tools/reference/kernels_reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "core/runtime/format.h"
#include "kdart/error.h"
#include "tools/reference/scalar.h"

namespace kdart::reference {
namespace {

double wide(float x) {
  return static_cast<double>(x);
}
double wide(bf16 x) {
  return static_cast<double>(to_float(x));
}

void check(std::string_view what, std::size_t found, std::size_t expected) {
  if (found != expected) {
    throw Error(ErrorCode::invalid_argument,
                detail::format("reference: {} has {} elements; expected {}", what, found, expected));
  }
}

// x [rows, stride], of which the last row may end early.
void check_rows(std::string_view what, std::size_t found, std::size_t rows, std::size_t stride, std::size_t columns) {
  if (stride < columns || (rows > 0 && found < (rows - 1) * stride + columns)) {
    throw Error(ErrorCode::invalid_argument,
                detail::format("reference: {} has {} elements; expected {} rows of {}, {} apart", what, found, rows,
                               columns, stride));
  }
}

// Elements between x[t][h] and x[t + 1][h] of one head are `step` apart.
struct HeadView {
  const float* data;
  std::size_t step;
  [[nodiscard]] double at(std::size_t t, std::size_t c) const { return wide(data[t * step + c]); }
};

// One chunk of chunk_prepare for one head: `first` is its first token, `rows` how many of its tokens exist.
struct PrepareChunk {
  const ChunkShape& s;
  std::size_t head, first, rows;
  HeadView k, v, g, beta;

  [[nodiscard]] std::size_t at(std::size_t i) const { return ((first + i) * s.heads + head) * s.head_dim; }

  void run(Prepared& out) const {
    for (std::size_t i = 0; i < s.chunk; ++i) {
      for (std::size_t c = 0; c < s.head_dim; ++c) {
        const double before = i == 0 ? 0.0 : out.gc[at(i - 1) + c];
        out.gc[at(i) + c] = i < rows ? before + g.at(first + i, c) : before;
      }
    }
    for (std::size_t i = 0; i < rows; ++i) substitute(i, out);
  }

  // Row i of (I - A) x = rhs by forward substitution, for both right-hand sides.
  void substitute(std::size_t i, Prepared& out) const {
    const double b = beta.at(first + i, 0);
    for (std::size_t c = 0; c < s.head_dim; ++c) {
      out.u[at(i) + c] = b * v.at(first + i, c);
      out.w[at(i) + c] = b * k.at(first + i, c) * std::exp(out.gc[at(i) + c]);
    }
    for (std::size_t j = 0; j < i; ++j) {
      double a = 0;
      for (std::size_t c = 0; c < s.head_dim; ++c) {
        a -= b * k.at(first + i, c) * k.at(first + j, c) * std::exp(out.gc[at(i) + c] - out.gc[at(j) + c]);
      }
      for (std::size_t c = 0; c < s.head_dim; ++c) {
        out.u[at(i) + c] += a * out.u[at(j) + c];
        out.w[at(i) + c] += a * out.w[at(j) + c];
      }
    }
  }
};

// One chunk of chunk_scan for one head.
struct ScanChunk {
  const ChunkShape& s;
  std::size_t head, first, rows;
  HeadView q, k, gc, u, w;
  double scale;

  void run(double* state, double* out) const {
    const std::size_t dim = s.head_dim;
    std::vector<double> fresh(rows * dim);  // v' = u - w S
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t d = 0; d < dim; ++d) fresh[i * dim + d] = u.at(first + i, d);
      for (std::size_t c = 0; c < dim; ++c) {
        for (std::size_t d = 0; d < dim; ++d) fresh[i * dim + d] -= w.at(first + i, c) * state[c * dim + d];
      }
    }
    for (std::size_t i = 0; i < rows; ++i) output_row(i, fresh, state, out);
    next_state(fresh, state);
  }

  void output_row(std::size_t i, const std::vector<double>& fresh, const double* state, double* out) const {
    const std::size_t dim = s.head_dim;
    double* row = out + ((first + i) * s.heads + head) * dim;
    for (std::size_t c = 0; c < dim; ++c) {
      const double decayed = q.at(first + i, c) * std::exp(gc.at(first + i, c));
      for (std::size_t d = 0; d < dim; ++d) row[d] += scale * decayed * state[c * dim + d];
    }
    for (std::size_t j = 0; j <= i; ++j) {
      double weight = 0;
      for (std::size_t c = 0; c < dim; ++c) {
        weight += q.at(first + i, c) * k.at(first + j, c) * std::exp(gc.at(first + i, c) - gc.at(first + j, c));
      }
      for (std::size_t d = 0; d < dim; ++d) row[d] += scale * weight * fresh[j * dim + d];
    }
  }

  void next_state(const std::vector<double>& fresh, double* state) const {
    const std::size_t dim = s.head_dim;
    const std::size_t last = first + s.chunk - 1;  // gc repeats its last valid value past the tokens
    for (std::size_t c = 0; c < dim; ++c) {
      for (std::size_t d = 0; d < dim; ++d) state[c * dim + d] *= std::exp(gc.at(last, c));
      for (std::size_t i = 0; i < rows; ++i) {
        const double decayed = k.at(first + i, c) * std::exp(gc.at(last, c) - gc.at(first + i, c));
        for (std::size_t d = 0; d < dim; ++d) state[c * dim + d] += decayed * fresh[i * dim + d];
      }
    }
  }
};

std::vector<double> widened(std::span<const float> x) {
  return {x.begin(), x.end()};
}

void normalise_heads(std::span<double> row, std::size_t head_dim, double eps) {
  for (std::size_t first = 0; first < row.size(); first += head_dim) {
    const auto head = row.subspan(first, head_dim);
    double squares = 0;
    for (const double value : head) squares += value * value;
    for (double& value : head) value /= std::sqrt(squares + eps);
  }
}

}  // namespace

std::vector<float> widen(std::span<const bf16> x) {
  std::vector<float> result(x.size());
  std::transform(x.begin(), x.end(), result.begin(), [](bf16 value) { return to_float(value); });
  return result;
}

bf16 round_to_bf16(double x) {
  auto nearest = static_cast<float>(x);
  // Rounding the float again errs only where it landed on the middle between two bf16 values and x did not.
  const auto bits = std::bit_cast<std::uint32_t>(nearest);
  if ((bits & 0xFFFFU) == 0x8000U && wide(nearest) != x) {
    const bool away = std::abs(x) > std::abs(wide(nearest));
    nearest = std::bit_cast<float>(away ? bits + 1 : bits - 1);
  }
  return to_bf16(nearest);
}

std::vector<bf16> round_to_bf16(std::span<const double> x) {
  std::vector<bf16> result(x.size());
  std::transform(x.begin(), x.end(), result.begin(), [](double value) { return round_to_bf16(value); });
  return result;
}

std::vector<double> gemm(std::span<const bf16> a, std::span<const bf16> b, std::span<const bf16> bias,
                         const GemmShape& s) {
  check_rows("gemm A", a.size(), s.m, s.lda, s.k);
  check("gemm B", b.size(), s.n * s.k);
  check("gemm bias", bias.size(), bias.empty() ? 0 : s.n);
  std::vector<double> c(s.m * s.n);
  for (std::size_t m = 0; m < s.m; ++m) {
    for (std::size_t n = 0; n < s.n; ++n) {
      double sum = 0;
      for (std::size_t k = 0; k < s.k; ++k) sum += wide(a[m * s.lda + k]) * wide(b[n * s.k + k]);
      c[m * s.n + n] = sum + (bias.empty() ? 0.0 : wide(bias[n]));
    }
  }
  return c;
}

std::vector<double> gate(std::span<const bf16> f, std::span<const float> dt_bias, std::span<const float> a_log,
                         const HeadShape& s, GateLaw law, float lower_bound) {
  constexpr double floor = -110.0;  // exp is 0 in f32 there
  const std::size_t width = s.heads * s.head_dim;
  check("gate f", f.size(), s.tokens * width);
  check("gate dt_bias", dt_bias.size(), width);
  check("gate a_log", a_log.size(), s.heads);
  std::vector<double> g(f.size());
  for (std::size_t i = 0; i < g.size(); ++i) {
    const std::size_t channel = i % width;
    const double decay =
        log_decay(law, wide(lower_bound), wide(a_log[channel / s.head_dim]), wide(f[i]), wide(dt_bias[channel]));
    g[i] = std::max(decay, floor);
  }
  return g;
}

std::vector<double> sigmoid(std::span<const bf16> x) {
  std::vector<double> result(x.size());
  std::transform(x.begin(), x.end(), result.begin(), [](bf16 value) { return sigmoid(wide(value)); });
  return result;
}

ConvResult conv_silu(std::span<const float> state, std::span<const bf16> x, std::span<const bf16> w,
                     const ConvShape& s) {
  constexpr std::size_t taps = 4;
  check("conv state", state.size(), s.channels * taps);
  check("conv w", w.size(), s.channels * taps);
  check_rows("conv x", x.size(), s.tokens, s.x_stride, s.channels);
  ConvResult result{std::vector<double>(s.tokens * s.channels), {state.begin(), state.end()}};
  for (std::size_t c = 0; c < s.channels; ++c) {
    float* window = &result.state[c * taps];
    for (std::size_t t = 0; t < s.tokens; ++t) {
      std::copy(window + 1, window + taps, window);
      window[taps - 1] = to_float(x[t * s.x_stride + c]);
      double sum = 0;
      for (std::size_t j = 0; j < taps; ++j) sum += wide(window[j]) * wide(w[c * taps + j]);
      result.out[t * s.channels + c] = silu(sum);
    }
  }
  return result;
}

ConvResult conv(std::span<const float> state, std::span<const bf16> x, std::span<const bf16> w, const ConvShape& s) {
  ConvResult result = conv_silu(state, x, w, s);
  for (std::size_t t = 0; t < s.tokens; ++t) {
    normalise_heads(std::span(result.out).subspan(t * s.channels, s.qk_channels), s.head_dim, wide(s.l2_eps));
  }
  return result;
}

std::vector<double> l2(std::span<const float> x, std::size_t channels, std::size_t qk_channels, std::size_t head_dim,
                       float eps) {
  check("l2 x", x.size() % channels, 0);
  std::vector<double> result = widened(x);
  for (std::size_t first = 0; first < result.size(); first += channels) {
    normalise_heads(std::span(result).subspan(first, qk_channels), head_dim, wide(eps));
  }
  return result;
}

Recurrence recurrent_step(std::span<const float> q, std::span<const float> k, std::span<const float> v,
                          std::span<const float> gate, std::span<const float> beta, std::span<const float> state,
                          std::size_t heads, std::size_t head_dim, float scale) {
  const std::size_t width = heads * head_dim;
  for (const auto& [name, span] : {std::pair{"q", q}, {"k", k}, {"v", v}, {"gate", gate}})
    check(name, span.size(), width);
  check("beta", beta.size(), heads);
  check("state", state.size(), width * head_dim);
  Recurrence r{std::vector<double>(width), widened(state)};
  for (std::size_t h = 0; h < heads; ++h) {
    double* s = &r.state[h * head_dim * head_dim];
    const std::size_t base = h * head_dim;
    for (std::size_t j = 0; j < head_dim; ++j) {  // one value column at a time: columns do not meet
      double dot = 0;
      for (std::size_t i = 0; i < head_dim; ++i) {
        s[i * head_dim + j] *= std::exp(wide(gate[base + i]));
        dot += s[i * head_dim + j] * wide(k[base + i]);
      }
      const double d = wide(beta[h]) * (wide(v[base + j]) - dot);
      double sum = 0;
      for (std::size_t i = 0; i < head_dim; ++i) {
        s[i * head_dim + j] += wide(k[base + i]) * d;
        sum += s[i * head_dim + j] * wide(q[base + i]);
      }
      r.out[base + j] = sum * wide(scale);
    }
  }
  return r;
}

Prepared chunk_prepare(std::span<const float> k, std::span<const float> v, std::span<const float> gate,
                       std::span<const float> beta, const ChunkShape& s) {
  const std::size_t width = s.heads * s.head_dim;
  for (const auto& [name, span] : {std::pair{"k", k}, {"v", v}, {"gate", gate}}) {
    check(name, span.size(), s.tokens * width);
  }
  check("beta", beta.size(), s.tokens * s.heads);
  const std::vector<double> zeros(s.padded() * width);
  Prepared out{zeros, zeros, zeros};
  for (std::size_t h = 0; h < s.heads; ++h) {
    const auto view = [&](std::span<const float> x) { return HeadView{x.data() + h * s.head_dim, width}; };
    for (std::size_t first = 0; first < s.tokens; first += s.chunk) {
      const std::size_t rows = std::min(s.chunk, s.tokens - first);
      PrepareChunk{s, h, first, rows, view(k), view(v), view(gate), {beta.data() + h, s.heads}}.run(out);
    }
  }
  return out;
}

Recurrence chunk_scan(std::span<const float> q, std::span<const float> k, std::span<const float> gc,
                      std::span<const float> u, std::span<const float> w, std::span<const float> state,
                      const ChunkShape& s, float scale) {
  const std::size_t width = s.heads * s.head_dim;
  for (const auto& [name, span] : {std::pair{"q", q}, {"k", k}}) check(name, span.size(), s.tokens * width);
  for (const auto& [name, span] : {std::pair{"gc", gc}, {"u", u}, {"w", w}})
    check(name, span.size(), s.padded() * width);
  check("state", state.size(), width * s.head_dim);
  Recurrence r{std::vector<double>(s.tokens * width), widened(state)};
  for (std::size_t h = 0; h < s.heads; ++h) {
    const auto view = [&](std::span<const float> x) { return HeadView{x.data() + h * s.head_dim, width}; };
    for (std::size_t first = 0; first < s.tokens; first += s.chunk) {
      const std::size_t rows = std::min(s.chunk, s.tokens - first);
      ScanChunk{s, h, first, rows, view(q), view(k), view(gc), view(u), view(w), wide(scale)}.run(
          &r.state[h * s.head_dim * s.head_dim], r.out.data());
    }
  }
  return r;
}

std::vector<double> o_norm(std::span<const float> core, std::span<const bf16> z, std::span<const bf16> weight,
                           const HeadShape& s, float eps) {
  check("o_norm core", core.size(), s.tokens * s.heads * s.head_dim);
  check("o_norm z", z.size(), core.size());
  check("o_norm weight", weight.size(), s.head_dim);
  std::vector<double> y = widened(core);
  for (std::size_t first = 0; first < y.size(); first += s.head_dim) {
    double squares = 0;
    for (std::size_t i = 0; i < s.head_dim; ++i) squares += y[first + i] * y[first + i];
    const double root = std::sqrt(squares / static_cast<double>(s.head_dim) + wide(eps));
    for (std::size_t i = 0; i < s.head_dim; ++i) y[first + i] *= wide(weight[i]) / root * sigmoid(wide(z[first + i]));
  }
  return y;
}

}  // namespace kdart::reference
