#include "kdart/weights.h"

#include <catch2/catch_test_macros.hpp>

#include "tests/support/expect_error.h"
#include "tests/support/mini_model.h"
#include "tools/reference/random_model.h"

namespace kdart {
namespace {

using test::expect_error;

template <typename T>
void check_length_matters(const char* name, const KdaWeights& good, std::span<const T> KdaWeights::* member) {
  INFO(name);
  REQUIRE_FALSE((good.*member).empty());
  KdaWeights w = good;
  w.*member = (good.*member).first((good.*member).size() - 1);
  expect_error(ErrorCode::invalid_argument, {name, std::to_string((good.*member).size()), "expected"},
               [&] { w.validate(); });
  w.*member = {};
  expect_error(ErrorCode::invalid_argument, {name, "has 0 elements"}, [&] { w.validate(); });
}

TEST_CASE("weights: every tensor's length is checked against the geometry") {
  KdaConfig config = test::tiny_config();
  config.output_gate_bias = true;
  const KdaWeights w = reference::random_weights(config, 1);
  CHECK_NOTHROW(w.validate());
  check_length_matters("q_proj", w, &KdaWeights::q_proj);
  check_length_matters("k_proj", w, &KdaWeights::k_proj);
  check_length_matters("v_proj", w, &KdaWeights::v_proj);
  check_length_matters("q_conv", w, &KdaWeights::q_conv);
  check_length_matters("k_conv", w, &KdaWeights::k_conv);
  check_length_matters("v_conv", w, &KdaWeights::v_conv);
  check_length_matters("f_a_proj", w, &KdaWeights::f_a_proj);
  check_length_matters("f_b_proj", w, &KdaWeights::f_b_proj);
  check_length_matters("g_a_proj", w, &KdaWeights::g_a_proj);
  check_length_matters("g_b_proj", w, &KdaWeights::g_b_proj);
  check_length_matters("g_b_bias", w, &KdaWeights::g_b_bias);
  check_length_matters("b_proj", w, &KdaWeights::b_proj);
  check_length_matters("o_proj", w, &KdaWeights::o_proj);
  check_length_matters("o_norm", w, &KdaWeights::o_norm);
  check_length_matters("a_log", w, &KdaWeights::a_log);
  check_length_matters("dt_bias", w, &KdaWeights::dt_bias);
}

TEST_CASE("weights: a tensor that the geometry does not have must be empty") {
  const KdaWeights low = reference::random_weights(test::tiny_config(), 1);
  KdaWeights w = low;
  w.g_proj = low.q_proj;
  expect_error(ErrorCode::invalid_argument, {"g_proj", "must be empty"}, [&] { w.validate(); });
  w = low;
  w.g_b_bias = low.o_norm;
  expect_error(ErrorCode::invalid_argument, {"g_b_bias", "must be empty"}, [&] { w.validate(); });

  KdaConfig config = test::tiny_config();
  config.output_gate_rank = 0;
  const KdaWeights full = reference::random_weights(config, 1);
  CHECK_NOTHROW(full.validate());
  check_length_matters("g_proj", full, &KdaWeights::g_proj);
  w = full;
  w.g_a_proj = full.b_proj;
  expect_error(ErrorCode::invalid_argument, {"g_a_proj", "must be empty"}, [&] { w.validate(); });
}

TEST_CASE("weights: an invalid geometry is found first") {
  KdaWeights w = reference::random_weights(test::tiny_config(), 1);
  w.config.head_dim = 96;
  expect_error(ErrorCode::unsupported, {"head_dim 96"}, [&] { w.validate(); });
}

}  // namespace
}  // namespace kdart
