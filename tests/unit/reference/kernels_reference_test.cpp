// The per-kernel references against values worked out by hand or by another route. Their composition is held against
// the golden data in reference_test.cpp.
#include "tools/reference/kernels_reference.h"

#include <algorithm>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "tests/support/expect_error.h"
#include "tests/support/mini_model.h"
#include "tests/unit/reference/contract_emulation.h"

namespace kdart::reference {
namespace {

using Catch::Approx;
using test::expect_error;
using test::to_f32;

std::vector<bf16> halves(std::initializer_list<float> values) {
  std::vector<bf16> result;
  for (const float value : values) result.push_back(to_bf16(value));
  return result;
}

// Seeded values of about unit size; the seed keeps the tensors of one test apart.
std::vector<float> noise(std::size_t count, std::uint64_t seed) {
  KdaConfig config = test::tiny_config();
  config.hidden_size = 8;
  const auto values = widen(random_hidden(config, count / 8 + 1, seed));
  return {values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count)};
}

void scale_by(std::vector<float>& x, float factor) {
  for (float& value : x) value *= factor;
}

TEST_CASE("round_to_bf16 rounds once") {
  // Just above a tie: through float it would become the tie and go down to even.
  CHECK(round_to_bf16(1.0 + 0x1p-8 + 0x1p-40).bits == 0x3F81);
  CHECK(to_bf16(static_cast<float>(1.0 + 0x1p-8 + 0x1p-40)).bits == 0x3F80);
  CHECK(round_to_bf16(1.0 + 3 * 0x1p-8 - 0x1p-40).bits == 0x3F81);  // just below one, which would go up to even
  CHECK(round_to_bf16(-1.0 - 0x1p-8 - 0x1p-40).bits == 0xBF81);
  CHECK(round_to_bf16(1.0 + 0x1p-8).bits == 0x3F80);  // the tie itself
  CHECK(round_to_bf16(1.0 + 3 * 0x1p-8).bits == 0x3F82);
  CHECK(round_to_bf16(1e39).bits == 0x7F80);
  CHECK(round_to_bf16(-1e300).bits == 0xFF80);
  CHECK(round_to_bf16(1e-300).bits == 0);
  CHECK(round_to_bf16(0x1p-134).bits == 0);  // half the smallest: a tie, to even
  CHECK(round_to_bf16(0x1p-134 + 0x1p-180).bits == 1);
  CHECK(std::isnan(to_float(round_to_bf16(std::nan("")))));
  for (std::uint32_t half = 0; half < 0x7F80U; ++half) {
    const bf16 x{static_cast<std::uint16_t>(half)};
    REQUIRE(round_to_bf16(static_cast<double>(to_float(x))) == x);
  }
}

TEST_CASE("gemm: C = A B^T + bias with a row stride") {
  const auto a = halves({1, 2, 3, 99, 4, 5, 6});  // lda 4, the last row ends early
  const auto b = halves({1, 0, 0, 0, 1, 1});
  CHECK(gemm(a, b, {}, {2, 2, 3, 4}) == std::vector<double>{1, 5, 4, 11});
  CHECK(gemm(a, b, halves({10, -1}), {2, 2, 3, 4}) == std::vector<double>{11, 4, 14, 10});
  expect_error(ErrorCode::invalid_argument, {"gemm A"}, [&] { (void)gemm(a, b, {}, {3, 2, 3, 4}); });
  expect_error(ErrorCode::invalid_argument, {"gemm A"}, [&] { (void)gemm(a, b, {}, {2, 2, 3, 2}); });
  expect_error(ErrorCode::invalid_argument, {"gemm B"}, [&] { (void)gemm(a, a, {}, {2, 2, 3, 4}); });
  expect_error(ErrorCode::invalid_argument, {"gemm bias"}, [&] { (void)gemm(a, b, a, {2, 2, 3, 4}); });
}

TEST_CASE("gate: both laws, per channel bias and per head scale") {
  const HeadShape shape{1, 2, 2};
  const auto f = halves({0, 1, -2, 3});
  const std::vector<float> bias{0, 0.5F, 2, 0};
  const std::vector<float> a_log{0, std::log(2.0F)};
  const auto soft = gate(f, bias, a_log, shape, GateLaw::softplus, 0);
  CHECK(soft[0] == Approx(-std::log(2.0)));
  CHECK(soft[1] == Approx(-std::log1p(std::exp(1.5))));
  CHECK(soft[2] == Approx(-2 * std::log(2.0)));
  CHECK(soft[3] == Approx(-2 * std::log1p(std::exp(3.0))));
  const auto bound = gate(f, bias, a_log, shape, GateLaw::lower_bound, -5);
  CHECK(bound[0] == Approx(-2.5));
  CHECK(bound[1] == Approx(-5 / (1 + std::exp(-1.5))));
  CHECK(bound[2] == Approx(-2.5));
  CHECK(bound[3] == Approx(-5 / (1 + std::exp(-6.0))));
}

TEST_CASE("gate: raised to -110, finite at the ends of the float range") {
  const HeadShape shape{1, 1, 4};
  const auto f = halves({3e38F, -3e38F, 109, 111});
  const std::vector<float> zero(4, 0.0F);
  const std::vector<float> a_log{0};
  const auto soft = gate(f, zero, a_log, shape, GateLaw::softplus, 0);
  CHECK(soft[0] == -110);
  CHECK(soft[1] == 0);
  CHECK(soft[2] == Approx(-109));
  CHECK(soft[3] == -110);
  const auto bound = gate(f, zero, a_log, shape, GateLaw::lower_bound, -5);
  CHECK(bound[0] == -5);
  CHECK(bound[1] == 0);
}

TEST_CASE("sigmoid: its values and its ends") {
  const auto y = sigmoid(halves({0, 1, -1, 3e38F, -3e38F}));
  CHECK(y[0] == 0.5);
  CHECK(y[1] == Approx(1 / (1 + std::exp(-1.0))));
  CHECK(y[1] + y[2] == Approx(1));
  CHECK(y[3] == 1);
  CHECK(y[4] == 0);
}

TEST_CASE("conv: shifts, convolves oldest tap first, SiLU, and leaves the window behind") {
  const ConvShape shape{2, 1, 0, 1, 3, 1e-6F};  // one channel of v in rows of 3
  const std::vector<float> state{77, 1, 2, 3};
  const auto x = halves({4, 0, 0, 5});
  const auto w = halves({1, 10, 100, 1000});
  const auto result = conv(state, x, w, shape);
  const auto silu = [](double value) { return value / (1 + std::exp(-value)); };
  CHECK(result.out[0] == Approx(silu(1 + 20 + 300 + 4000)));  // slot 0 of the old state is never read
  CHECK(result.out[1] == Approx(silu(2 + 30 + 400 + 5000)));
  CHECK(result.state == std::vector<float>{2, 3, 4, 5});
}

TEST_CASE("conv: q and k heads are normalised with eps inside the root, v is not") {
  const std::size_t dim = 64;
  const ConvShape shape{3, 6 * dim, 4 * dim, dim, 6 * dim, 1e-6F};
  std::vector<bf16> x = round_to_bf16(std::vector<double>(3 * 6 * dim, 0.0));
  const auto values = noise(x.size(), 1);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = to_bf16(values[i] * 0x1p-10F);  // tiny: the eps counts
  const auto w = round_to_bf16(std::vector<double>(4 * 6 * dim, 0.5));
  const std::vector<float> state(4 * 6 * dim, 0.0F);
  const auto plain = conv_silu(state, x, w, shape);
  const auto full = conv(state, x, w, shape);
  CHECK(plain.state == full.state);
  for (std::size_t t = 0; t < 3; ++t) {
    for (std::size_t h = 0; h < 6; ++h) {
      double squares = 0;
      for (std::size_t i = 0; i < dim; ++i) squares += std::pow(plain.out[(t * 6 + h) * dim + i], 2);
      const double root = h < 4 ? std::sqrt(squares + static_cast<double>(1e-6F)) : 1.0;
      CHECK(full.out[(t * 6 + h) * dim + 7] == Approx(plain.out[(t * 6 + h) * dim + 7] / root).epsilon(1e-12));
    }
  }
  // l2 on the rounded intermediate gives the same up to that rounding.
  const auto separate = l2(to_f32(plain.out), 6 * dim, 4 * dim, dim, 1e-6F);
  for (std::size_t i = 0; i < separate.size(); ++i) REQUIRE(separate[i] == Approx(full.out[i]).epsilon(1e-6));
}

TEST_CASE("conv: huge inputs stay finite") {
  const std::size_t dim = 64;
  const ConvShape shape{1, 3 * dim, 2 * dim, dim, 3 * dim, 1e-6F};
  const auto x = round_to_bf16(std::vector<double>(3 * dim, 0x1p60));
  const auto w = round_to_bf16(std::vector<double>(12 * dim, 1.0));
  const auto result = conv(std::vector<float>(12 * dim), x, w, shape);
  CHECK(result.out[0] == Approx(0.125));  // 1 / sqrt(64)
  CHECK(result.out[2 * dim] == Approx(0x1p60));
}

TEST_CASE("recurrent: one step by hand, decay first, then the delta rule") {
  // One head of two channels: S = [[1, 2], [3, 4]], key-major.
  const std::vector<float> q{1, 1};
  const std::vector<float> k{1, 0.5F};
  const std::vector<float> v{10, 20};
  const std::vector<float> gate{std::log(0.5F), 0};
  const std::vector<float> beta{0.5F};
  const auto r = recurrent_step(q, k, v, gate, beta, std::vector<float>{1, 2, 3, 4}, 1, 2, 2.0F);
  // S' = [[0.5, 1], [3, 4]]; S'^T k = [2, 3]; d = 0.5 ([10, 20] - [2, 3]) = [4, 8.5]
  // S = S' + k d^T = [[4.5, 9.5], [5, 8.25]]; o = 2 S^T q = [19, 35.5]
  const std::vector<double> state{4.5, 9.5, 5, 8.25};
  for (std::size_t i = 0; i < 4; ++i) CHECK(r.state[i] == Approx(state[i]).epsilon(1e-6));
  CHECK(r.out[0] == Approx(19).epsilon(1e-6));
  CHECK(r.out[1] == Approx(35.5).epsilon(1e-6));
  expect_error(ErrorCode::invalid_argument, {"beta"},
               [&] { (void)recurrent_step(q, k, v, gate, q, std::vector<float>(4), 1, 2, 1); });
}

struct Sequence {
  std::vector<float> q, k, v, gate, beta, state;
};

// Unit keys and queries, gates down to -5, beta in (0, 1).
Sequence sequence(std::size_t tokens, std::size_t heads, std::size_t dim) {
  const std::size_t count = tokens * heads * dim;
  Sequence s{noise(count, 1), noise(count, 2),          noise(count, 3),
             noise(count, 4), noise(tokens * heads, 5), noise(heads * dim * dim, 6)};
  s.q = to_f32(l2(s.q, heads * dim, heads * dim, dim, 1e-6F));
  s.k = to_f32(l2(s.k, heads * dim, heads * dim, dim, 1e-6F));
  for (float& g : s.gate) g = -5.0F / (1.0F + std::exp(-g));
  for (float& b : s.beta) b = 1.0F / (1.0F + std::exp(-b));
  return s;
}

// The recurrence token by token, in float64 throughout: the reference steps round nothing but their state argument, so
// the state is carried here.
Recurrence by_steps(const Sequence& s, std::size_t tokens, std::size_t heads, std::size_t dim, double scale) {
  std::vector<double> state(s.state.begin(), s.state.end());
  std::vector<double> out(tokens * heads * dim);
  for (std::size_t t = 0; t < tokens; ++t) {
    for (std::size_t h = 0; h < heads; ++h) {
      const std::size_t at = (t * heads + h) * dim;
      double* m = &state[h * dim * dim];
      for (std::size_t j = 0; j < dim; ++j) {
        double dot = 0;
        for (std::size_t i = 0; i < dim; ++i) {
          m[i * dim + j] *= std::exp(static_cast<double>(s.gate[at + i]));
          dot += m[i * dim + j] * static_cast<double>(s.k[at + i]);
        }
        const double d = static_cast<double>(s.beta[t * heads + h]) * (static_cast<double>(s.v[at + j]) - dot);
        for (std::size_t i = 0; i < dim; ++i) {
          m[i * dim + j] += static_cast<double>(s.k[at + i]) * d;
          out[at + j] += scale * m[i * dim + j] * static_cast<double>(s.q[at + i]);
        }
      }
    }
  }
  return {out, state};
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

TEST_CASE("chunks: prepare and scan together are the recurrence") {
  const std::size_t heads = 2;
  const std::size_t dim = 64;
  for (const std::size_t chunk : {16U, 32U}) {
    for (const std::size_t tokens : {1U, 3U, 15U, 16U, 17U, 31U, 33U, 70U}) {
      INFO("chunk " << chunk << " tokens " << tokens);
      const Sequence s = sequence(tokens, heads, dim);
      const ChunkShape shape{tokens, heads, dim, chunk};
      const auto p = chunk_prepare(s.k, s.v, s.gate, s.beta, shape);
      const auto scanned = chunk_scan(s.q, s.k, to_f32(p.gc), to_f32(p.u), to_f32(p.w), s.state, shape, 0.125F);
      const auto expected = by_steps(s, tokens, heads, dim, 0.125);
      CHECK(largest_difference(scanned.out, expected.out) < 2e-6);  // gc, u, w went through f32
      CHECK(largest_difference(scanned.state, expected.state) < 2e-5);
    }
  }
}

TEST_CASE("chunks: past the last token gc holds its value and u, w are zero") {
  const std::size_t dim = 64;
  const Sequence s = sequence(5, 1, dim);
  const ChunkShape shape{5, 1, dim, 16};
  CHECK(shape.chunks() == 1);
  CHECK(shape.padded() == 16);
  const auto p = chunk_prepare(s.k, s.v, s.gate, s.beta, shape);
  REQUIRE(p.gc.size() == 16 * dim);
  for (std::size_t t = 5; t < 16; ++t) {
    for (std::size_t c = 0; c < dim; ++c) {
      REQUIRE(p.gc[t * dim + c] == p.gc[4 * dim + c]);
      REQUIRE(p.u[t * dim + c] == 0);
      REQUIRE(p.w[t * dim + c] == 0);
    }
  }
  CHECK(p.gc[4 * dim] == Approx(static_cast<double>(s.gate[0]) + static_cast<double>(s.gate[dim]) +
                                static_cast<double>(s.gate[2 * dim]) + static_cast<double>(s.gate[3 * dim]) +
                                static_cast<double>(s.gate[4 * dim])));
}

TEST_CASE("chunks: saturated gates and collinear keys stay finite and right") {
  const std::size_t dim = 64;
  const std::size_t tokens = 48;
  Sequence s = sequence(tokens, 1, dim);
  for (std::size_t i = dim; i < s.k.size(); ++i) s.k[i] = s.k[i % dim];  // one key for all tokens
  for (float& b : s.beta) b = 1.0F;
  const ChunkShape shape{tokens, 1, dim, 16};
  for (const float g : {0.0F, -5.0F, -110.0F}) {
    std::fill(s.gate.begin(), s.gate.end(), g);
    const auto p = chunk_prepare(s.k, s.v, s.gate, s.beta, shape);
    const auto scanned = chunk_scan(s.q, s.k, to_f32(p.gc), to_f32(p.u), to_f32(p.w), s.state, shape, 0.125F);
    const auto expected = by_steps(s, tokens, 1, dim, 0.125);
    INFO("gate " << g);
    CHECK(largest_difference(scanned.out, expected.out) < 2e-5);
    CHECK(largest_difference(scanned.state, expected.state) < 2e-5);
  }
}

TEST_CASE("o_norm: RMS over the head with eps inside the root, weight, sigmoid gate") {
  const std::size_t dim = 64;
  std::vector<float> core(2 * dim, 3.0F);
  const std::vector<bf16> z = round_to_bf16(std::vector<double>(2 * dim, 1.0));
  const std::vector<bf16> weight = round_to_bf16(std::vector<double>(dim, 2.0));
  const auto y = o_norm(core, z, weight, {1, 2, dim}, 1e-5F);
  const double gate = 1 / (1 + std::exp(-1.0));
  CHECK(y[0] == Approx(3 / std::sqrt(9 + static_cast<double>(1e-5F)) * 2 * gate).epsilon(1e-12));
  scale_by(core, 1e-3F);  // now the eps is as large as the mean square
  const auto tiny = o_norm(core, z, weight, {1, 2, dim}, 1e-5F);
  const auto value = static_cast<double>(core[0]);
  CHECK(tiny[dim] == Approx(value / std::sqrt(value * value + static_cast<double>(1e-5F)) * 2 * gate).epsilon(1e-12));
}

}  // namespace
}  // namespace kdart::reference
