// A captured decode step, replayed: what an engine does for every token it generates.
#include <catch2/catch_test_macros.hpp>

#include "tests/support/layer_runner.h"
#include "tests/support/models.h"
#include "tools/reference/random_model.h"

namespace kdart::test {
namespace {

// Tokens pass through one fixed input and one fixed output, as a graph needs it.
struct FixedPlaces {
  explicit FixedPlaces(const LayerRunner& runner)
      : row_bytes(runner.layer().config().hidden_size * sizeof(bf16)),
        in(runner.backend(), row_bytes),
        out(runner.backend(), row_bytes) {}
  std::uint64_t row_bytes;
  Buffer in, out;
};

OwnedGraph capture_decode(LayerRunner& runner, const FixedPlaces& places) {
  GpuBackend& gpu = *runner.backend();
  gpu.begin_capture(runner.stream());
  runner.layer().decode(places.in.get(), runner.state(), runner.workspace(), runner.stream(), places.out.get());
  return {runner.backend(), gpu.end_capture(runner.stream())};
}

}  // namespace

TEST_CASE("a captured decode step replayed 1000 times has the bits of 1000 calls", "[kda][layer][graph]") {
  for (const KdaConfig& config : {softplus_layer(), lower_bound_layer()}) {
    const auto weights = KdaDeviceWeights::upload(open_test_device(), reference::random_weights(config, 61));
    // 100 where the kernels run on a CPU.
    const std::uint32_t tokens = weights->backend()->info().type == DeviceType::cpu ? 100 : 1000;
    LayerRunner runner(weights, tokens);
    GpuBackend& gpu = *runner.backend();
    const Input input = random_input(config, tokens, 1);
    const Output expected = runner.run(input, decode_each(tokens));
    const FixedPlaces places(runner);

    runner.start(input);
    gpu.synchronize(runner.stream());
    const HostState before = fetch(runner.state());
    const OwnedGraph graph = capture_decode(runner, places);
    gpu.synchronize(runner.stream());
    CHECK(difference(fetch(runner.state()), before) == "");  // a capture runs nothing

    for (std::uint32_t t = 0; t < tokens; ++t) {
      gpu.copy_d2d_async(places.in.get(), runner.hidden(t), places.row_bytes, runner.stream());
      gpu.launch_graph(graph.get(), runner.stream());
      gpu.copy_d2d_async(runner.out(t), places.out.get(), places.row_bytes, runner.stream());
    }
    INFO(config.heads << " heads");
    CHECK(difference(runner.finish(), expected) == "");
  }
}

TEST_CASE("a captured decode_k with snapshots and a captured prefill replay the bits of the call",
          "[kda][layer][graph]") {
  constexpr std::uint32_t tokens = 19;
  const KdaConfig config = lower_bound_layer();
  const auto weights = KdaDeviceWeights::upload(open_test_device(), reference::random_weights(config, 67));
  LayerRunner runner(weights, tokens);
  GpuBackend& gpu = *runner.backend();
  const Input input = random_input(config, tokens, 2);
  const Buffer recurrent(runner.backend(), KdaState::recurrent_bytes(config));
  const Buffer conv(runner.backend(), KdaState::conv_bytes(config));
  const StateSnapshot snapshot{recurrent.get(), conv.get()};

  const Output first = runner.run(slice(input, 0, 1), decode_each(1));
  const Output decoded = runner.run(input, {{Call::decode_k, tokens}});
  gpu.begin_capture(runner.stream());
  runner.layer().decode_k(runner.hidden(0), tokens, runner.state(), runner.workspace(), std::span(&snapshot, 1),
                          runner.stream(), runner.out(0));
  const OwnedGraph decode(runner.backend(), gpu.end_capture(runner.stream()));

  const Output prefilled = runner.run(input, prefill_whole(tokens));
  gpu.begin_capture(runner.stream());
  runner.submit({Call::prefill, tokens}, 0);
  const OwnedGraph prefill(runner.backend(), gpu.end_capture(runner.stream()));

  for (int i = 0; i < 2; ++i) {
    runner.start(input);
    gpu.launch_graph(decode.get(), runner.stream());
    CHECK(difference(runner.finish(), decoded) == "");
    CHECK(difference(fetch(gpu, config, snapshot), HostState{first.recurrent, first.conv}) == "");
    runner.start(input);
    gpu.launch_graph(prefill.get(), runner.stream());
    CHECK(difference(runner.finish(), prefilled) == "");
  }
}

TEST_CASE("a call that is refused leaves a running capture as it is", "[kda][layer][graph][refusal]") {
  const KdaConfig config = softplus_layer();
  const auto weights = KdaDeviceWeights::upload(open_test_device(), reference::random_weights(config, 71));
  LayerRunner runner(weights, 4);
  GpuBackend& gpu = *runner.backend();
  const Input input = random_input(config, 4, 3);
  const Output expected = runner.run(input, {{Call::decode_k, 4}});
  runner.start(input);
  gpu.begin_capture(runner.stream());
  CHECK_THROWS_AS(runner.submit({Call::decode_k, 5}, 0), Error);
  runner.submit({Call::decode_k, 4}, 0);
  const OwnedGraph graph(runner.backend(), gpu.end_capture(runner.stream()));
  gpu.launch_graph(graph.get(), runner.stream());
  CHECK(difference(runner.finish(), expected) == "");
}

}  // namespace kdart::test
