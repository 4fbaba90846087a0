#include "tools/reference/judge.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/expect_error.h"
#include "tools/reference/kernels_reference.h"

namespace kdart::reference {
namespace {

using test::expect_error;

Comparison f32(float x, double truth, double largest = 0) {
  return compare_f32(std::vector<float>{x}, std::vector<double>{truth}, largest);
}

// `count` values around 1, of which the first `wrong` are `ulps` away.
Comparison bf16s(std::size_t count, std::size_t wrong, int ulps) {
  std::vector<double> truth(count);
  std::vector<bf16> x(count);
  for (std::size_t i = 0; i < count; ++i) {
    truth[i] = 1.0 + static_cast<double>(i % 100) / 128;
    x[i] = round_to_bf16(truth[i]);
    if (i < wrong) x[i].bits = static_cast<std::uint16_t>(x[i].bits + ulps);
  }
  return compare_bf16(x, truth);
}

TEST_CASE("judge f32: absolute bound of 2e-6 for small values") {
  CHECK(f32(1.9e-6F, 0).pass);
  CHECK_FALSE(f32(2.1e-6F, 0).pass);
  CHECK(f32(-1.9e-6F, 0).pass);
  CHECK_FALSE(f32(-2.1e-6F, 0).pass);
}

TEST_CASE("judge f32: the absolute bound grows with the largest input or true output") {
  CHECK(f32(1.9e-5F, 0, 10).pass);
  CHECK_FALSE(f32(2.1e-5F, 0, 10).pass);
  CHECK_FALSE(f32(1.9e-6F * 2, 0, 0.5).pass);  // never below max(1, ..)
  const std::vector<double> truth{0, -10};
  CHECK(compare_f32(std::vector<float>{1.9e-5F, -10}, truth, 0).pass);
  CHECK_FALSE(compare_f32(std::vector<float>{2.1e-5F, -10}, truth, 0).pass);
}

TEST_CASE("judge f32: relative bound of 1e-4") {
  CHECK(f32(1.00009F, 1).pass);
  CHECK_FALSE(f32(1.00011F, 1).pass);
  CHECK(f32(-999.91F, -1000).pass);
  CHECK_FALSE(f32(-999.89F, -1000).pass);
}

TEST_CASE("judge f32: one element outside fails, and is named") {
  std::vector<float> x(1000, 1.0F);
  const std::vector<double> truth(1000, 1.0);
  CHECK(compare_f32(x, truth, 0).pass);
  x[617] = 1.001F;
  const Comparison result = compare_f32(x, truth, 0);
  CHECK_FALSE(result.pass);
  CHECK(result.outside == 1);
  CHECK(result.worst_index == 617);
  CHECK(result.worst_ratio > 9);
  CHECK_THAT(result.text(), Catch::Matchers::ContainsSubstring("worst at 617"));
}

TEST_CASE("judge f32: nothing may be NaN or infinite, and nothing compared is no pass") {
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK_FALSE(f32(std::nanf(""), 0).pass);
  CHECK_FALSE(f32(infinity, 0).pass);
  CHECK_FALSE(f32(infinity, std::numeric_limits<double>::infinity()).pass);
  CHECK_FALSE(f32(0, std::nan("")).pass);
  CHECK_FALSE(f32(std::nanf(""), 0, 1e30).pass);
  CHECK_FALSE(f32(std::nanf(""), 0).finite);
  CHECK_FALSE(compare_f32({}, {}, 0).pass);
  expect_error(ErrorCode::invalid_argument, {"1 elements", "2"},
               [] { (void)compare_f32(std::vector<float>(1), std::vector<double>(2), 0); });
}

TEST_CASE("judge: the largest magnitude is over all inputs and finite") {
  const std::vector<float> a{1, -3};
  const std::vector<float> b{2, std::nanf(""), std::numeric_limits<float>::infinity()};
  CHECK(largest_magnitude({a, b}) == 3);
  CHECK(largest_magnitude({}) == 0);
}

TEST_CASE("judge bf16: half a percent may differ by one ulp") {
  CHECK(bf16s(1000, 0, 1).pass);
  CHECK(bf16s(1000, 5, 1).pass);
  CHECK_FALSE(bf16s(1000, 6, 1).pass);
  CHECK(bf16s(1199, 5, 1).pass);  // 0.5% of 1199 is less than 6
  CHECK_FALSE(bf16s(1199, 6, 1).pass);
  CHECK(bf16s(1200, 6, 1).pass);
}

TEST_CASE("judge bf16: one element may differ however few there are") {
  CHECK(bf16s(1, 1, 1).pass);
  CHECK(bf16s(10, 1, 1).pass);
  CHECK_FALSE(bf16s(10, 2, 1).pass);
  CHECK(bf16s(399, 1, 1).pass);
  CHECK_FALSE(bf16s(399, 2, 1).pass);
  CHECK(bf16s(400, 2, 1).pass);
}

TEST_CASE("judge bf16: two ulps never pass") {
  CHECK_FALSE(bf16s(100'000, 1, 2).pass);
  CHECK_FALSE(bf16s(100'000, 1, -2).pass);
  CHECK(bf16s(100'000, 1, -1).pass);
  CHECK(bf16s(100'000, 1, 2).worst_ulps == 2);
}

TEST_CASE("judge bf16: ulps are counted across zero and into infinity") {
  const auto one = [](bf16 x, double truth) { return compare_bf16(std::vector<bf16>{x}, std::vector<double>{truth}); };
  CHECK(one(bf16{0x8000}, 0.0).outside == 0);  // -0 is 0
  CHECK(one(bf16{0x0001}, -0.0).worst_ulps == 1);
  CHECK(one(bf16{0x8001}, 0x1p-133).worst_ulps == 2);  // the smallest negative for the smallest positive
  CHECK(one(bf16{0x7F80}, 1e39).outside == 0);         // the truth rounds to infinity
  CHECK(one(bf16{0x7F7F}, 1e39).worst_ulps == 1);
  CHECK_FALSE(one(bf16{0x7F80}, 3.38e38).pass);  // infinite where the truth is not
  CHECK_FALSE(one(bf16{0xFF80}, 1e39).pass);
  CHECK_FALSE(one(bf16{0x7FC0}, 1.0).pass);
  CHECK_FALSE(one(bf16{0x7FC0}, std::nan("")).pass);
  CHECK_FALSE(one(bf16{0x3F80}, std::nan("")).pass);
  CHECK_FALSE(compare_bf16({}, {}).pass);
  expect_error(ErrorCode::invalid_argument, {"1 elements", "2"},
               [] { (void)compare_bf16(std::vector<bf16>(1), std::vector<double>(2)); });
}

TEST_CASE("judge bf16: only where denormals may flush is 0 right for one") {
  const auto one = [](bf16 x, double truth, Denormals denormals) {
    return compare_bf16(std::vector<bf16>{x}, std::vector<double>{truth}, denormals).worst_ulps;
  };
  for (const double denormal : {0x1p-127, -0x1p-130, 0x1.FCp-127}) {
    CHECK(one(bf16{0x0000}, denormal, Denormals::may_flush) == 0);
    CHECK(one(bf16{0x8000}, denormal, Denormals::may_flush) == 0);
    CHECK(one(bf16{0x0000}, denormal, Denormals::kept) > 1);
    CHECK(one(bf16{0x0080}, denormal, Denormals::may_flush) > 0);  // any other value is judged as ever
  }
  CHECK(one(bf16{0x0000}, 0x1p-126, Denormals::may_flush) > 1);  // normal
}

}  // namespace
}  // namespace kdart::reference
