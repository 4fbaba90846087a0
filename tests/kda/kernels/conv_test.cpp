#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <limits>

#include "kdart/kda_kernels.h"
#include "tests/kda/kernels/problems.h"
#include "tests/support/random_values.h"

namespace kdart::test {
namespace {

constexpr float largest_bf16 = 0x1.FEp127F;

// Makes channels [first, last) of every token equal `value`, and their weights pass the newest input alone.
void set_outputs(ConvProblem& p, std::uint32_t first, std::uint32_t last, float value) {
  for (std::uint32_t t = 0; t < p.tokens; ++t) {
    for (std::uint32_t c = first; c < last; ++c) p.x[std::size_t{t} * p.channels() + c] = to_bf16(value);
  }
  for (std::uint32_t c = first; c < last; ++c) {
    for (std::uint32_t j = 0; j < 4; ++j) p.w[c * 4 + j] = to_bf16(j == 3 ? 1.0F : 0.0F);
  }
}

}  // namespace

TEST_CASE("the convolution at every length that is an edge of something", "[kernel][conv]") {
  KernelRunner runner;
  // Below the window, around a chunk, T mod 16 = 15.
  const auto tokens = GENERATE(1U, 2U, 3U, 4U, 5U, 15U, 16U, 17U, 47U);
  CAPTURE(tokens);
  // 3 heads of 128: a block of 256 channels straddles q and k; 5 of 64: k and v, and heads.
  ConvProblem::random(tokens, tokens, 3, 128).expect_truth("3 heads of 128", runner);
  ConvProblem::random(tokens, tokens, 5, 64).expect_truth("5 heads of 64", runner);
}

TEST_CASE("the convolution over 500 tokens", "[kernel][conv]") {
  KernelRunner runner;
  ConvProblem::random(500, 500, 1, 128).expect_truth("500 tokens", runner);
}

TEST_CASE("the oldest slot of a window is shifted out unread", "[kernel][conv]") {
  KernelRunner runner;
  const auto p = ConvProblem::random(6, 6, 2, 64);
  ConvProblem disturbed = p;
  for (std::size_t i = 0; i < p.state.size(); i += 4) disturbed.state[i] = std::numeric_limits<float>::quiet_NaN();
  CHECK(same_bits(disturbed.decode(runner).out, p.decode(runner).out));
  CHECK(same_bits(disturbed.prefill(runner).out, p.prefill(runner).out));
}

TEST_CASE("a prompt cut in two gives the bits of one, at every cut", "[kernel][conv][bits]") {
  KernelRunner runner;
  const auto whole = ConvProblem::random(7, 18, 1, 64);
  const auto expected = whole.prefill(runner);
  for (const std::uint32_t cut : {1U, 2U, 3U, 15U, 16U, 17U}) {
    ConvProblem first = whole;
    first.tokens = cut;
    first.x.resize(std::size_t{cut} * whole.channels());
    const auto head = first.prefill(runner);
    ConvProblem second = whole;
    second.tokens = whole.tokens - cut;
    second.x.erase(second.x.begin(), second.x.begin() + static_cast<std::ptrdiff_t>(first.x.size()));
    second.state = head.state;
    const auto tail = second.prefill(runner);
    std::vector<bf16> joined = head.out;
    joined.insert(joined.end(), tail.out.begin(), tail.out.end());
    CHECK(same_bits(joined, expected.out));
    CHECK(same_bits(live_slots(tail.state), live_slots(expected.state)));
  }
}

TEST_CASE("q and k of up to 2^60 survive the norm", "[kernel][conv][hard]") {
  KernelRunner runner;
  const auto exponent = GENERATE(30, 50, 60);
  CAPTURE(exponent);
  for (const std::uint32_t head_dim : {64U, 128U}) {
    auto p = ConvProblem::random(8, 5, 3, head_dim);
    const float size = std::ldexp(1.0F, exponent);
    // All as large as asked, then at random below it, both signs.
    set_outputs(p, 0, head_dim, size);
    Random random(11);
    for (std::uint32_t t = 0; t < p.tokens; ++t) {
      for (std::uint32_t c = head_dim; c < p.qk_channels(); ++c) {
        p.x[std::size_t{t} * p.channels() + c] = to_bf16(size / 4 * static_cast<float>(random.uniform(-1, 1)));
      }
    }
    p.expect_truth("large q and k", runner);
  }
}

TEST_CASE("v reaches the largest bf16, and infinity beyond it", "[kernel][conv][hard]") {
  KernelRunner runner;
  auto p = ConvProblem::random(9, 4, 2, 64);
  const std::uint32_t v = p.qk_channels();
  set_outputs(p, v, v + 16, largest_bf16);
  set_outputs(p, v + 16, v + 32, -largest_bf16);
  p.expect_truth("largest v", runner);
  const auto largest = p.decode(runner).out;
  for (std::uint32_t c = v; c < v + 16; ++c) CHECK(to_float(largest[c]) == largest_bf16);

  // Twice the largest is infinite in f32 already; 2^127 (1 + 255/256) rounds up to it in bf16 alone.
  for (std::uint32_t c = v; c < v + 16; ++c) p.w[c * 4 + 3] = to_bf16(c < v + 8 ? 2.0F : 1.0F);
  for (std::uint32_t c = v + 8; c < v + 16; ++c) {
    p.state[c * 4 + 3] = 0x1p120F;
    p.w[c * 4 + 2] = to_bf16(1.0F);
  }
  for (const auto& out : {p.decode(runner).out, p.prefill(runner).out}) {
    for (std::uint32_t c = v; c < v + 16; ++c) CHECK(to_float(out[c]) == std::numeric_limits<float>::infinity());
  }
}

TEST_CASE("rows of zeros stay zero, and tiny rows are decided by eps", "[kernel][conv][hard]") {
  KernelRunner runner;
  const auto head_dim = GENERATE(64U, 128U);
  auto p = ConvProblem::random(10, 6, 4, head_dim);
  std::fill(p.state.begin(), p.state.end(), 0.0F);
  // Heads of q: all zero; sum of squares far below eps; about eps; the rest as usual.
  for (std::uint32_t t = 0; t < p.tokens; ++t) {
    for (std::uint32_t c = 0; c < 3 * head_dim; ++c) {
      bf16& x = p.x[std::size_t{t} * p.channels() + c];
      const float scale = c < head_dim ? 0.0F : c < 2 * head_dim ? 0x1p-14F : 0x1p-10F;
      x = to_bf16(to_float(x) * scale);
    }
  }
  p.expect_truth("zero and tiny rows", runner);
  const auto out = p.decode(runner).out;
  for (std::uint32_t c = 0; c < head_dim; ++c) CHECK(to_float(out[c]) == 0.0F);
  float longest = 0;
  for (std::uint32_t c = head_dim; c < 2 * head_dim; ++c) longest = std::max(longest, std::abs(to_float(out[c])));
  CHECK((longest > 0 && longest < 0.1F));  // nowhere near unit length
}

TEST_CASE("a NaN in one channel of q reaches its own head alone", "[kernel][conv][hard]") {
  KernelRunner runner;
  const auto p = ConvProblem::random(12, 3, 3, 128);
  ConvProblem disturbed = p;
  disturbed.x[p.channels() + 200] = bf16{0x7FC0};  // token 1, head 1 of q
  const auto clean = p.decode(runner);
  for (const auto& out : {disturbed.decode(runner).out, disturbed.prefill(runner).out}) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::size_t t = i / p.channels();
      const std::size_t c = i % p.channels();
      const bool inside = t >= 1 && c >= 128 && c < 256;
      if (inside) {
        CHECK(std::isnan(to_float(out[i])));
      } else {
        CHECK(out[i] == clean.out[i]);
      }
    }
  }
}

