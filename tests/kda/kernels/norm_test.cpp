#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>

#include "tests/kda/kernels/problems.h"

namespace kdart::test {

TEST_CASE("the output norm and its gate", "[kernel][norm]") {
  KernelRunner runner;
  const auto head_dim = GENERATE(64U, 128U);
  for (const std::uint32_t tokens : {1U, 3U, 17U, 65U}) {
    CAPTURE(head_dim, tokens);
    const auto p = NormProblem::random(tokens, tokens, 5, head_dim);
    expect_bf16("o_norm", p.run(runner), p.truth());
  }
}

TEST_CASE("the output norm of zero, tiny and large rows", "[kernel][norm][hard]") {
  KernelRunner runner;
  const auto head_dim = GENERATE(64U, 128U);
  // The mean of squares far below eps, about eps, far above it, near the end of f32.
  for (const float scale : {1e-12F, 1e-5F, 0.03F, 1e6F, 1e17F}) {
    CAPTURE(head_dim, scale);
    auto p = NormProblem::random(7, 6, 3, head_dim);
    for (float& value : p.core) value *= scale;
    expect_bf16("o_norm, scaled", p.run(runner), p.truth());
  }
  auto p = NormProblem::random(8, 2, 2, head_dim);
  std::fill(p.core.begin(), p.core.end(), 0.0F);
  for (const bf16 value : p.run(runner)) CHECK(to_float(value) == 0.0F);
}

TEST_CASE("the output gate is a sigmoid at both of its ends", "[kernel][norm][hard]") {
  KernelRunner runner;
  auto p = NormProblem::random(9, 8, 2, 128);
  const float ends[] = {-3e38F, -200, -90, -20, 20, 90, 200, 3e38F};
  for (std::size_t i = 0; i < p.z.size(); ++i) p.z[i] = to_bf16(ends[i % 8]);
  const auto out = p.run(runner);
  expect_bf16("o_norm, saturated gate", out, p.truth());
  // SiLU would multiply by z.
  for (const bf16 value : out) CHECK(std::abs(to_float(value)) < 100.0F);
}

TEST_CASE("a NaN stays in its own head of the output norm", "[kernel][norm][hard]") {
  KernelRunner runner;
  const auto p = NormProblem::random(10, 2, 3, 64);
  auto disturbed = p;
  disturbed.core[64 + 5] = std::nanf("");
  const auto clean = p.run(runner);
  const auto out = disturbed.run(runner);
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (i / 64 == 1) {
      CHECK(std::isnan(to_float(out[i])));
    } else {
      CHECK(out[i] == clean[i]);
    }
  }
}

}  // namespace kdart::test
