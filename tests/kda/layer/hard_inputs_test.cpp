// Inputs that broke such layers elsewhere, through the whole layer: decode and prefill at both chunk lengths against the
// float64 truth, within the bounds for hard inputs, nothing NaN.

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "core/runtime/format.h"
#include "tests/support/layer_runner.h"
#include "tests/support/models.h"
#include "tools/reference/cases.h"
#include "tools/reference/random_model.h"

namespace kdart::test {
namespace {

constexpr reference::Bounds hard{0.025, 0.015, 0.025, 0.015};

bf16 bf(double x) {
  return to_bf16(static_cast<float>(x));
}

std::vector<KdaConfig> geometries() {
  return {softplus_layer(), full_rank_layer()};
}

// Lower bound with two heads of 64, for tests of one head against the other.
KdaConfig two_bounded_heads() {
  KdaConfig config = lower_bound_layer();
  config.heads = 2;
  return config;
}

void check(std::string_view name, const EditableWeights& weights, const Input& input, const reference::Bounds& bounds) {
  const KdaWeights view = weights.view();
  const Truth truth = truth_of(view, input);
  const auto device = KdaDeviceWeights::upload(open_test_device(), view);
  const auto judge = [&](LayerRunner& runner, std::string_view mode, const Pieces& pieces, double out, double state) {
    const Figures figures = measure(runner.run(input, pieces), truth);
    INFO(detail::format("{}, {} tokens, {}, D {}, {}: out {:.5f} of {}, recurrent {:.5f} of {}, conv {:.2e}", name,
                        input.tokens, to_string(weights.config.gate_law), weights.config.head_dim, mode, figures.out,
                        out, figures.recurrent, state, figures.conv_excess));
    check_figures(figures, out, state);
  };
  LayerRunner runner(device, input.tokens);
  judge(runner, "decode", {{Call::decode_k, input.tokens}}, bounds.decode_out, bounds.decode_state);
  judge(runner, "prefill", prefill_whole(input.tokens), bounds.prefill_out, bounds.prefill_state);
  if (usable_chunks(weights.config, *runner.backend()).back() != 32) return;
  KdaOptions options;
  options.chunk = 32;
  options.kernels = runner.layer().kernels();
  LayerRunner wide(device, input.tokens, options);
  judge(wide, "prefill in chunks of 32", prefill_whole(input.tokens), bounds.prefill_out, bounds.prefill_state);
}

EditableWeights weights_of(const KdaConfig& config, std::uint64_t seed = 101) {
  return EditableWeights(reference::random_weights(config, seed));
}

// Channel 0 of every token becomes 1: a weight column that acts as a bias.
constexpr std::size_t constant_channel = 0;
void add_constant(const KdaConfig& config, Input& input) {
  for (std::size_t t = 0; t < input.tokens; ++t) input.hidden[t * config.hidden_size + constant_channel] = bf(1.0);
}

// beta of head h is sigmoid(b[h]), whatever the token.
void fix_beta(EditableWeights& weights, const std::vector<double>& b) {
  std::fill(weights.b_proj.begin(), weights.b_proj.end(), bf16{});
  for (std::size_t h = 0; h < b.size(); ++h) {
    weights.b_proj[h * weights.config.hidden_size + constant_channel] = bf(b[h]);
  }
}

// f is `value(channel)`, whatever the token.
template <class Value>
void fix_f(EditableWeights& weights, const Value& value) {
  std::fill(weights.f_a_proj.begin(), weights.f_a_proj.end(), bf16{});
  weights.f_a_proj[constant_channel] = bf(1.0);  // row 0
  std::fill(weights.f_b_proj.begin(), weights.f_b_proj.end(), bf16{});
  for (std::size_t c = 0; c < weights.config.qkv(); ++c) {
    weights.f_b_proj[c * weights.config.decay_rank] = bf(value(c));
  }
}

void make_identical(const KdaConfig& config, Input& input) {
  const auto width = static_cast<std::ptrdiff_t>(config.hidden_size);
  for (std::ptrdiff_t t = 1; t < static_cast<std::ptrdiff_t>(input.tokens); ++t) {
    std::copy_n(input.hidden.begin(), width, input.hidden.begin() + t * width);
  }
}

// Every log-decay at the lower bound, or as good as none.
void saturate(EditableWeights& weights, bool open) {
  std::fill(weights.a_log.begin(), weights.a_log.end(), static_cast<float>(std::log(16.0)));
  std::fill(weights.dt_bias.begin(), weights.dt_bias.end(), open ? -8.0F : 8.0F);
}

void scale(std::vector<bf16>& x, double factor) {
  for (bf16& value : x) value = bf(static_cast<double>(to_float(value)) * factor);
}

}  // namespace

TEST_CASE("lengths around the window and the chunk", "[kda][layer][hard]") {
  for (const KdaConfig& config : geometries()) {
    const EditableWeights weights = weights_of(config);
    for (const std::uint32_t tokens : {1U, 3U, 15U, 16U, 17U, 31U}) {
      check("ordinary", weights, random_input(config, tokens, tokens), reference::base_bounds(tokens));
    }
  }
  const KdaConfig config = softplus_layer();
  check("ordinary", weights_of(config), random_input(config, 500, 500), reference::base_bounds(500));
}

TEST_CASE("gate saturated at its bound over whole chunks", "[kda][layer][hard]") {
  for (const KdaConfig& config : {lower_bound_layer(), full_rank_layer()}) {
    EditableWeights weights = weights_of(config);
    saturate(weights, false);
    check("saturated", weights, random_input(config, 48, 1), hard);
    fix_f(weights, [](std::size_t) { return 100.0; });
    Input input = random_input(config, 33, 2);
    add_constant(config, input);
    check("saturated to the last bit", weights, input, hard);
  }
}

TEST_CASE("gate open over 500 tokens", "[kda][layer][hard]") {
  const KdaConfig config = lower_bound_layer();
  EditableWeights weights = weights_of(config);
  saturate(weights, true);
  check("open", weights, random_input(config, 500, 3), hard);
}

TEST_CASE("one key channel saturated beside an open one", "[kda][layer][hard]") {
  for (const KdaConfig& config : {two_bounded_heads(), full_rank_layer(), softplus_layer()}) {
    EditableWeights weights = weights_of(config);
    std::fill(weights.a_log.begin(), weights.a_log.end(), 1.0F);
    fix_f(weights, [](std::size_t c) { return c % 2 == 0 ? 40.0 : -40.0; });
    Input input = random_input(config, 50, 4);
    add_constant(config, input);
    check("mixed", weights, input, hard);
  }
}

TEST_CASE("f of +-3e38", "[kda][layer][hard]") {
  for (const KdaConfig& config : geometries()) {
    for (const double a : {1e-3, 1.0, 16.0}) {
      EditableWeights weights = weights_of(config);
      std::fill(weights.a_log.begin(), weights.a_log.end(), static_cast<float>(std::log(a)));
      fix_f(weights, [](std::size_t c) { return c % 3 == 0 ? 3e38 : -3e38; });
      Input input = random_input(config, 35, 5);
      add_constant(config, input);
      check("huge f", weights, input, hard);
    }
  }
}

TEST_CASE("identical and collinear tokens with beta near 1", "[kda][layer][hard]") {
  for (const KdaConfig& config : geometries()) {
    EditableWeights weights = weights_of(config);
    fix_beta(weights, {8.0, 16.0});
    Input input = random_input(config, 64, 6);
    make_identical(config, input);
    add_constant(config, input);
    check("identical", weights, input, hard);
    // Half the scale of the other half, the constant apart: keys in one direction.
    for (std::size_t t = 0; t < input.tokens; t += 2) {
      for (std::size_t c = 1; c < config.hidden_size; ++c) {
        bf16& value = input.hidden[t * config.hidden_size + c];
        value = bf(0.5 * static_cast<double>(to_float(value)));
      }
    }
    check("collinear", weights, input, hard);
  }
}

TEST_CASE("identical tokens, beta near 1 and no decay", "[kda][layer][hard]") {
  const KdaConfig config = two_bounded_heads();
  EditableWeights weights = weights_of(config);
  saturate(weights, true);
  fix_beta(weights, {8.0, 16.0});
  Input input = random_input(config, 80, 7);
  make_identical(config, input);
  add_constant(config, input);
  check("identical, open", weights, input, hard);
}

TEST_CASE("beta exactly 0 and exactly 1", "[kda][layer][hard]") {
  for (const KdaConfig& config : geometries()) {
    EditableWeights weights = weights_of(config);
    for (const auto& [first, second] : {std::pair(-200.0, 200.0), std::pair(3e38, -3e38)}) {
      fix_beta(weights, {first, second});
      Input input = random_input(config, 40, 8);
      add_constant(config, input);
      check("beta 0 and 1", weights, input, hard);
      make_identical(config, input);
      check("beta 0 and 1, identical", weights, input, hard);
    }
  }
}

TEST_CASE("zero rows", "[kda][layer][hard]") {
  for (const KdaConfig& config : geometries()) {
    const EditableWeights weights = weights_of(config);
    Input input = random_input(config, 36, 9);
    // Runs of zeros longer than the window, over a chunk's edge, at the start and at the end.
    for (const auto& [first, last] : {std::pair(0U, 6U), std::pair(13U, 20U), std::pair(30U, 36U)}) {
      std::fill(input.hidden.begin() + static_cast<std::ptrdiff_t>(first) * config.hidden_size,
                input.hidden.begin() + static_cast<std::ptrdiff_t>(last) * config.hidden_size, bf16{});
    }
    check("some rows zero", weights, input, hard);
    std::fill(input.hidden.begin(), input.hidden.end(), bf16{});
    check("all rows zero", weights, input, hard);
    std::fill(input.recurrent.begin(), input.recurrent.end(), 0.0F);
    std::fill(input.conv.begin(), input.conv.end(), 0.0F);
    check("everything zero", weights, input, hard);
  }
}

TEST_CASE("tiny rows, where the eps decides", "[kda][layer][hard]") {
  for (const KdaConfig& config : geometries()) {
    const EditableWeights weights = weights_of(config);
    for (const double factor : {0x1p-10, 0x1p-14}) {
      Input input = random_input(config, 20, 10);
      scale(input.hidden, factor);
      std::fill(input.recurrent.begin(), input.recurrent.end(), 0.0F);
      std::fill(input.conv.begin(), input.conv.end(), 0.0F);
      check("tiny", weights, input, hard);
    }
  }
}

TEST_CASE("A_log from exp 1e-3 to beyond 16, dt_bias of +-8", "[kda][layer][hard]") {
  for (const KdaConfig& config : {softplus_layer(), two_bounded_heads(), full_rank_layer()}) {
    for (const auto& [first, second] : {std::pair(1e-3, 16.0), std::pair(64.0, 1000.0)}) {
      EditableWeights weights = weights_of(config);
      weights.a_log = {static_cast<float>(std::log(first)), static_cast<float>(std::log(second))};
      for (std::size_t c = 0; c < weights.dt_bias.size(); ++c) weights.dt_bias[c] = c % 2 == 0 ? 8.0F : -8.0F;
      check("extreme decay", weights, random_input(config, 37, 11), hard);
    }
  }
}

TEST_CASE("convolution outputs up to 2^50", "[kda][layer][hard]") {
  for (const KdaConfig& config : geometries()) {
    EditableWeights weights = weights_of(config);
    scale(weights.q_conv, 0x1p48);
    scale(weights.k_conv, 0x1p48);
    check("huge q and k", weights, random_input(config, 34, 12), hard);
    scale(weights.v_conv, 0x1p48);
    check("huge q, k and v", weights, random_input(config, 34, 13), hard);
  }
}

TEST_CASE("a large initial state", "[kda][layer][hard]") {
  for (const KdaConfig& config : geometries()) {
    const EditableWeights weights = weights_of(config);
    for (const float factor : {1e3F, 1e6F}) {
      Input input = random_input(config, 40, 14);
      for (float& value : input.recurrent) value *= factor;
      for (float& value : input.conv) value *= 16.0F;
      check("large state", weights, input, hard);
    }
  }
}

}  // namespace kdart::test
