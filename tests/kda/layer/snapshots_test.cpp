// decode_k's snapshots: what they hold, what a rollback to one continues with, and which ones are refused.
#include <catch2/catch_get_random_seed.hpp>
#include <catch2/catch_test_macros.hpp>
#include <random>
#include <span>
#include <vector>

#include "tests/support/counting_backend.h"
#include "tests/support/expect_error.h"
#include "tests/support/layer_runner.h"
#include "tests/support/models.h"
#include "tools/reference/random_model.h"

namespace kdart::test {
namespace {

// Room for snapshots, one after the other.
class Snapshots {
 public:
  Snapshots(const std::shared_ptr<GpuBackend>& backend, const KdaConfig& config, std::uint32_t count)
      : recurrent_(backend, count * KdaState::recurrent_bytes(config)),
        conv_(backend, count * KdaState::conv_bytes(config)) {
    for (std::uint32_t i = 0; i < count; ++i) {
      list_.push_back({recurrent_.get().offset(i * KdaState::recurrent_bytes(config)),
                       conv_.get().offset(i * KdaState::conv_bytes(config))});
    }
  }
  [[nodiscard]] const std::vector<StateSnapshot>& list() const { return list_; }

 private:
  Buffer recurrent_, conv_;
  std::vector<StateSnapshot> list_;
};

std::shared_ptr<const KdaDeviceWeights> device_weights(const KdaConfig& config, std::shared_ptr<GpuBackend> backend) {
  return KdaDeviceWeights::upload(std::move(backend), reference::random_weights(config, 31));
}

void decode_k(LayerRunner& runner, std::uint32_t first, std::uint32_t count, std::span<const StateSnapshot> snapshots) {
  runner.layer().decode_k(runner.hidden(first), count, runner.state(), runner.workspace(), snapshots, runner.stream(),
                          runner.out(first));
}

// The states after each token, by decode.
std::vector<HostState> states_by_decode(LayerRunner& runner, const Input& input) {
  std::vector<HostState> states;
  runner.start(input);
  for (std::uint32_t t = 0; t < input.tokens; ++t) {
    runner.submit({Call::decode, 1}, t);
    runner.backend()->synchronize(runner.stream());
    states.push_back(fetch(runner.state()));
  }
  return states;
}

}  // namespace

TEST_CASE("snapshot t holds both states after token t", "[kda][layer][snapshot]") {
  constexpr std::uint32_t tokens = 20;
  for (const KdaConfig& config : {softplus_layer(), full_rank_layer()}) {
    LayerRunner runner(device_weights(config, open_test_device()), tokens);
    const Input input = random_input(config, tokens, 1);
    const std::vector<HostState> expected = states_by_decode(runner, input);
    const Output decoded = runner.finish();
    const Snapshots snapshots(runner.backend(), config, tokens);
    for (const std::uint32_t taken : {tokens, 3U, 1U, 0U}) {
      INFO("D " << config.head_dim << ", " << taken << " snapshots");
      for (const StateSnapshot& snapshot : snapshots.list()) {
        runner.backend()->fill(snapshot.recurrent, 0, 4, config.recurrent_elements(), runner.stream());
        runner.backend()->fill(snapshot.conv, 0, 4, config.conv_elements(), runner.stream());
      }
      runner.start(input);
      decode_k(runner, 0, tokens, std::span(snapshots.list()).first(taken));
      CHECK(difference(runner.finish(), decoded) == "");
      for (std::uint32_t t = 0; t < tokens; ++t) {
        INFO("after token " << t);
        const HostState zero{std::vector<float>(config.recurrent_elements()),
                             std::vector<float>(config.conv_elements())};
        const HostState found = fetch(*runner.backend(), config, snapshots.list()[t]);
        CHECK(difference(found, t < taken ? expected[t] : zero) == "");
      }
    }
  }
}

TEST_CASE("a call that runs in pieces takes its snapshots all the same", "[kda][layer][snapshot]") {
  constexpr std::uint32_t tokens = 40;
  const KdaConfig config = one_head_layer();
  LayerRunner runner(device_weights(config, open_test_device()), tokens, {}, 32);
  REQUIRE(runner.workspace().rows() == 32);
  const Input input = random_input(config, tokens, 2);
  const std::vector<HostState> expected = states_by_decode(runner, input);
  const Snapshots snapshots(runner.backend(), config, tokens);
  runner.start(input);
  decode_k(runner, 0, tokens, snapshots.list());
  runner.backend()->synchronize(runner.stream());
  for (const std::uint32_t t : {0U, 31U, 32U, 39U}) {
    INFO("after token " << t);
    CHECK(difference(fetch(*runner.backend(), config, snapshots.list()[t]), expected[t]) == "");
  }
}

TEST_CASE("a rollback to a snapshot continues with the bits of a sequence that never went further",
          "[kda][layer][snapshot]") {
  const std::uint32_t seed = Catch::getSeed();
  CAPTURE(seed);
  std::mt19937 random(seed);
  constexpr std::uint32_t tokens = 24;
  const KdaConfig config = lower_bound_layer();
  LayerRunner runner(device_weights(config, open_test_device()), tokens);
  const Input input = random_input(config, tokens, 3);
  const Output expected = runner.run(input, decode_each(tokens));
  const Snapshots snapshots(runner.backend(), config, tokens);
  for (int i = 0; i < 3; ++i) {
    // Some drafts are accepted, the rest of them is thrown away, and the accepted place is gone on from.
    const std::uint32_t drafted = 2 + static_cast<std::uint32_t>(random() % (tokens - 2));
    const std::uint32_t accepted = 1 + static_cast<std::uint32_t>(random() % (drafted - 1));
    INFO(drafted << " drafted, " << accepted << " accepted");
    runner.start(input);
    decode_k(runner, 0, drafted, std::span(snapshots.list()).first(drafted));
    const StateSnapshot& back = snapshots.list()[accepted - 1];
    GpuBackend& backend = *runner.backend();
    backend.copy_d2d_async(runner.state().recurrent(), back.recurrent, KdaState::recurrent_bytes(config),
                           runner.stream());
    backend.copy_d2d_async(runner.state().conv(), back.conv, KdaState::conv_bytes(config), runner.stream());
    decode_k(runner, accepted, tokens - accepted, {});
    CHECK(difference(runner.finish(), expected) == "");
  }
}

TEST_CASE("snapshots in the wrong place are refused before anything is launched", "[kda][layer][snapshot][refusal]") {
  const KdaConfig config = softplus_layer();
  const auto device = CountingBackend::over(open_test_device());
  LayerRunner runner(device_weights(config, device), 4);
  const Input input = random_input(config, 4, 4);
  const Output expected = runner.run(input, decode_each(4));
  const Snapshots snapshots(device, config, 5);
  const auto& good = snapshots.list();
  const Buffer small(device, KdaState::conv_bytes(config) - 4);

  const auto refused = [&](const std::vector<StateSnapshot>& list, std::initializer_list<std::string_view> words) {
    runner.start(input);
    device->synchronize(runner.stream());
    const HostState before = fetch(runner.state());
    const std::uint64_t submitted = device->submitted();
    expect_error(ErrorCode::invalid_argument, words, [&] { decode_k(runner, 0, 4, list); });
    CHECK(device->submitted() == submitted);
    CHECK(difference(fetch(runner.state()), before) == "");
    decode_k(runner, 0, 4, {});
    CHECK(difference(runner.finish(), expected) == "");
  };

  SECTION("more than tokens") {
    refused(good, {"decode_k", "5 snapshots", "4 tokens"});
  }
  SECTION("null") {
    refused({{DevicePtr{}, good[0].conv}}, {"recurrent", "null"});
    refused({good[0], {good[1].recurrent, DevicePtr{}}}, {"conv", "null"});
  }
  SECTION("not a multiple of 4") {
    refused({{good[0].recurrent.offset(2), good[0].conv}}, {"recurrent", "multiple of 4"});
    refused({{good[0].recurrent, good[0].conv.offset(1)}}, {"conv", "multiple of 4"});
  }
  SECTION("too small") {
    refused({{good[0].recurrent, small.get()}}, {"conv", std::to_string(KdaState::conv_bytes(config))});
    // The last bytes of the buffer: a part of the snapshot would lie behind it.
    refused({{good[4].recurrent.offset(4), good[0].conv}},
            {"recurrent", std::to_string(KdaState::recurrent_bytes(config))});
  }
  SECTION("no memory of this device") {
    refused({{DevicePtr(0x10), good[0].conv}}, {"recurrent", "0x10"});
  }
  SECTION("over the state itself") {
    refused({{runner.state().recurrent(), good[0].conv}}, {"recurrent", "overlap"});
    refused({{good[0].recurrent, runner.state().conv()}}, {"conv", "overlap"});
  }
  SECTION("one part over the other") {
    // The window's part lies inside the recurrent part.
    refused({{good[0].recurrent, good[0].recurrent.offset(8)}}, {"recurrent", "conv", "overlap"});
  }
  SECTION("two snapshots in one place") {
    refused({good[0], {good[0].recurrent, good[1].conv}}, {"recurrent", "overlap"});
    refused({good[0], good[1], {good[2].recurrent, good[1].conv.offset(16)}}, {"conv", "overlap"});
  }
}

}  // namespace kdart::test
