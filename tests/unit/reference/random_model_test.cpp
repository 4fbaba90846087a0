#include "tools/reference/random_model.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "tests/support/mini_model.h"
#include "tests/unit/reference/contract_emulation.h"
#include "tools/reference/cases.h"
#include "tools/reference/reference.h"

namespace kdart::reference {
namespace {

template <typename T>
std::uint64_t fingerprint(std::span<const T> values) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const std::byte byte : std::as_bytes(values))
    hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001B3U;
  return hash;
}

struct Moments {
  double mean, deviation;
};
Moments moments(std::span<const bf16> x) {
  double sum = 0;
  double squares = 0;
  for (const bf16 value : x) {
    sum += static_cast<double>(to_float(value));
    squares += static_cast<double>(to_float(value)) * static_cast<double>(to_float(value));
  }
  const auto n = static_cast<double>(x.size());
  return {sum / n, std::sqrt(squares / n - sum / n * sum / n)};
}

KdaConfig small_config(GateLaw law, std::uint32_t head_dim, std::uint32_t output_gate_rank) {
  KdaConfig config;
  config.hidden_size = 256;
  config.heads = 2;
  config.head_dim = head_dim;
  config.decay_rank = head_dim;
  config.output_gate_rank = output_gate_rank;
  config.gate_law = law;
  config.gate_lower_bound = law == GateLaw::lower_bound ? -5.0F : 0.0F;
  return config;
}

TEST_CASE("random model: a seed gives the same bits everywhere") {
  const KdaWeights w = random_weights(test::tiny_config(), 1);
  CHECK(fingerprint(w.q_proj) == 0x664FDB9DEF974C75U);
  CHECK(fingerprint(w.a_log) == 0x1B1032F3E9702948U);
  CHECK(fingerprint(w.dt_bias) == 0x8692BF0153528D0BU);
  CHECK(fingerprint(std::span<const bf16>(random_hidden(test::tiny_config(), 3, 1))) == 0xF29AD9DAF91A5AFCU);
  CHECK(fingerprint(std::span<const float>(random_recurrent(test::tiny_config(), 1))) == 0x1397FDE99338DA5DU);
  CHECK(fingerprint(std::span<const float>(random_conv(test::tiny_config(), 1))) == 0x7DEC88E17EA79C86U);
}

TEST_CASE("random model: seeds and tensors are independent") {
  const KdaConfig config = test::tiny_config();
  const KdaWeights one = random_weights(config, 1);
  CHECK(fingerprint(one.q_proj) == fingerprint(random_weights(config, 1).q_proj));
  CHECK(fingerprint(one.q_proj) != fingerprint(random_weights(config, 2).q_proj));
  CHECK(fingerprint(one.q_proj) != fingerprint(random_weights(config, 0).q_proj));
  CHECK(fingerprint(one.q_proj) != fingerprint(one.k_proj));
  CHECK(fingerprint(one.k_proj) != fingerprint(one.v_proj));
  CHECK(random_hidden(config, 2, 1) != random_hidden(config, 2, 2));
}

TEST_CASE("random model: a longer prompt starts with the shorter one") {
  const auto shorter = random_hidden(test::tiny_config(), 3, 9);
  const auto longer = random_hidden(test::tiny_config(), 7, 9);
  CHECK(std::equal(shorter.begin(), shorter.end(), longer.begin()));
}

TEST_CASE("random model: every named geometry's smaller sisters are valid") {
  for (const auto name : geometry_names()) {
    KdaConfig config = named_geometry(name);
    config.hidden_size = 64;
    config.heads = 3;
    const KdaWeights w = random_weights(config, 4);
    CHECK_NOTHROW(w.validate());
    CHECK(w.config == config);
    CHECK(w.keep_alive != nullptr);
  }
}

TEST_CASE("random model: spreads are those of the golden checkpoints") {
  const KdaConfig config = small_config(GateLaw::softplus, 128, 128);
  const KdaWeights w = random_weights(config, 1);
  for (const auto span : {w.q_proj, w.k_proj, w.v_proj, w.o_proj, w.f_a_proj}) {
    CHECK(std::abs(moments(span).mean) < 0.002);
    CHECK(std::abs(moments(span).deviation - 0.0625) < 0.001);  // 1 / sqrt(256)
  }
  CHECK(std::abs(moments(w.f_b_proj).deviation - 0.0884) < 0.002);  // 1 / sqrt(128)
  CHECK(std::abs(moments(w.q_conv).deviation - 0.5) < 0.05);
  CHECK(std::abs(moments(w.o_norm).mean - 1) < 0.05);
  CHECK(std::abs(moments(w.o_norm).deviation - 0.1) < 0.03);
  const auto hidden = random_hidden(config, 64, 1);
  CHECK(std::abs(moments(hidden).deviation - 1) < 0.02);
  CHECK(std::ranges::all_of(w.a_log, [](float x) { return x >= 0 && x <= 2.75F; }));
  CHECK(std::ranges::all_of(w.dt_bias, [](float x) { return x >= -6.9F && x <= -2.25F; }));
  const auto conv = random_conv(config, 1);
  for (std::size_t i = 0; i < conv.size(); i += 4) REQUIRE(conv[i] == 0);
  CHECK(std::ranges::all_of(conv, [](float x) { return to_float(to_bf16(x)) == x; }));
}

// Whoever checks an implementation on random models by the base bounds relies on this.
TEST_CASE("random model: the rounding contract alone stays inside the base bounds") {
  for (const auto& config : {small_config(GateLaw::softplus, 128, 128), small_config(GateLaw::lower_bound, 128, 0),
                             small_config(GateLaw::softplus, 64, 64)}) {
    for (const std::uint64_t seed : {1U, 2U, 3U}) {
      const std::uint64_t tokens = seed == 3 ? 17 : 64;
      const KdaWeights w = random_weights(config, seed);
      const auto hidden = random_hidden(config, tokens, seed);
      const auto recurrent = random_recurrent(config, seed);
      const auto conv = random_conv(config, seed);
      State truth{{recurrent.begin(), recurrent.end()}, {conv.begin(), conv.end()}};
      const auto out = test::to_f32(forward(w, hidden, tokens, truth));
      const auto state = test::to_f32(truth.recurrent);
      const Bounds bounds = base_bounds(tokens);
      INFO(to_string(config.gate_law) << " head_dim " << config.head_dim << " seed " << seed);
      const auto decoded = test::ContractEmulation(w, tokens).decode(hidden, recurrent, conv);
      const auto prefilled = test::ContractEmulation(w, tokens).prefill(hidden, recurrent, conv, 16);
      CAPTURE(relative_l2(decoded.out, out), relative_l2(decoded.recurrent, state), relative_l2(prefilled.out, out));
      CHECK(relative_l2(decoded.out, out) <= bounds.decode_out);
      CHECK(relative_l2(decoded.recurrent, state) <= bounds.decode_state);
      CHECK(relative_l2(prefilled.out, out) <= bounds.prefill_out);
      CHECK(relative_l2(prefilled.recurrent, state) <= bounds.prefill_state);
    }
  }
}

}  // namespace
}  // namespace kdart::reference