// Rows of conv_decode are different sequences.
TEST_CASE("rows of conv_decode use the slots they are given, and padding rows use none", "[kernel][conv][slots]") {
  KernelRunner runner;
  constexpr std::uint32_t heads = 2;
  constexpr std::uint32_t head_dim = 64;
  constexpr std::uint32_t rows = 6;
  constexpr std::uint32_t slot_count = 5;
  // A slot at the count, the -1 that engines write, then one far off.
  const std::vector<std::uint32_t> slots = {3, slot_count, 0, 0xFFFFFFFF, 4, 0x80000000};
  const auto one = ConvProblem::random(13, rows, heads, head_dim);  // its tokens are the rows' inputs
  const std::uint32_t channels = one.channels();
  const std::uint64_t slot_stride = channels * 4 + 7;
  Random random(14);
  const std::vector<float> state = rounded(random.normals((slot_count - 1) * slot_stride + channels * 4, 1.0));

  const auto device_state = runner.inout(state);
  const auto x = runner.input(strided<bf16>(one.x, channels, channels + 2, bf16{0x7FC0}));
  const auto w = runner.input(one.w);
  const auto device_slots = runner.input(slots);
  const auto out = runner.output<bf16>((rows - 1) * (channels + 4) + channels);
  runner.run(kernels::ConvDecodeArgs{.state = device_state.get(),
                                     .x = x.get(),
                                     .w = w.get(),
                                     .out = out.get(),
                                     .slots = device_slots.get(),
                                     .slot_stride = slot_stride,
                                     .slot_count = slot_count,
                                     .rows = rows,
                                     .channels = channels,
                                     .taps = 4,
                                     .qk_channels = one.qk_channels(),
                                     .head_dim = head_dim,
                                     .l2_eps = one.l2_eps,
                                     .x_stride = channels + 2,
                                     .out_stride = channels + 4});
  const std::vector<bf16> found = packed(out.read(), rows, channels, channels + 4);
  CHECK(gaps_unwritten(out.read(), rows, channels, channels + 4));
  std::vector<float> expected_state = state;
  for (std::uint32_t r = 0; r < rows; ++r) {
    CAPTURE(r);
    const std::vector<bf16> row(found.begin() + r * channels, found.begin() + (r + 1) * channels);
    if (slots[r] >= slot_count) {
      CHECK(std::all_of(row.begin(), row.end(), [](bf16 value) { return value.bits == 0; }));
      continue;
    }
    ConvProblem alone = one;
    alone.tokens = 1;
    alone.x.assign(one.x.begin() + r * channels, one.x.begin() + (r + 1) * channels);
    const auto begin = state.begin() + static_cast<std::ptrdiff_t>(slots[r] * slot_stride);
    alone.state.assign(begin, begin + channels * 4);
    const auto result = alone.decode(runner);
    CHECK(same_bits(row, result.out));
    std::copy(result.state.begin(), result.state.end(),
              expected_state.begin() + static_cast<std::ptrdiff_t>(slots[r] * slot_stride));
  }
  CHECK(same_bits(device_state.read(), expected_state));
}

}  // namespace kdart::test
