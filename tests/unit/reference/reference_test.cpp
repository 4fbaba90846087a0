#include "tools/reference/reference.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "kdart/checkpoint.h"
#include "tests/support/expect_error.h"
#include "tests/support/mini_model.h"
#include "tests/support/options.h"
#include "tests/unit/reference/contract_emulation.h"
#include "tests/unit/reference/plain_layer.h"
#include "tools/reference/cases.h"

namespace kdart::reference {
namespace {

using test::expect_error;
using test::to_f32;

struct GoldenCase {
  std::string model;
  KdaWeights weights;
  Case data;
};

std::vector<GoldenCase> golden_cases() {
  std::vector<GoldenCase> result;
  for (const auto& entry : std::filesystem::directory_iterator(test::test_data() / "golden")) {
    const Checkpoint checkpoint = Checkpoint::open(entry.path());
    const KdaWeights weights = checkpoint.kda_layer(checkpoint.config().kda_layers.at(0));
    for (auto& data : load_cases(entry.path() / "cases.safetensors", weights.config)) {
      result.push_back({entry.path().filename().string(), weights, std::move(data)});
    }
  }
  return result;
}

TEST_CASE("reference: equals the golden truth in every case of every model") {
  const auto cases = golden_cases();
  CHECK(cases.size() == 32);
  for (const auto& [model, weights, c] : cases) {
    INFO(model << " " << c.name);
    State state{{c.recurrent_in.begin(), c.recurrent_in.end()}, {c.conv_in.begin(), c.conv_in.end()}};
    const auto out = forward(weights, c.hidden, c.tokens, state);
    CHECK(relative_l2(to_f32(out), c.out) < 1e-6);
    CHECK(relative_l2(to_f32(state.recurrent), c.recurrent_out) < 1e-6);
    double worst = 0;
    for (std::size_t i = 0; i < state.conv.size(); ++i) {
      if (i % 4 != 0) worst = std::max(worst, std::abs(state.conv[i] - static_cast<double>(c.conv_out[i])));
    }
    CHECK(worst < 1e-6);
  }
}

// An implementation that follows the rounding contract exactly must fit the bounds that the golden data states.
TEST_CASE("reference: the per-kernel references, joined by the rounding contract, pass every golden case") {
  for (const auto& [model, weights, c] : golden_cases()) {
    INFO(model << " " << c.name);
    const auto decoded = test::ContractEmulation(weights, c.tokens).decode(c.hidden, c.recurrent_in, c.conv_in);
    CHECK(relative_l2(decoded.out, c.out) <= c.bounds.decode_out);
    CHECK(relative_l2(decoded.recurrent, c.recurrent_out) <= c.bounds.decode_state);
    CHECK(conv_max_excess(decoded.conv, c.conv_out) <= 0);
    const auto prefilled = test::ContractEmulation(weights, c.tokens).prefill(c.hidden, c.recurrent_in, c.conv_in, 16);
    CHECK(relative_l2(prefilled.out, c.out) <= c.bounds.prefill_out);
    CHECK(relative_l2(prefilled.recurrent, c.recurrent_out) <= c.bounds.prefill_state);
    CHECK(conv_max_excess(prefilled.conv, c.conv_out) <= 0);
  }
}

TEST_CASE("reference: a sequence may be cut anywhere, bit for bit") {
  const KdaConfig config = test::tiny_config();
  const KdaWeights weights = random_weights(config, 5);
  const std::uint64_t tokens = 1030;  // over two internal blocks
  const auto hidden = random_hidden(config, tokens, 5);
  State whole = zero_state(config);
  const auto expected = forward(weights, hidden, tokens, whole);
  REQUIRE(expected.size() == tokens * config.hidden_size);
  for (const std::uint64_t cut : {1U, 3U, 64U, 512U, 513U, 1029U}) {
    State state = zero_state(config);
    auto out = forward(weights, std::span(hidden).first(cut * config.hidden_size), cut, state);
    const auto rest = forward(weights, std::span(hidden).subspan(cut * config.hidden_size), tokens - cut, state);
    out.insert(out.end(), rest.begin(), rest.end());
    CHECK(out == expected);
    CHECK(state.recurrent == whole.recurrent);
    CHECK(state.conv == whole.conv);
  }
}

double relative(std::span<const double> x, std::span<const double> truth) {
  REQUIRE(x.size() == truth.size());
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    difference += (x[i] - truth[i]) * (x[i] - truth[i]);
    norm += truth[i] * truth[i];
  }
  return std::sqrt(difference / norm);
}

// Heads of both sizes, both gate laws, both forms of the output gate; sizes that fill no tile.
std::vector<KdaConfig> shapes() {
  std::vector<KdaConfig> result(3, test::tiny_config());
  result[1].heads = 3;
  result[1].head_dim = 128;
  result[1].hidden_size = 264;
  result[1].output_gate_rank = 0;
  result[1].gate_law = GateLaw::lower_bound;
  result[1].gate_lower_bound = -5.0F;
  result[2].output_gate_bias = true;
  result[2].hidden_size = 40;
  return result;
}

TEST_CASE("reference: blocks and threads change nothing but the last digits") {
  for (const KdaConfig& config : shapes()) {
    const KdaWeights weights = random_weights(config, 3);
    const std::uint64_t tokens = 19;
    const auto hidden = random_hidden(config, tokens, 3);
    const auto recurrent = random_recurrent(config, 3);
    const auto conv = random_conv(config, 3);
    State state{{recurrent.begin(), recurrent.end()}, {conv.begin(), conv.end()}};
    State plain = state;
    const auto out = forward(weights, hidden, tokens, state);
    std::vector<double> expected;
    for (std::size_t t = 0; t < tokens; ++t) {
      const auto row = std::span(hidden).subspan(t * config.hidden_size, config.hidden_size);
      const auto one = test::PlainLayer(weights).token(row, plain);
      expected.insert(expected.end(), one.begin(), one.end());
    }
    CHECK(relative(out, expected) < 1e-12);
    CHECK(relative(state.recurrent, plain.recurrent) < 1e-12);
    CHECK(relative(state.conv, plain.conv) < 1e-12);
  }
}

TEST_CASE("reference: some rows are those rows of all, with the same states") {
  const KdaConfig config = test::tiny_config();
  const KdaWeights weights = random_weights(config, 6);
  const std::uint64_t tokens = 1100;
  const auto hidden = random_hidden(config, tokens, 6);
  State whole = zero_state(config);
  const auto all = forward(weights, hidden, tokens, whole);
  const std::vector<std::vector<std::uint64_t>> lists{{}, {0}, {511, 512}, {0, 15, 16, 700, 1099}};
  for (const auto& rows : lists) {
    State state = zero_state(config);
    std::uint64_t told = 0;
    const auto some = forward_rows(weights, hidden, tokens, state, rows, [&](std::uint64_t n) { told += n; });
    std::vector<double> expected;
    for (const std::uint64_t row : rows) {
      const auto first = all.begin() + static_cast<std::ptrdiff_t>(row * config.hidden_size);
      expected.insert(expected.end(), first, first + config.hidden_size);
    }
    CHECK(some == expected);
    CHECK(state.recurrent == whole.recurrent);
    CHECK(state.conv == whole.conv);
    CHECK(told == tokens);
  }
}

TEST_CASE("reference: rows that are no ascending rows of the sequence are refused") {
  const KdaConfig config = test::tiny_config();
  const KdaWeights weights = random_weights(config, 1);
  const auto hidden = random_hidden(config, 4, 1);
  State state = zero_state(config);
  const std::vector<std::uint64_t> late{1, 4}, twice{1, 1}, back{2, 1};
  for (const auto& rows : {late, twice, back}) {
    expect_error(ErrorCode::invalid_argument, {"row 1 of the list", std::to_string(rows[1])},
                 [&] { (void)forward_rows(weights, hidden, 4, state, rows); });
  }
  CHECK(state.recurrent == zero_state(config).recurrent);
}

TEST_CASE("reference: no tokens leave the state alone") {
  const KdaConfig config = test::tiny_config();
  State state = zero_state(config);
  state.recurrent[5] = 2;
  CHECK(forward(random_weights(config, 1), {}, 0, state).empty());
  CHECK(state.recurrent[5] == 2);
}

TEST_CASE("reference: gate inputs at the end of the float range give no NaN") {
  for (const GateLaw law : {GateLaw::softplus, GateLaw::lower_bound}) {
    KdaConfig config = test::tiny_config();
    config.gate_law = law;
    config.gate_lower_bound = law == GateLaw::lower_bound ? -5.0F : 0.0F;
    KdaWeights weights = random_weights(config, 2);
    std::vector<bf16> f_a(weights.f_a_proj.begin(), weights.f_a_proj.end());
    for (std::size_t i = 0; i < f_a.size(); ++i) f_a[i] = to_bf16(i % 2 == 0 ? 3e37F : -3e37F);
    weights.f_a_proj = f_a;
    State state = zero_state(config);
    state.recurrent.assign(state.recurrent.size(), 1.0);
    const auto out = forward(weights, random_hidden(config, 5, 2), 5, state);
    const auto finite = [](double x) { return std::isfinite(x); };
    CHECK(std::all_of(out.begin(), out.end(), finite));
    CHECK(std::all_of(state.recurrent.begin(), state.recurrent.end(), finite));
  }
}

TEST_CASE("reference: lengths are checked") {
  const KdaConfig config = test::tiny_config();
  const KdaWeights weights = random_weights(config, 1);
  const auto hidden = random_hidden(config, 2, 1);
  State state = zero_state(config);
  expect_error(ErrorCode::invalid_argument, {"hidden", "32", "48"}, [&] { (void)forward(weights, hidden, 3, state); });
  state.conv.pop_back();
  expect_error(ErrorCode::invalid_argument, {"state.conv"}, [&] { (void)forward(weights, hidden, 2, state); });
  state = zero_state(config);
  state.recurrent.pop_back();
  expect_error(ErrorCode::invalid_argument, {"state.recurrent"}, [&] { (void)forward(weights, hidden, 2, state); });
}

}  // namespace
}  // namespace kdart::reference
