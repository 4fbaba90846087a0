#include "figures.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <cmath>
#include <limits>

namespace kdart::probe {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float inf = std::numeric_limits<float>::infinity();

// One channel, two tokens of width two; the run is the truth.
struct Sample {
  reference::Case truth;
  RunResult run;
};

Sample exact() {
  Sample s;
  s.truth.tokens = 2;
  s.truth.out = {3.0F, 4.0F, 0.0F, 12.0F};
  s.truth.recurrent_out = {1.0F, -2.0F};
  s.truth.conv_out = {0.0F, 1.0F, -2.0F, 0.5F};
  for (const float x : s.truth.out) s.run.out.push_back(to_bf16(x));
  s.run.recurrent = s.truth.recurrent_out;
  s.run.conv = s.truth.conv_out;
  return s;
}

bool within_base_bounds(const Figures& figures) {
  return passes(figures, {0.0048, 0.0045}, {}, {});
}

TEST_CASE("an exact run has no error and passes", "[probe]") {
  const Sample s = exact();
  const Figures figures = measure(s.run, s.truth);
  CHECK(figures.out_rel_l2 == 0.0);
  CHECK(figures.recurrent_rel_l2 == 0.0);
  CHECK(figures.conv_max_excess < 0.0);
  CHECK(figures.finite);
  CHECK(within_base_bounds(figures));
}

TEST_CASE("the error is relative to the whole tensor", "[probe]") {
  Sample s = exact();
  s.run.out[2] = to_bf16(1.3125F);  // ||truth|| is 13
  const Figures figures = measure(s.run, s.truth);
  CHECK_THAT(figures.out_rel_l2, Catch::Matchers::WithinRel(1.3125 / 13.0, 1e-12));
  CHECK_FALSE(within_base_bounds(figures));
}

TEST_CASE("only the rows that the truth has are compared but all must be finite", "[probe]") {
  Sample s = exact();
  s.truth.rows = {1};
  s.truth.out = {0.0F, 12.0F};
  s.run.out[0] = to_bf16(100.0F);
  CHECK(measure(s.run, s.truth).out_rel_l2 == 0.0);
  s.run.out[2] = to_bf16(3.0F);
  CHECK(measure(s.run, s.truth).out_rel_l2 == 0.25);
  s.run.out[0] = to_bf16(nan);
  CHECK_FALSE(measure(s.run, s.truth).finite);
}

TEST_CASE("a hash tells runs apart by any bit but those of slot 0", "[probe]") {
  const RunResult run = exact().run;
  RunResult other = run;
  other.conv[0] = nan;
  CHECK(other.out_sha256() == run.out_sha256());
  CHECK(other.state_sha256() == run.state_sha256());
  other.out[2] = to_bf16(-0.0F);
  CHECK(other.out_sha256() != run.out_sha256());
  other.conv[1] = std::nextafter(1.0F, 2.0F);
  CHECK(other.state_sha256() != run.state_sha256());
  other = run;
  other.recurrent[0] = -1.0F;
  CHECK(other.state_sha256() != run.state_sha256());
  RunResult one;
  one.out = {bf16{0x6261}};
  CHECK(one.out_sha256() == "fb8e20fc2e4c3f248c60c39bd652f3c1347298bb977b8b4d5903b85055620603");  // of "ab"
}

TEST_CASE("a figure over its bound fails alone", "[probe]") {
  const Figures good{0.0048, 0.0045, 0.0, true};
  CHECK(within_base_bounds(good));
  CHECK_FALSE(within_base_bounds({0.0048001, 0.0, 0.0, true}));
  CHECK_FALSE(within_base_bounds({0.0, 0.0045001, 0.0, true}));
  CHECK_FALSE(within_base_bounds({0.0, 0.0, 1e-9, true}));
  CHECK_FALSE(within_base_bounds({0.0, 0.0, 0.0, false}));
}

TEST_CASE("nothing that is not finite passes, wherever it stands", "[probe]") {
  const float bad = GENERATE(nan, inf, -inf);
  Sample s = exact();
  SECTION("in out") {
    s.run.out[1] = to_bf16(bad);
  }
  SECTION("in the recurrent state") {
    s.run.recurrent[0] = bad;
  }
  SECTION("in the convolution window") {
    s.run.conv[3] = bad;
  }
  const Figures figures = measure(s.run, s.truth);
  CHECK_FALSE(figures.finite);
  CHECK_FALSE(within_base_bounds(figures));
}

TEST_CASE("a figure that is not a number passes no bound", "[probe]") {
  constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
  CHECK_FALSE(within_base_bounds({not_a_number, 0.0, 0.0, true}));
  CHECK_FALSE(within_base_bounds({0.0, not_a_number, 0.0, true}));
  CHECK_FALSE(within_base_bounds({0.0, 0.0, not_a_number, true}));
}

TEST_CASE("slot 0 of the window means nothing", "[probe]") {
  const Sample s = exact();
  RunResult other = s.run;
  other.conv[0] = nan;
  CHECK(measure(other, s.truth).finite);
  CHECK(within_base_bounds(measure(other, s.truth)));
  CHECK(bits_equal(s.run, other));
}

TEST_CASE("bits are compared, not values", "[probe]") {
  const Sample s = exact();
  CHECK(bits_equal(s.run, s.run));
  RunResult other = s.run;
  SECTION("a zero of the other sign in out") {
    other.out[2] = to_bf16(-0.0F);
  }
  SECTION("the next float in the recurrent state") {
    other.recurrent[1] = std::nextafter(-2.0F, 0.0F);
  }
  SECTION("the next float in the window") {
    other.conv[1] = std::nextafter(1.0F, 2.0F);
  }
  SECTION("a shorter recurrent state") {
    other.recurrent.pop_back();
  }
  SECTION("a shorter window") {
    other.conv.pop_back();
  }
  SECTION("fewer tokens") {
    other.out.pop_back();
  }
  CHECK_FALSE(bits_equal(s.run, other));

  RunResult same_nan = s.run;
  same_nan.recurrent[0] = nan;
  CHECK(bits_equal(same_nan, same_nan));
}

TEST_CASE("a comparison of bits counts only where it was made", "[probe]") {
  const Figures good{};
  const OutBounds bounds{1.0, 1.0};
  CHECK(passes(good, bounds, {}, {}));
  CHECK(passes(good, bounds, true, true));
  CHECK_FALSE(passes(good, bounds, false, {}));
  CHECK_FALSE(passes(good, bounds, true, false));
}

TEST_CASE("the worst of several runs keeps what is not finite", "[probe]") {
  const Figures a{0.1, 0.4, -0.5, true};
  const Figures b{0.2, 0.3, -0.6, true};
  const Figures both = worse(a, b);
  CHECK(both.out_rel_l2 == 0.2);
  CHECK(both.recurrent_rel_l2 == 0.4);
  CHECK(both.conv_max_excess == -0.5);
  CHECK(both.finite);

  const Figures broken{std::nan(""), 0.0, 0.0, false};
  for (const Figures& w : {worse(a, broken), worse(broken, a)}) {
    CHECK(std::isnan(w.out_rel_l2));
    CHECK_FALSE(w.finite);
  }
}

TEST_CASE("decode and prefill have bounds of their own", "[probe]") {
  const reference::Bounds bounds{1.0, 2.0, 3.0, 4.0};
  for (const Mode mode : {Mode::decode, Mode::decode_k}) {
    CHECK(bounds_of(mode, bounds).out == 1.0);
    CHECK(bounds_of(mode, bounds).recurrent == 2.0);
  }
  for (const Mode mode : {Mode::prefill, Mode::prefill_split}) {
    CHECK(bounds_of(mode, bounds).out == 3.0);
    CHECK(bounds_of(mode, bounds).recurrent == 4.0);
  }
}

}  // namespace
}  // namespace kdart::probe
