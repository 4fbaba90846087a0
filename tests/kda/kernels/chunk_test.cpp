#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <limits>

#include "tests/kda/kernels/problems.h"
#include "tests/support/random_values.h"

namespace kdart::test {
namespace {

void use_one_gate(ChunkProblem& p, float gate) {
  std::fill(p.gate.begin(), p.gate.end(), gate);
}

// Every token of a head has the key of token 0, off by `spread`.
void use_near_identical_keys(ChunkProblem& p, double spread) {
  Random random(99);
  const std::size_t width = std::size_t{p.heads} * p.head_dim;
  for (std::size_t i = width; i < p.k.size(); ++i) {
    p.k[i] = p.k[i % width] + static_cast<float>(spread * random.normal());
  }
  make_unit_rows(p.k, p.head_dim);
}

// Chunks of 32 tokens with heads of 128 need more shared memory than some devices have; those take heads of 64.
std::uint32_t largest_head_dim(const KernelRunner& runner, std::uint32_t chunk) {
  const std::uint64_t needed = (2 * std::uint64_t{chunk} * 128 + std::uint64_t{chunk} * chunk) * sizeof(float);
  return needed <= runner.backend()->info().limits.shared_memory_per_block ? 128 : 64;
}

}  // namespace

TEST_CASE("chunks of 16 and 32 at every length that is an edge of something", "[kernel][chunk]") {
  KernelRunner runner;
  const auto chunk = GENERATE(16U, 32U);
  const auto head_dim = GENERATE(64U, 128U);
  if (head_dim > largest_head_dim(runner, chunk)) SKIP("not enough shared memory for this shape");
  for (const std::uint32_t tokens : {1U, 3U, chunk - 1, chunk, chunk + 1, 47U}) {
    CAPTURE(chunk, head_dim, tokens);
    ChunkProblem::random(tokens, tokens, 3, head_dim, chunk).expect_truth("random", runner);
  }
}

TEST_CASE("chunks over 500 tokens", "[kernel][chunk]") {
  KernelRunner runner;
  ChunkProblem::random(1, 500, 1, 128).expect_truth("500 tokens", runner);
  ChunkProblem::random(2, 500, 1, 64, 32).expect_truth("500 tokens, chunk 32", runner);
}

TEST_CASE("chunks with saturated gates stay finite", "[kernel][chunk][hard]") {
  KernelRunner runner;
  const auto chunk = GENERATE(16U, 32U);
  // -5 through whole chunks; the floor, whose sums reach -3,520.
  for (const float gate : {-3.0F, -5.0F, -87.5F, -110.0F}) {
    CAPTURE(chunk, gate);
    auto p = ChunkProblem::random(3, chunk + 7, 2, largest_head_dim(runner, chunk), chunk);
    use_one_gate(p, gate);
    p.expect_truth("one gate everywhere", runner);
  }
}

TEST_CASE("gates at the floor between gates that are open", "[kernel][chunk][hard]") {
  KernelRunner runner;
  const auto chunk = GENERATE(16U, 32U);
  auto p = ChunkProblem::random(4, 2 * chunk, 2, 64, chunk);
  const std::size_t width = std::size_t{p.heads} * p.head_dim;
  for (std::size_t i = 0; i < p.gate.size(); ++i) {
    const std::size_t t = i / width;
    p.gate[i] = (t + i) % 5 == 0 ? -110.0F : t % 2 == 0 ? -1e-3F : 0.0F;
  }
  p.expect_truth("floor and open", runner);
}

TEST_CASE("chunks with open gates over a long prompt", "[kernel][chunk][hard]") {
  KernelRunner runner;
  auto p = ChunkProblem::random(5, 250, 1, 128);
  use_one_gate(p, 0.0F);
  p.expect_truth("open gates", runner);
}

TEST_CASE("identical and collinear keys with beta near 1, 1 and 0", "[kernel][chunk][hard]") {
  KernelRunner runner;
  const auto chunk = GENERATE(16U, 32U);
  const auto spread = GENERATE(0.0, 1e-3, 0.05);
  for (const float beta : {1.0F, 0.99999994F, 0.999F, 0.0F}) {
    CAPTURE(chunk, spread, beta);
    auto p = ChunkProblem::random(6, 2 * chunk + 1, 2, largest_head_dim(runner, chunk), chunk);
    use_near_identical_keys(p, spread);
    use_one_gate(p, 0.0F);
    std::fill(p.beta.begin(), p.beta.end(), beta);
    p.expect_truth("near-identical keys", runner);
    // Keys of alternating sign are collinear too.
    const std::size_t width = std::size_t{p.heads} * p.head_dim;
    for (std::size_t i = 0; i < p.k.size(); ++i) {
      if (i / width % 2 == 1) p.k[i] = -p.k[i];
    }
    p.expect_truth("keys of alternating sign", runner);
  }
}

TEST_CASE("beta of exactly 0 and 1 in turn, zero rows, a large state", "[kernel][chunk][hard]") {
  KernelRunner runner;
  auto p = ChunkProblem::random(7, 37, 2, 128);
  for (std::size_t i = 0; i < p.beta.size(); ++i) p.beta[i] = i % 3 == 0 ? 1.0F : i % 3 == 1 ? 0.0F : p.beta[i];
  p.expect_truth("beta 0 and 1", runner);
  const std::size_t width = std::size_t{p.heads} * p.head_dim;
  for (const std::size_t token : {0U, 15U, 16U, 20U, 36U}) {
    for (auto* x : {&p.q, &p.k, &p.v})
      std::fill_n(x->begin() + static_cast<std::ptrdiff_t>(token * width), width, 0.0F);
  }
  p.expect_truth("zero rows", runner);
  for (float& value : p.state) value *= 1e4F;
  p.expect_truth("state of 1e4", runner);
  for (float& value : p.state) value *= 1e16F;
  p.expect_truth("state of 1e20", runner);
}

TEST_CASE("what memory holds past the last token does not reach a result", "[kernel][chunk][pads]") {
  KernelRunner runner;
  const auto chunk = GENERATE(16U, 32U);
  for (const std::uint32_t tokens : {1U, chunk - 1, chunk + 1, 2 * chunk - 1}) {
    CAPTURE(chunk, tokens);
    auto p = ChunkProblem::random(8, tokens, 2, 64, chunk);
    p.pad = 0.0F;
    const auto prepared = p.prepare(runner);
    const auto scanned = p.scan(runner, prepared);
    for (const float pad :
         {std::numeric_limits<float>::quiet_NaN(), 7.5F, 1e30F, -std::numeric_limits<float>::infinity()}) {
      CAPTURE(pad);
      p.pad = pad;
      const auto again = p.prepare(runner);
      CHECK(same_bits(again.gc, prepared.gc));
      CHECK(same_bits(again.u, prepared.u));
      CHECK(same_bits(again.w, prepared.w));
      const auto rescanned = p.scan(runner, prepared);
      CHECK(same_bits(rescanned.out, scanned.out));
      CHECK(same_bits(rescanned.state, scanned.state));
    }
  }
}

TEST_CASE("past the last token gc repeats its last value and u and w are 0", "[kernel][chunk][pads]") {
  KernelRunner runner;
  const auto p = ChunkProblem::random(9, 19, 2, 64);
  const auto prepared = p.prepare(runner);
  const std::size_t rows = p.shape().padded();
  for (std::size_t h = 0; h < p.heads; ++h) {
    for (std::size_t t = p.tokens; t < rows; ++t) {
      for (std::size_t c = 0; c < p.head_dim; ++c) {
        const std::size_t at = (h * rows + t) * p.head_dim + c;
        REQUIRE(prepared.gc[at] == prepared.gc[(h * rows + p.tokens - 1) * p.head_dim + c]);
        REQUIRE(prepared.u[at] == 0.0F);
        REQUIRE(prepared.w[at] == 0.0F);
      }
    }
  }
}

TEST_CASE("a prompt cut at a whole chunk gives the bits of one", "[kernel][chunk][bits]") {
  KernelRunner runner;
  const auto chunk = GENERATE(16U, 32U);
  const auto whole = ChunkProblem::random(10, 3 * chunk + 5, 2, 64, chunk);
  const auto expected = whole.scan(runner, whole.prepare(runner));
  const auto part = [&](std::uint32_t first, std::uint32_t count) {
    ChunkProblem p = whole;
    p.tokens = count;
    const auto cut = [&](std::vector<float>& x, std::size_t width) {
      x.erase(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(first * width));
      x.resize(count * width);
    };
    for (auto* x : {&p.q, &p.k, &p.v, &p.gate}) cut(*x, std::size_t{p.heads} * p.head_dim);
    cut(p.beta, p.heads);
    return p;
  };
  for (const std::uint32_t at : {chunk, 2 * chunk, 3 * chunk}) {
    const auto head = part(0, at);
    const auto first = head.scan(runner, head.prepare(runner));
    auto tail = part(at, whole.tokens - at);
    tail.state = first.state;
    const auto second = tail.scan(runner, tail.prepare(runner));
    std::vector<float> joined = first.out;
    joined.insert(joined.end(), second.out.begin(), second.out.end());
    CHECK(same_bits(joined, expected.out));
    CHECK(same_bits(second.state, expected.state));
  }
}

TEST_CASE("a head does not depend on the heads beside it", "[kernel][chunk][bits]") {
  KernelRunner runner;
  const auto p = ChunkProblem::random(11, 21, 3, 64);
  auto disturbed = p;
  for (std::size_t i = 0; i < p.k.size(); ++i) {
    if (i / p.head_dim % p.heads != 1) disturbed.k[i] = disturbed.v[i] = std::numeric_limits<float>::quiet_NaN();
  }
  const auto clean = p.scan(runner, p.prepare(runner));
  const auto result = disturbed.scan(runner, disturbed.prepare(runner));
  for (std::size_t i = 0; i < clean.out.size(); ++i) {
    if (i / p.head_dim % p.heads == 1) REQUIRE(result.out[i] == clean.out[i]);
  }
  const std::size_t head = std::size_t{p.head_dim} * p.head_dim;
  CHECK(std::equal(clean.state.begin() + static_cast<std::ptrdiff_t>(head),
                   clean.state.begin() + static_cast<std::ptrdiff_t>(2 * head),
                   result.state.begin() + static_cast<std::ptrdiff_t>(head)));
}

}  // namespace kdart::test
