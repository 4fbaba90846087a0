// Prefill's promises: splits, pieces, padding, and what follows a prefill.
#include <catch2/catch_test_macros.hpp>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/runtime/format.h"
#include "kdart/gemm_service.h"
#include "tests/support/layer_runner.h"
#include "tests/support/models.h"
#include "tools/reference/cases.h"
#include "tools/reference/random_model.h"

namespace kdart::test {
namespace {

// Every way to do a prefill on a device: the chunks that it has room for, each with its GEMM service's products and with
// the set's own, where there are both.
std::vector<KdaOptions> prefills(const KdaConfig& config, GpuBackend& device) {
  std::vector<KdaGemm> products{KdaGemm::automatic};
  if (device.service<GemmService>() != nullptr) products.push_back(KdaGemm::own);
  std::vector<KdaOptions> result;
  for (const std::uint32_t chunk : usable_chunks(config, device)) {
    for (const KdaGemm gemm : products) {
      result.emplace_back();
      result.back().chunk = chunk;
      result.back().gemm = gemm;
    }
  }
  return result;
}

std::string text(const KdaConfig& config, const KdaOptions& options) {
  return detail::format("D {}, chunk {}, {} products", config.head_dim, options.chunk,
                        options.gemm == KdaGemm::own ? "own" : "automatic");
}

// One geometry's weights on both sides.
struct Model {
  explicit Model(const KdaConfig& geometry)
      : config(geometry),
        host(reference::random_weights(config, 17)),
        device(KdaDeviceWeights::upload(open_test_device(), host)) {}
  KdaConfig config;
  KdaWeights host;
  std::shared_ptr<const KdaDeviceWeights> device;
};

void check_prefill(const Figures& figures, std::uint32_t tokens) {
  const reference::Bounds bounds = reference::base_bounds(tokens);
  check_figures(figures, bounds.prefill_out, bounds.prefill_state);
}

}  // namespace

TEST_CASE("prefill split at a multiple of the chunk has the bits of one prefill", "[kda][layer][prefill]") {
  constexpr std::uint32_t tokens = 75;
  for (const KdaConfig& config : {softplus_layer(), full_rank_layer()}) {
    const Model model(config);
    const Input input = random_input(config, tokens, 1);
    for (const KdaOptions& options : prefills(config, *model.device->backend())) {
      LayerRunner runner(model.device, tokens, options);
      const Output whole = runner.run(input, prefill_whole(tokens));
      for (std::uint32_t cut = options.chunk; cut < tokens; cut += options.chunk) {
        INFO(text(config, options) << ", cut at " << cut);
        CHECK(difference(runner.run(input, prefill_cut(cut, tokens)), whole) == "");
      }
    }
  }
}

TEST_CASE("prefill split anywhere stays within the bounds", "[kda][layer][prefill]") {
  std::mt19937 random(20);  // fixed: how near a cut comes to the bounds differs from cut to cut
  constexpr std::uint32_t tokens = 75;
  for (const KdaConfig& config : {lower_bound_layer(), full_rank_layer()}) {
    const Model model(config);
    const Input input = random_input(config, tokens, 2);
    const Truth truth = truth_of(model.host, input);
    for (const KdaOptions& options : prefills(config, *model.device->backend())) {
      LayerRunner runner(model.device, tokens, options);
      INFO(text(config, options));
      check_prefill(measure(runner.run(input, prefill_whole(tokens)), truth), tokens);
      // Below the convolution's window, around a chunk, and three anywhere.
      std::vector<std::uint32_t> cuts{1, 2, 3, options.chunk - 1, options.chunk + 1, tokens - 1};
      for (int i = 0; i < 3; ++i) cuts.push_back(1 + static_cast<std::uint32_t>(random() % (tokens - 1)));
      for (const std::uint32_t cut : cuts) {
        INFO("cut at " << cut);
        check_prefill(measure(runner.run(input, prefill_cut(cut, tokens)), truth), tokens);
      }
    }
  }
}

TEST_CASE("decode continues where prefill ended", "[kda][layer][prefill][decode]") {
  constexpr std::uint32_t tokens = 45;
  for (const KdaConfig& config : {softplus_layer(), lower_bound_layer()}) {
    const Model model(config);
    LayerRunner runner(model.device, tokens);
    const Input input = random_input(config, tokens, 3);
    const Truth truth = truth_of(model.host, input);
    for (const std::uint32_t prompt : {1U, 2U, 16U, 33U}) {
      INFO(config.heads << " heads, prompt of " << prompt);
      check_prefill(measure(runner.run(input, {{Call::prefill, prompt}, {Call::decode_k, tokens - prompt}}), truth),
                    tokens);
    }
    // And back again: a prefill after decode reads the window that decode left.
    check_prefill(measure(runner.run(input, {{Call::prefill, 17}, {Call::decode, 1}, {Call::prefill, 27}}), truth),
                  tokens);
  }
}

TEST_CASE("prefill leaves the window that decode leaves, bit for bit", "[kda][layer][prefill]") {
  const KdaConfig config = softplus_layer();
  const Model model(config);
  KdaOptions options;
  options.gemm = KdaGemm::own;  // a service's products have sums of another order than decode's
  for (const std::uint32_t tokens : {1U, 2U, 3U, 4U, 16U, 17U}) {
    INFO(tokens << " tokens");
    LayerRunner runner(model.device, tokens, options);
    const Input input = random_input(config, tokens, 4);
    CHECK(runner.run(input, prefill_whole(tokens)).conv == runner.run(input, decode_each(tokens)).conv);
  }
}

TEST_CASE("a prompt in pieces has the bits of one piece", "[kda][layer][prefill]") {
  constexpr std::uint32_t tokens = 113;
  const KdaConfig config = softplus_layer();
  const Model model(config);
  const Input input = random_input(config, tokens, 5);
  for (const KdaOptions& options : prefills(config, *model.device->backend())) {
    LayerRunner whole(model.device, tokens, options);
    const Output expected = whole.run(input, prefill_whole(tokens));
    // Not a multiple of the chunk, less than one chunk, more than the prompt: all are rounded to whole chunks.
    for (const std::uint32_t limit : {1U, 16U, 33U, 64U, 1000U}) {
      INFO(text(config, options) << ", " << limit << " tokens per launch");
      KdaOptions limited = options;
      limited.max_tokens_per_launch = limit;
      LayerRunner by_layer(model.device, tokens, limited);
      CHECK(difference(by_layer.run(input, prefill_whole(tokens)), expected) == "");
      LayerRunner by_workspace(model.device, tokens, options, limit);
      CHECK(difference(by_workspace.run(input, prefill_whole(tokens)), expected) == "");
    }
  }
}

TEST_CASE("what lies in the padding changes no bit", "[kda][layer][prefill][padding]") {
  for (const KdaConfig& config : {lower_bound_layer(), full_rank_layer()}) {
    const Model model(config);
    for (const KdaOptions& options : prefills(config, *model.device->backend())) {
      for (const std::uint32_t tokens : {1U, 15U, 16U, 17U, 47U}) {
        INFO(text(config, options) << ", " << tokens << " tokens");
        LayerRunner runner(model.device, tokens, options);
        const Input input = random_input(config, tokens, 6);
        const Output plain = runner.run(input, prefill_whole(tokens));
        for (const float value : {std::numeric_limits<float>::quiet_NaN(), 7.5F, 1e30F}) {
          INFO("padding " << value);
          runner.start(input);
          runner.layer().prefill_with_pad_fill(runner.hidden(0), tokens, runner.state(), runner.workspace(),
                                               runner.stream(), value, runner.out(0));
          CHECK(difference(runner.finish(), plain) == "");
        }
      }
    }
  }
}

TEST_CASE("a prefill writes no row of the output past its tokens", "[kda][layer][prefill][padding]") {
  const KdaConfig config = softplus_layer();
  const Model model(config);
  LayerRunner runner(model.device, 32);
  const Input input = random_input(config, 32, 8);
  runner.start(input);
  runner.submit({Call::prefill, 19}, 0);
  const Output output = runner.finish();
  for (std::size_t i = 19 * std::size_t{config.hidden_size}; i < output.out.size(); ++i) {
    REQUIRE(output.out[i].bits == 0x7FC0U);  // what start() put there
  }
}

}  // namespace kdart::test
