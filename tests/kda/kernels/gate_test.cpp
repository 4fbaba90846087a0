#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <limits>

#include "kdart/kda_kernels.h"
#include "tests/kda/kernels/problems.h"
#include "tests/support/random_values.h"

namespace kdart::test {
namespace {

constexpr GateLaw both_laws[] = {GateLaw::softplus, GateLaw::lower_bound};

// Every f against every combination of head decay and bias: f in the rows, A_log by head, dt_bias by channel.
GateProblem grid_of(const std::vector<float>& f, const std::vector<float>& a_log, const std::vector<float>& dt_bias,
                    GateLaw law) {
  GateProblem p{static_cast<std::uint32_t>(f.size()),
                static_cast<std::uint32_t>(a_log.size()),
                static_cast<std::uint32_t>(dt_bias.size()),
                law,
                law == GateLaw::lower_bound ? -5.0F : 0.0F,
                {},
                {},
                a_log};
  for (std::size_t h = 0; h < a_log.size(); ++h) p.dt_bias.insert(p.dt_bias.end(), dt_bias.begin(), dt_bias.end());
  for (const float value : f) p.f.insert(p.f.end(), a_log.size() * dt_bias.size(), to_bf16(value));
  return p;
}

const std::vector<float> ordinary_f = {-104, -40, -9, -3, -1, -0.125F, -1e-3F, 0, 1e-3F, 0.125F, 1, 3, 9, 40, 104};
const std::vector<float> biases = {-8, -3.5F, -0.1F, 0, 0.1F, 2.25F, 8};
// ln 1e-3 .. ln 16, then far more than any checkpoint has.
const std::vector<float> head_decays = {-6.9F, -2, 0, 1, 2.7726F, 6, 16};

}  // namespace

TEST_CASE("the gate follows both laws", "[kernel][gate]") {
  KernelRunner runner;
  for (const GateLaw law : both_laws) {
    GateProblem::random(1, 17, 3, 128, law).expect_truth("gate", runner);
    GateProblem::random(2, 500, 2, 64, law).expect_truth("gate, 500 tokens", runner);
    grid_of(ordinary_f, head_decays, biases, law).expect_truth("gate, grid of parameters", runner);
  }
}

TEST_CASE("the gate takes any lower bound from -5 up to 0", "[kernel][gate]") {
  KernelRunner runner;
  auto p = GateProblem::random(3, 5, 2, 64, GateLaw::lower_bound);
  for (const float bound : {-5.0F, -2.5F, -1e-3F}) {
    p.lower_bound = bound;
    p.expect_truth("gate", runner);
  }
}

TEST_CASE("the gate saturates without NaN at f = +-3e38", "[kernel][gate][hard]") {
  KernelRunner runner;
  const float inf = std::numeric_limits<float>::infinity();
  for (const GateLaw law : both_laws) {
    const auto p = grid_of({-inf, -3e38F, -1e10F, 1e10F, 3e38F, inf}, head_decays, biases, law);
    p.expect_truth("gate", runner);
    const std::vector<float> g = p.run(runner);
    const std::size_t half = g.size() / 2;
    const float most = law == GateLaw::softplus ? -110.0F : -5.0F;
    for (std::size_t i = 0; i < g.size(); ++i) CHECK(g[i] == (i < half ? 0.0F : most));
  }
}

TEST_CASE("a log-decay below -110 is raised to -110", "[kernel][gate][hard]") {
  KernelRunner runner;
  // exp(0) softplus(f) = f here, to the last bit of bf16: the floor begins between 109.5 and 110.5.
  auto p = grid_of({100, 109.5F, 110, 110.5F, 112, 1e4F}, {0}, {0}, GateLaw::softplus);
  CHECK(p.run(runner) == std::vector<float>{-100, -109.5F, -110, -110, -110, -110});
  p.a_log = {16};
  p.f.assign(p.f.size(), to_bf16(0.0F));
  CHECK(p.run(runner) == std::vector<float>(p.f.size(), -110.0F));
}

TEST_CASE("a NaN in f stays a NaN in the gate, in its own channel alone", "[kernel][gate][hard]") {
  KernelRunner runner;
  for (const GateLaw law : both_laws) {
    auto p = GateProblem::random(4, 3, 2, 64, law);
    const std::vector<float> before = p.run(runner);
    for (const std::uint16_t bits : {std::uint16_t{0x7FC0}, std::uint16_t{0xFF81}, std::uint16_t{0x7F81}}) {
      p.f[77] = bf16{bits};
      std::vector<float> g = p.run(runner);
      CHECK(std::isnan(g[77]));
      g[77] = before[77];
      CHECK(same_bits(g, before));
    }
  }
}

TEST_CASE("a gate that is nearly open keeps its relative precision", "[kernel][gate][hard]") {
  KernelRunner runner;
  // exp(f) for the law of softplus, lb exp(f) for the other: far below the absolute bound of a kernel.
  for (const GateLaw law : both_laws) {
    const auto p = grid_of({-12, -20, -40, -60, -80}, {0}, {0}, law);
    const std::vector<float> g = p.run(runner);
    const std::vector<double> truth = p.truth();
    for (std::size_t i = 0; i < g.size(); ++i) {
      CHECK(std::abs(static_cast<double>(g[i]) - truth[i]) <= 1e-4 * std::abs(truth[i]));
    }
  }
}

TEST_CASE("sigmoid over every finite bf16", "[kernel][sigmoid]") {
  KernelRunner runner;
  std::vector<bf16> b;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    if ((bits & 0x7F80) != 0x7F80) b.push_back(bf16{static_cast<std::uint16_t>(bits)});
  }
  b.push_back(bf16{0x7F80});
  b.push_back(bf16{0xFF80});
  const auto run = [&](const std::vector<bf16>& x) {
    const auto device_b = runner.input(x);
    const auto out = runner.output<float>(x.size());
    runner.run(kernels::SigmoidArgs{.b = device_b.get(), .out = out.get(), .n = x.size()});
    return out.read();
  };
  const std::vector<float> beta = run(b);
  expect_f32("sigmoid", beta, reference::sigmoid(b), {});
  for (const float value : beta) CHECK((value >= 0 && value <= 1));
  // beta of exactly 0 and exactly 1 are reached.
  CHECK(beta[beta.size() - 2] == 1.0F);
  CHECK(beta[beta.size() - 1] == 0.0F);
  CHECK(run({to_bf16(0.0F)})[0] == 0.5F);
  CHECK(std::isnan(run({bf16{0xFFFF}})[0]));
}

}  // namespace kdart::test
