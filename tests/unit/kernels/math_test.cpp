// The dialect's own functions, as the host's compiler sees them, against float64.
#include <algorithm>
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kdart/bf16.h"
#include "kernels/simt/math.h"

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

// |x - truth| in units of the last place of the truth, denormals included.
double ulps(float x, double truth) {
  const auto rounded = static_cast<float>(truth);
  if (x == rounded) return 0;
  const float next = std::nextafterf(std::fabs(rounded), infinity);
  const double unit = static_cast<double>(next) - static_cast<double>(std::fabs(rounded));
  return std::fabs(static_cast<double>(x) - truth) / unit;
}

// The largest error over floats of all magnitudes in [low, high].
template <class Function, class Truth>
double worst(float low, float high, Function function, Truth truth) {
  double result = 0;
  for (std::uint64_t u = 0; u < (std::uint64_t{1} << 32); u += 4099) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(u));
    if (!(x >= low && x <= high)) continue;
    result = std::max(result, ulps(function(x), truth(static_cast<double>(x))));
  }
  for (int i = 0; i <= 100'000; ++i) {  // bit patterns are dense near 0; these are not
    const float x = low + (high - low) * (static_cast<float>(i) / 100'000.0F);
    result = std::max(result, ulps(function(x), truth(static_cast<double>(x))));
  }
  return result;
}

double sigmoid_truth(double x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}
double softplus_truth(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
}

}  // namespace

TEST_CASE("exp is within 1.5 units in the last place, denormal results included", "[math]") {
  const auto f = [](float x) { return kdart_simt::exp(x); };
  CHECK(worst(-103.0F, 88.7F, f, [](double x) { return std::exp(x); }) <= 1.5);
}

TEST_CASE("exp is clean at its ends", "[math]") {
  CHECK(kdart_simt::exp(0.0F) == 1.0F);
  CHECK(kdart_simt::exp(-0.0F) == 1.0F);
  CHECK(kdart_simt::exp(-infinity) == 0.0F);
  CHECK(kdart_simt::exp(-3e38F) == 0.0F);
  CHECK(kdart_simt::exp(-110.0F) == 0.0F);
  CHECK(kdart_simt::exp(-103.0F) > 0.0F);  // denormal
  CHECK(kdart_simt::exp(88.72283F) < infinity);
  CHECK(kdart_simt::exp(88.7229F) == infinity);
  CHECK(kdart_simt::exp(3e38F) == infinity);
  CHECK(kdart_simt::exp(infinity) == infinity);
  CHECK(std::isnan(kdart_simt::exp(nan_value)));
  CHECK(std::isnan(kdart_simt::exp(-nan_value)));
}

TEST_CASE("log1p is within 3 units in the last place between 0 and 1", "[math]") {
  const auto f = [](float x) { return kdart_simt::log1p(x); };
  CHECK(worst(1e-37F, 1.0F, f, [](double x) { return std::log1p(x); }) <= 3);
  CHECK(kdart_simt::log1p(0.0F) == 0.0F);
  CHECK(std::isnan(kdart_simt::log1p(nan_value)));
}

TEST_CASE("sigmoid keeps the digits of small results", "[math]") {
  const auto f = [](float x) { return kdart_simt::sigmoid(x); };
  CHECK(worst(-87.0F, 100.0F, f, sigmoid_truth) <= 3);
  CHECK(kdart_simt::sigmoid(0.0F) == 0.5F);
  CHECK(kdart_simt::sigmoid(infinity) == 1.0F);
  CHECK(kdart_simt::sigmoid(-infinity) == 0.0F);
  CHECK(kdart_simt::sigmoid(-3e38F) == 0.0F);
  CHECK(std::isnan(kdart_simt::sigmoid(nan_value)));
}

TEST_CASE("softplus", "[math]") {
  const auto f = [](float x) { return kdart_simt::softplus(x); };
  CHECK(worst(-85.0F, 1e30F, f, softplus_truth) <= 3);
  CHECK(kdart_simt::softplus(infinity) == infinity);
  CHECK(kdart_simt::softplus(-infinity) == 0.0F);
  CHECK(kdart_simt::softplus(3e38F) == 3e38F);
  CHECK(std::isnan(kdart_simt::softplus(nan_value)));
}

TEST_CASE("silu of a large negative input is a small number, not NaN", "[math]") {
  CHECK(kdart_simt::silu(-0x1p60F) == 0.0F);
  CHECK(kdart_simt::silu(0x1p60F) == 0x1p60F);
  CHECK(ulps(kdart_simt::silu(-80.0F), -80.0 * std::exp(-80.0)) <= 4);
}

TEST_CASE("the kernels' bf16 conversion is the library's, for all upper halves and around the ties", "[math][bf16]") {
  for (std::uint32_t upper = 0; upper < 65536; ++upper) {
    for (const std::uint32_t lower : {0x0000U, 0x0001U, 0x7FFFU, 0x8000U, 0x8001U, 0xFFFFU}) {
      const auto x = std::bit_cast<float>((upper << 16) | lower);
      const kdart::bf16 expected = kdart::to_bf16(x);
      if (kdart_simt::round_to_bf16(x) != expected.bits) {
        FAIL("bits " << std::hex << ((upper << 16) | lower) << ": " << kdart_simt::round_to_bf16(x) << ", expected "
                     << expected.bits);
      }
    }
  }
}
