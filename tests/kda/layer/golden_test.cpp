// Every case of every golden checkpoint, in every way of running it, within the bounds that the case states.

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <set>
#include <string_view>
#include <vector>

#include "core/runtime/format.h"
#include "kdart/checkpoint.h"
#include "tests/support/layer_runner.h"
#include "tests/support/options.h"
#include "tools/reference/cases.h"

namespace kdart::test {
namespace {

KdaWeights first_layer(const std::filesystem::path& folder) {
  const Checkpoint checkpoint = Checkpoint::open(folder);
  return checkpoint.kda_layer(checkpoint.config().kda_layers.front());
}

std::uint32_t tokens_of(const reference::Case& c) {
  return static_cast<std::uint32_t>(c.tokens);
}

std::uint32_t longest(const std::vector<reference::Case>& cases) {
  std::uint32_t most = 0;
  for (const reference::Case& c : cases) most = std::max(most, tokens_of(c));
  return most;
}

// A golden case on one runner.
struct Golden {
  LayerRunner& runner;
  const reference::Case& c;
  Input input{tokens_of(c), c.hidden, c.recurrent_in, c.conv_in};
  Truth truth{c.out, c.recurrent_out, c.conv_out};

  Output check(std::string_view mode, const Pieces& pieces, double out_bound, double recurrent_bound) {
    Output output = runner.run(input, pieces);
    const Figures figures = measure(output, truth);
    INFO(detail::format("{} {}: out {:.5f} of {:.5f}, recurrent {:.5f} of {:.5f}, conv {:.2e}", c.name, mode,
                        figures.out, out_bound, figures.recurrent, recurrent_bound, figures.conv_excess));
    check_figures(figures, out_bound, recurrent_bound);
    return output;
  }
  Output decode(std::string_view mode, const Pieces& pieces) {
    return check(mode, pieces, c.bounds.decode_out, c.bounds.decode_state);
  }
  Output prefill(std::string_view mode, const Pieces& pieces) {
    return check(mode, pieces, c.bounds.prefill_out, c.bounds.prefill_state);
  }
};

void check_model(std::string_view model) {
  const std::filesystem::path folder = test_data() / "golden" / model;
  const KdaWeights weights = first_layer(folder);
  const std::vector<reference::Case> cases = reference::load_cases(folder / "cases.safetensors", weights.config);
  REQUIRE(!cases.empty());
  LayerRunner runner(KdaDeviceWeights::upload(open_test_device(), weights), longest(cases));
  for (const reference::Case& c : cases) {
    Golden golden{runner, c};
    const std::uint32_t tokens = golden.input.tokens;
    const Output decoded = golden.decode("decode", decode_each(tokens));
    const Output decoded_k = golden.decode("decode_k", decode_cycle(tokens));
    CHECK(difference(decoded, decoded_k) == "");
    golden.prefill("prefill", prefill_whole(tokens));
    for (const std::uint32_t cut : std::set<std::uint32_t>{1U, 16U, 17U, tokens - 1}) {
      if (cut == 0 || cut >= tokens) continue;
      golden.prefill(detail::format("prefill split at {}", cut), prefill_cut(cut, tokens));
    }
  }
}

}  // namespace

// One test per checkpoint, so that they run side by side.
TEST_CASE("golden data: glm-5.3-flash-mini", "[kda][golden]") {
  check_model("glm-5.3-flash-mini");
}
TEST_CASE("golden data: glm-gate-open", "[kda][golden]") {
  check_model("glm-gate-open");
}
TEST_CASE("golden data: glm-gate-saturated", "[kda][golden]") {
  check_model("glm-gate-saturated");
}
TEST_CASE("golden data: head64-mini", "[kda][golden]") {
  check_model("head64-mini");
}
TEST_CASE("golden data: kimi-k3-mini", "[kda][golden]") {
  check_model("kimi-k3-mini");
}
TEST_CASE("golden data: kimi-linear-mini", "[kda][golden]") {
  check_model("kimi-linear-mini");
}
TEST_CASE("golden data: kimi-strong-decay", "[kda][golden]") {
  check_model("kimi-strong-decay");
}

}  // namespace kdart::test
