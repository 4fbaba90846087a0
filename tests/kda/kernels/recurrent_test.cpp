#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <string>

#include "tests/kda/kernels/problems.h"
#include "tests/support/random_values.h"

namespace kdart::test {
namespace {

// Both kernels: within the bounds of float64, and equal bit for bit for every column count that divides head_dim and
// whose tile the device's shared memory holds.
RecurrentProblem::Result expect_both(const std::string& what, const RecurrentProblem& p, KernelRunner& runner) {
  const auto result = p.run(runner);
  p.expect_truth("recurrent, " + what, result);
  if (!runner.has("recurrent_smem")) return result;
  for (const std::uint32_t v_per_block : {16U, 32U, 64U, 128U}) {
    const std::uint64_t shared_bytes = (3 * p.head_dim + v_per_block * (p.head_dim + 1)) * sizeof(float);
    if (p.head_dim % v_per_block != 0) continue;
    if (shared_bytes > runner.backend()->info().limits.shared_memory_per_block) continue;
    CAPTURE(v_per_block);
    const auto smem = p.run_smem(runner, v_per_block);
    CHECK(same_bits(smem.out, result.out));
    CHECK(same_bits(smem.state, result.state));
  }
  return result;
}

}  // namespace

TEST_CASE("one token through the recurrence, both kernels, the same bits", "[kernel][recurrent][bits]") {
  KernelRunner runner;
  const auto head_dim = GENERATE(64U, 128U);
  // Head counts that are a multiple of nothing.
  const auto heads = GENERATE(1U, 3U, 7U);
  const auto rows = GENERATE(1U, 4U);
  CAPTURE(head_dim, heads, rows);
  expect_both("random", RecurrentProblem::random(rows * 10 + heads, rows, heads, head_dim), runner);
}

TEST_CASE("the recurrence with saturated, open and wiping gates", "[kernel][recurrent][hard]") {
  KernelRunner runner;
  const auto gate = GENERATE(0.0F, -1e-6F, -5.0F, -87.5F, -110.0F);
  CAPTURE(gate);
  auto p = RecurrentProblem::random(1, 2, 2, 128);
  std::fill(p.gate.begin(), p.gate.end(), gate);
  expect_both("one gate everywhere", p, runner);
  // By channel: a per-head decay would not pass.
  for (std::size_t i = 0; i < p.gate.size(); i += 2) p.gate[i] = -0.01F;
  expect_both("gates that alternate", p, runner);
}

TEST_CASE("a gate of -110 leaves nothing of a state", "[kernel][recurrent][hard]") {
  KernelRunner runner;
  auto p = RecurrentProblem::random(2, 1, 2, 64);
  std::fill(p.gate.begin(), p.gate.end(), -110.0F);
  auto zeroed = p;
  std::fill(zeroed.state.begin(), zeroed.state.end(), 0.0F);
  CHECK(p.run(runner).state == zeroed.run(runner).state);  // as numbers: -0 and 0 are one
}

TEST_CASE("the recurrence with beta exactly 0 and exactly 1", "[kernel][recurrent][hard]") {
  KernelRunner runner;
  const auto head_dim = GENERATE(64U, 128U);
  auto p = RecurrentProblem::random(3, 2, 3, head_dim);
  std::fill(p.gate.begin(), p.gate.end(), 0.0F);
  std::fill(p.beta.begin(), p.beta.end(), 0.0F);
  // Nothing decays, nothing is learnt.
  CHECK(expect_both("beta 0", p, runner).state == p.state);

  // beta 1 and a key that is an axis: that row of the state becomes v.
  std::fill(p.beta.begin(), p.beta.end(), 1.0F);
  std::fill(p.k.begin(), p.k.end(), 0.0F);
  for (std::size_t head = 0; head < p.rows * p.heads; ++head) p.k[head * head_dim + 5] = 1.0F;
  std::fill(p.state.begin(), p.state.end(), 0.25F);
  const auto replaced = expect_both("beta 1", p, runner);
  for (std::size_t head = 0; head < p.rows * p.heads; ++head) {
    for (std::size_t c = 0; c < head_dim; ++c) {
      CHECK(replaced.state[(head * head_dim + 5) * head_dim + c] == p.v[head * head_dim + c]);
      CHECK(replaced.state[(head * head_dim + 6) * head_dim + c] == 0.25F);
    }
  }
}

TEST_CASE("the recurrence with a large state, zero rows and large values", "[kernel][recurrent][hard]") {
  KernelRunner runner;
  auto p = RecurrentProblem::random(4, 2, 2, 128);
  for (float& value : p.state) value *= 1e4F;
  expect_both("state of 1e4", p, runner);
  for (float& value : p.state) value *= 1e16F;
  expect_both("state of 1e20", p, runner);
  p = RecurrentProblem::random(5, 2, 2, 128);
  for (float& value : p.v) value *= 0x1p60F;
  expect_both("v of 2^60", p, runner);
  p = RecurrentProblem::random(6, 2, 2, 128);
  std::fill_n(p.q.begin(), 128, 0.0F);
  std::fill_n(p.k.begin(), 128, 0.0F);
  const auto result = expect_both("zero rows", p, runner);
  for (std::size_t c = 0; c < 128; ++c) CHECK(result.out[c] == 0.0F);
}

TEST_CASE("the recurrence over identical keys, step after step", "[kernel][recurrent][hard]") {
  KernelRunner runner;
  const auto beta = GENERATE(1.0F, 0.99999994F);
  auto p = RecurrentProblem::random(7, 1, 2, 128);
  std::fill(p.gate.begin(), p.gate.end(), 0.0F);
  std::fill(p.beta.begin(), p.beta.end(), beta);
  Random random(8);
  for (int step = 0; step < 12; ++step) {
    p.v = rounded(random.normals(p.v.size(), 1.0));
    const auto result = p.run(runner);
    p.expect_truth("recurrent, identical keys", result);
    p.state = result.state;
  }
}

TEST_CASE("rows of the recurrence use the slots they are given, and padding rows use none",
          "[kernel][recurrent][slots]") {
  KernelRunner runner;
  const auto head_dim = GENERATE(64U, 128U);
  auto p = RecurrentProblem::random(9, 7, 2, head_dim);
  const std::uint64_t elements = p.width() * head_dim;
  p.slot_count = 6;
  p.slot_stride = elements + 9;
  p.state = Random(10).normals((p.slot_count - 1) * p.slot_stride + elements, 1.0);
  p.slots = {5, p.slot_count, 0, 0xFFFFFFFF, 2, 0x80000000, 0xFFFFFFFF};
  const auto result = expect_both("slots", p, runner);
  CHECK(std::all_of(result.out.begin() + static_cast<std::ptrdiff_t>(p.width()),
                    result.out.begin() + static_cast<std::ptrdiff_t>(2 * p.width()),
                    [](float value) { return value == 0; }));
  // Between the slots, and the slots that no row names.
  for (std::size_t i = 0; i < p.state.size(); ++i) {
    const std::size_t slot = i / p.slot_stride;
    const bool used = (slot == 0 || slot == 2 || slot == 5) && i % p.slot_stride < elements;
    if (!used) REQUIRE(result.state[i] == p.state[i]);
  }
  // A row alone has the bits it has among others.
  auto alone = p;
  alone.rows = 1;
  alone.slots = {2};
  for (auto* x : {&alone.q, &alone.k, &alone.v, &alone.gate}) {
    x->erase(x->begin(), x->begin() + static_cast<std::ptrdiff_t>(4 * p.width()));
    x->resize(p.width());
  }
  alone.beta = {p.beta[4 * p.heads], p.beta[4 * p.heads + 1]};
  const auto one = alone.run(runner);
  CHECK(std::equal(one.out.begin(), one.out.end(), result.out.begin() + static_cast<std::ptrdiff_t>(4 * p.width())));
  CHECK(std::equal(one.state.begin() + static_cast<std::ptrdiff_t>(2 * p.slot_stride),
                   one.state.begin() + static_cast<std::ptrdiff_t>(2 * p.slot_stride + elements),
                   result.state.begin() + static_cast<std::ptrdiff_t>(2 * p.slot_stride)));
}

TEST_CASE("a NaN in one sequence stays in that sequence", "[kernel][recurrent][slots]") {
  KernelRunner runner;
  const auto p = RecurrentProblem::random(11, 3, 1, 64);
  auto disturbed = p;
  disturbed.v[64] = std::nanf("");  // row 1
  const auto clean = p.run(runner);
  const auto result = disturbed.run(runner);
  CHECK(std::isnan(result.out[64]));
  for (std::size_t i = 0; i < clean.out.size(); ++i) {
    if (i / 64 != 1) CHECK(result.out[i] == clean.out[i]);
  }
}

}  // namespace kdart::test
