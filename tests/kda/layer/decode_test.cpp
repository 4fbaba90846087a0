// Decode's promises: however a sequence is cut into decode and decode_k calls, with whichever kernels, the bits are the
// same.

#include <algorithm>
#include <catch2/catch_get_random_seed.hpp>
#include <catch2/catch_test_macros.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "core/runtime/format.h"
#include "tests/support/layer_runner.h"
#include "tests/support/models.h"
#include "tools/reference/random_model.h"

namespace kdart::test {
namespace {

constexpr std::uint32_t tokens = 40;

std::shared_ptr<const KdaDeviceWeights> device_weights(const KdaConfig& config) {
  return KdaDeviceWeights::upload(open_test_device(), reference::random_weights(config, 7));
}

// Widths up to 24 are the interesting ones: the batched projection takes 16 rows.
Pieces random_cutting(std::mt19937& random, std::uint32_t count) {
  Pieces pieces;
  while (count > 0) {
    const std::uint32_t width = std::min(count, 1 + static_cast<std::uint32_t>(random() % 24));
    const bool single = width == 1 && random() % 2 == 0;
    pieces.push_back({single ? Call::decode : Call::decode_k, width});
    count -= width;
  }
  return pieces;
}

std::string text(const Pieces& pieces) {
  std::string result;
  for (const Piece& piece : pieces) result += detail::format(" {}", piece.tokens);
  return result;
}

KdaOptions without(std::vector<std::string> kernels) {
  KdaOptions options;
  options.without = std::move(kernels);
  return options;
}

}  // namespace

TEST_CASE("any cutting of a sequence into decode and decode_k gives the bits of decode", "[kda][layer][decode]") {
  const std::uint32_t seed = Catch::getSeed();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (const KdaConfig& config : {softplus_layer(), lower_bound_layer(), full_rank_layer()}) {
    const auto weights = device_weights(config);
    LayerRunner runner(weights, tokens);
    const Input input = random_input(config, tokens, random());
    const Output decoded = runner.run(input, decode_each(tokens));
    for (int i = 0; i < 4; ++i) {
      const Pieces pieces = random_cutting(random, tokens);
      INFO("D " << config.head_dim << ", " << config.heads << " heads, pieces" << text(pieces));
      CHECK(difference(runner.run(input, pieces), decoded) == "");
    }
    INFO("D " << config.head_dim << ", " << config.heads << " heads, one piece");
    CHECK(difference(runner.run(input, {{Call::decode_k, tokens}}), decoded) == "");
  }
}

TEST_CASE("a workspace that holds fewer rows than a decode_k call changes no bit", "[kda][layer][decode]") {
  const KdaConfig config = softplus_layer();
  const auto weights = device_weights(config);
  LayerRunner wide(weights, tokens);
  LayerRunner narrow(weights, tokens, {}, 1);  // rounded up to 32 rows
  REQUIRE(narrow.workspace().rows() < tokens);
  const Input input = random_input(config, tokens, 3);
  CHECK(difference(narrow.run(input, {{Call::decode_k, tokens}}), wide.run(input, decode_each(tokens))) == "");
}

TEST_CASE("optional kernels change no bit of decode", "[kda][layer][decode]") {
  for (const KdaConfig& config : {softplus_layer(), full_rank_layer()}) {
    const auto weights = device_weights(config);
    LayerRunner all(weights, tokens);
    const Input input = random_input(config, tokens, 5);
    const Output expected = all.run(input, decode_each(tokens));
    // What a set offers is taken, else the comparisons below compare a kernel with itself.
    const bool has_smem = static_cast<bool>(all.layer().kernels()->find("recurrent_smem"));
    CHECK(all.layer().recurrent_kernel() == (has_smem ? "recurrent_smem" : "recurrent"));

    for (const std::vector<std::string>& names :
         {std::vector<std::string>{"recurrent_smem"}, std::vector<std::string>{"dense_gemv_bf16_batchm"},
          std::vector<std::string>{"recurrent_smem", "dense_gemv_bf16_batchm"}}) {
      INFO("D " << config.head_dim << " without " << names.front() << ", " << names.size() << " in all");
      KdaOptions options = without(names);
      options.kernels = all.layer().kernels();
      LayerRunner fewer(weights, tokens, options);
      if (names.front() == "recurrent_smem") CHECK(fewer.layer().recurrent_kernel() == "recurrent");
      CHECK(difference(fewer.run(input, decode_each(tokens)), expected) == "");
      CHECK(difference(fewer.run(input, decode_cycle(tokens)), expected) == "");
    }
  }
}

TEST_CASE("the reference route is the automatic one, bit for bit, where a set offers no other",
          "[kda][layer][decode]") {
  const KdaConfig config = lower_bound_layer();
  const auto weights = device_weights(config);
  LayerRunner automatic(weights, tokens);
  KdaOptions options;
  options.route = KdaRoute::reference;
  LayerRunner reference(weights, tokens, options);
  CHECK(reference.layer().route() == KdaRoute::reference);
  CHECK(automatic.layer().route() != KdaRoute::automatic);
  const Input input = random_input(config, tokens, 21);
  if (automatic.layer().route() == KdaRoute::reference) {
    CHECK(difference(automatic.run(input, decode_cycle(tokens)), reference.run(input, decode_cycle(tokens))) == "");
  }
}

TEST_CASE("the same call twice gives the same bits", "[kda][layer][decode][prefill]") {
  const KdaConfig config = lower_bound_layer();
  const auto weights = device_weights(config);
  LayerRunner runner(weights, tokens);
  LayerRunner other(weights, 2 * tokens);  // another workspace, other addresses
  const Input input = random_input(config, tokens, 9);
  for (const Pieces& pieces : {decode_each(tokens), decode_cycle(tokens), prefill_whole(tokens)}) {
    const Output first = runner.run(input, pieces);
    CHECK(difference(runner.run(input, pieces), first) == "");
    CHECK(difference(other.run(input, pieces), first) == "");
  }
}

TEST_CASE("a token does not depend on the tokens after it", "[kda][layer][decode]") {
  const KdaConfig config = softplus_layer();
  const auto weights = device_weights(config);
  LayerRunner runner(weights, 16);
  const Input input = random_input(config, 16, 11);
  Input changed = input;
  for (std::size_t i = 9 * config.hidden_size; i < changed.hidden.size(); ++i) changed.hidden[i] = to_bf16(1e30F);
  const std::size_t kept = 9 * config.hidden_size;
  Output a = runner.run(input, {{Call::decode_k, 16}});
  Output b = runner.run(changed, {{Call::decode_k, 16}});
  a.out.resize(kept);
  b.out.resize(kept);
  CHECK(a.out == b.out);
}

}  // namespace kdart::test
