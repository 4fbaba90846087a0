#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <limits>

#include "kdart/kda_kernels.h"
#include "tests/kda/kernels/problems.h"
#include "tests/support/device.h"
#include "tests/support/random_values.h"

namespace kdart::test {
namespace {

using kernels::DenseGemmBf16Args;
using kernels::DenseGemvBf16Args;
using kernels::DenseGemvBf16BatchmArgs;

// The order of a projection, in words of its own: 64 partials, partial l takes the groups of 8 with group mod 64 = l,
// ascending; then a tree. Every product and sum rounds to f32.
float ordered_dot(const bf16* a, const bf16* b, std::size_t k) {
  float partial[64] = {};
  for (std::size_t group = 0; group < k / 8; ++group) {
    for (std::size_t i = group * 8; i < group * 8 + 8; ++i) {
      const float product = to_float(a[i]) * to_float(b[i]);
      partial[group % 64] = partial[group % 64] + product;
    }
  }
  for (std::size_t half = 32; half > 0; half /= 2) {
    for (std::size_t l = 0; l < half; ++l) partial[l] = partial[l] + partial[l + half];
  }
  return partial[0];
}

std::vector<bf16> ordered(const GemmProblem& p) {
  std::vector<bf16> c(std::size_t{p.m} * p.n);
  for (std::size_t m = 0; m < p.m; ++m) {
    for (std::size_t n = 0; n < p.n; ++n) {
      float sum = ordered_dot(&p.a[m * p.lda], &p.b[n * p.k], p.k);
      if (!p.bias.empty()) sum = sum + to_float(p.bias[n]);
      c[m * p.n + n] = to_bf16(sum);
    }
  }
  return c;
}

// m rows through the one-row kernel, one launch per row.
std::vector<bf16> row_by_row(const GemmProblem& p, KernelRunner& runner) {
  std::vector<bf16> result;
  for (std::uint32_t r = 0; r < p.m; ++r) {
    const std::vector<bf16> row = p.rows(r, 1).run<DenseGemvBf16Args>(runner);
    result.insert(result.end(), row.begin(), row.end());
  }
  return result;
}

struct Shape {
  std::uint32_t n, k;
};

}  // namespace

TEST_CASE("projections are within bf16 rounding of float64", "[kernel][gemm]") {
  KernelRunner runner;
  const auto shape = GENERATE(Shape{96, 2304}, Shape{37, 1000}, Shape{64, 128}, Shape{1, 8}, Shape{130, 520});
  const auto bias = GENERATE(false, true);
  CAPTURE(shape.n, shape.k, bias);
  // A sum that cancels to 2^-15 of its terms is beyond f32 in any order. These seeds draw none; the next test, bit for
  // bit, minds none.
  const auto p = GemmProblem::random(shape.k + shape.n + 1, 13, shape.n, shape.k, bias);
  expect_bf16("dense_gemm_bf16", p.run<DenseGemmBf16Args>(runner), p.truth());
  expect_bf16("dense_gemv_bf16", p.run<DenseGemvBf16Args>(runner), p.truth());
  if (runner.has("dense_gemv_bf16_batchm")) {
    expect_bf16("dense_gemv_bf16_batchm", p.run<DenseGemvBf16BatchmArgs>(runner), p.truth());
  }
}

TEST_CASE("a projection's order is 64 partials and a tree", "[kernel][gemm][bits]") {
  KernelRunner runner;
  // K of one group, below, at, above and far above 512 elements, none of the last a multiple of 512.
  const auto k = GENERATE(8U, 136U, 504U, 512U, 520U, 1528U, 4104U);
  const auto bias = GENERATE(false, true);
  CAPTURE(k, bias);
  const auto p = GemmProblem::random(k, 3, 33, k, bias);
  CHECK(same_bits(p.run<DenseGemmBf16Args>(runner), ordered(p)));
}

TEST_CASE("the three projection kernels give a row the same bits, at any number of rows", "[kernel][gemm][bits]") {
  KernelRunner runner;
  const auto m = GENERATE(range(1U, 18U), values({33U}));
  CAPTURE(m);
  // Odd widths, K not a multiple of 512.
  for (const Shape shape : {Shape{65, 328}, Shape{7, 1032}}) {
    const auto p = GemmProblem::random(m * 100 + shape.n, m, shape.n, shape.k, m % 2 == 0);
    const std::vector<bf16> expected = row_by_row(p, runner);
    CHECK(same_bits(p.run<DenseGemmBf16Args>(runner), expected));
    CHECK(same_bits(p.run<DenseGemvBf16Args>(runner), expected));
    if (m <= 16 && runner.has("dense_gemv_bf16_batchm")) {
      CHECK(same_bits(p.run<DenseGemvBf16BatchmArgs>(runner), expected));
    }
  }
}

TEST_CASE("a row of a projection does not depend on the rows beside it", "[kernel][gemm][bits]") {
  KernelRunner runner;
  const auto p = GemmProblem::random(5, 11, 37, 264, true);
  GemmProblem others = p;
  constexpr std::uint32_t kept = 6;
  for (std::uint32_t r = 0; r < p.m; ++r) {
    const bf16 disturbance = r % 2 == 0 ? bf16{0x7FC0} : to_bf16(std::numeric_limits<float>::max());
    for (std::uint32_t i = 0; r != kept && i < p.k; ++i) others.a[std::size_t{r} * p.lda + i] = disturbance;
  }
  const auto row = [&](const std::vector<bf16>& c) {
    return std::vector<bf16>(c.begin() + kept * p.n, c.begin() + (kept + 1) * p.n);
  };
  CHECK(same_bits(row(others.run<DenseGemmBf16Args>(runner)), row(p.run<DenseGemmBf16Args>(runner))));
  CHECK(same_bits(row(others.run<DenseGemvBf16Args>(runner)), row(p.run<DenseGemvBf16Args>(runner))));
  if (runner.has("dense_gemv_bf16_batchm")) {
    CHECK(same_bits(row(others.run<DenseGemvBf16BatchmArgs>(runner)), row(p.run<DenseGemvBf16BatchmArgs>(runner))));
  }
}

TEST_CASE("projections keep denormals, infinities and NaN", "[kernel][gemm]") {
  KernelRunner runner;
  auto p = GemmProblem::random(9, 4, 3, 8, false);
  const auto set_row = [&](std::uint32_t row, float value) {
    for (std::uint32_t i = 0; i < p.k; ++i) p.a[std::size_t{row} * p.lda + i] = i == 0 ? to_bf16(value) : bf16{};
  };
  for (std::uint32_t n = 0; n < p.n; ++n) p.b[std::size_t{n} * p.k] = to_bf16(1.0F);
  set_row(0, 0x1p-130F);
  set_row(1, -std::numeric_limits<float>::infinity());
  set_row(2, std::numeric_limits<float>::quiet_NaN());
  set_row(3, 0x1.FEp127F);
  for (const auto& c : {p.run<DenseGemmBf16Args>(runner), p.run<DenseGemvBf16Args>(runner)}) {
    CHECK((to_float(c[0]) == 0x1p-130F || (denormals_may_flush() && to_float(c[0]) == 0.0F)));
    CHECK(to_float(c[p.n]) == -std::numeric_limits<float>::infinity());
    CHECK(to_float(c[2 * p.n]) != to_float(c[2 * p.n]));
    CHECK(to_float(c[3 * p.n]) == 0x1.FEp127F);
  }
  // What rounds beyond the largest bf16 becomes infinity.
  for (std::uint32_t n = 0; n < p.n; ++n) p.b[std::size_t{n} * p.k + 1] = to_bf16(1.0F);
  p.a[std::size_t{3} * p.lda + 1] = to_bf16(0x1p119F);
  CHECK(to_float(p.run<DenseGemmBf16Args>(runner)[3 * p.n]) == std::numeric_limits<float>::infinity());
}

}  // namespace kdart::test
