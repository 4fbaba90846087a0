// Whose memory the layer works in: the caller's or its own, in place, and never more than it was given.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <optional>
#include <vector>

#include "tests/support/counting_backend.h"
#include "tests/support/layer_runner.h"
#include "tests/support/models.h"
#include "tools/reference/random_model.h"

namespace kdart::test {
namespace {

constexpr std::uint32_t tokens = 21;

std::shared_ptr<const KdaDeviceWeights> device_weights(const KdaConfig& config, std::shared_ptr<GpuBackend> backend) {
  return KdaDeviceWeights::upload(std::move(backend), reference::random_weights(config, 43));
}

// A run over memory that the runner did not make: states and workspace at these addresses.
struct Places {
  DevicePtr recurrent, conv, workspace;
};

Output run_at(LayerRunner& runner, const Input& input, const Places& places, Call call) {
  const KdaConfig& config = runner.layer().config();
  KdaState state(runner.backend(), config, places.recurrent, places.conv);
  KdaWorkspace ws(runner.backend(), config, places.workspace, tokens);
  state.import_recurrent(std::span<const float>(input.recurrent));
  state.import_conv(std::span<const float>(input.conv));
  runner.start(input);
  if (call == Call::prefill) {
    runner.layer().prefill(runner.hidden(0), tokens, state, ws, runner.stream(), runner.out(0));
  } else {
    runner.layer().decode_k(runner.hidden(0), tokens, state, ws, {}, runner.stream(), runner.out(0));
  }
  Output output = runner.finish();
  HostState states = fetch(state);
  output.recurrent = std::move(states.recurrent);
  output.conv = std::move(states.conv);
  return output;
}

// Both calls at `places` have the bits of a state and workspace that own their memory.
void check_places(LayerRunner& runner, const Places& places) {
  const Input input = random_input(runner.layer().config(), tokens, 1);
  for (const Call call : {Call::decode_k, Call::prefill}) {
    CHECK(difference(run_at(runner, input, places, call), runner.run(input, {{call, tokens}})) == "");
  }
}

}  // namespace

TEST_CASE("states and workspace in memory that the caller allocated", "[kda][layer][memory]") {
  const KdaConfig config = softplus_layer();
  LayerRunner runner(device_weights(config, open_test_device()), tokens);
  // One block for all, each part at the smallest alignment that it may have and with a guard behind it.
  constexpr std::uint64_t guard = 64;
  const std::uint64_t ws_bytes = KdaWorkspace::bytes(config, tokens);
  const std::uint64_t recurrent = ws_bytes + guard + 4;
  const std::uint64_t conv = recurrent + KdaState::recurrent_bytes(config) + guard + 4;
  const std::uint64_t total = conv + KdaState::conv_bytes(config) + guard;
  const Buffer block(runner.backend(), total);
  const std::vector<std::uint8_t> pattern(total, 0xA5);
  runner.backend()->copy_h2d(block.get(), pattern.data(), total);
  check_places(runner, {block.get().offset(recurrent), block.get().offset(conv), block.get()});
  for (const std::uint64_t place : {ws_bytes, conv - guard - 4, total - guard}) {
    INFO("guard at " << place << " of " << total);
    CHECK(download<std::uint8_t>(*runner.backend(), block.get().offset(place), guard) ==
          std::vector<std::uint8_t>(guard, 0xA5));
  }
}

TEST_CASE("states and workspace in memory that the caller imported", "[kda][layer][memory]") {
  const KdaConfig config = lower_bound_layer();
  const auto device = open_test_device();
  if (device->info().backend != "cpu") SKIP("only the CPU's device memory can be made without its driver");
  LayerRunner runner(device_weights(config, device), tokens);
  const std::uint64_t ws_bytes = KdaWorkspace::bytes(config, tokens);
  struct alignas(256) Block {
    std::byte bytes[256];
  };
  std::vector<Block> workspace((ws_bytes + sizeof(Block) - 1) / sizeof(Block));
  std::vector<float> recurrent(config.recurrent_elements());
  std::vector<float> conv(config.conv_elements());
  const auto import = [&](void* memory, std::uint64_t bytes) {
    return device->import_memory(reinterpret_cast<std::uintptr_t>(memory), bytes);
  };
  const std::uint64_t live = device->memory_info().live;
  const Places places{import(recurrent.data(), KdaState::recurrent_bytes(config)),
                      import(conv.data(), KdaState::conv_bytes(config)), import(workspace.data(), ws_bytes)};
  CHECK(device->memory_info().live == live);
  check_places(runner, places);
  for (const DevicePtr memory : {places.recurrent, places.conv, places.workspace}) device->release_import(memory);
}

TEST_CASE("the result may go over the input", "[kda][layer][memory]") {
  const KdaConfig config = softplus_layer();
  LayerRunner runner(device_weights(config, open_test_device()), 50, {}, 32);  // in two pieces
  const Input input = random_input(config, 50, 2);
  for (const Pieces& pieces : {Pieces{{Call::decode_k, 50}}, prefill_whole(50)}) {
    const Output apart = runner.run(input, pieces);
    runner.start(input);
    if (pieces.front().call == Call::prefill) {
      runner.layer().prefill(runner.hidden(0), 50, runner.state(), runner.workspace(), runner.stream(),
                             runner.hidden(0));
    } else {
      runner.layer().decode_k(runner.hidden(0), 50, runner.state(), runner.workspace(), {}, runner.stream(),
                              runner.hidden(0));
    }
    const Output in_place = runner.finish();
    CHECK(download<bf16>(*runner.backend(), runner.hidden(0), apart.out.size()) == apart.out);
    CHECK(difference(HostState{in_place.recurrent, in_place.conv}, HostState{apart.recurrent, apart.conv}) == "");
  }
}

TEST_CASE("without a place for it the result is in the workspace", "[kda][layer][memory]") {
  const KdaConfig config = full_rank_layer();
  LayerRunner runner(device_weights(config, open_test_device()), 40, {}, 32);
  const Input input = random_input(config, 40, 3);
  const std::size_t elements = std::size_t{40} * config.hidden_size;
  const auto in_workspace = [&] {
    runner.backend()->synchronize(runner.stream());
    return download<bf16>(*runner.backend(), runner.workspace().final_out(), elements);
  };
  const Output prefilled = runner.run(input, prefill_whole(40));
  runner.start(input);
  runner.layer().prefill(runner.hidden(0), 40, runner.state(), runner.workspace(), runner.stream());
  CHECK(in_workspace() == prefilled.out);

  const Output decoded = runner.run(input, {{Call::decode_k, 40}});
  runner.start(input);
  runner.layer().decode_k(runner.hidden(0), 40, runner.state(), runner.workspace(), {}, runner.stream());
  CHECK(in_workspace() == decoded.out);

  runner.start(input);
  runner.layer().decode(runner.hidden(0), runner.state(), runner.workspace(), runner.stream());
  auto one = in_workspace();
  one.resize(config.hidden_size);
  CHECK(std::equal(one.begin(), one.end(), decoded.out.begin()));
}

TEST_CASE("hidden at a multiple of 16 and out at a multiple of 2", "[kda][layer][memory]") {
  const KdaConfig config = softplus_layer();
  LayerRunner runner(device_weights(config, open_test_device()), tokens);
  const Input input = random_input(config, tokens, 4);
  const std::uint64_t bytes = input.hidden.size() * sizeof(bf16);
  const Buffer block(runner.backend(), 2 * bytes + 512);
  const DevicePtr hidden = block.get().offset(16);
  const DevicePtr out = block.get().offset(256 + bytes / 256 * 256 + 256 + 2);
  for (const Call call : {Call::decode_k, Call::prefill}) {
    const Output expected = runner.run(input, {{call, tokens}});
    runner.start(input);
    runner.backend()->copy_h2d(hidden, input.hidden.data(), bytes);
    if (call == Call::prefill) {
      runner.layer().prefill(hidden, tokens, runner.state(), runner.workspace(), runner.stream(), out);
    } else {
      runner.layer().decode_k(hidden, tokens, runner.state(), runner.workspace(), {}, runner.stream(), out);
    }
    runner.backend()->synchronize(runner.stream());
    CHECK(download<bf16>(*runner.backend(), out, input.hidden.size()) == expected.out);
  }
}

TEST_CASE("no call allocates", "[kda][layer][memory]") {
  const KdaConfig config = softplus_layer();
  const auto device = CountingBackend::over(open_test_device());
  const auto weights = device_weights(config, device);
  LayerRunner runner(weights, tokens);
  const Input input = random_input(config, tokens, 5);
  runner.start(input);
  const Buffer recurrent(device, KdaState::recurrent_bytes(config));
  const Buffer conv(device, KdaState::conv_bytes(config));
  const StateSnapshot snapshot{recurrent.get(), conv.get()};
  const Buffer rows(device, tokens * std::uint64_t{config.qkv()} * sizeof(bf16));
  device->fill(rows.get(), 0x3F80U, sizeof(bf16), rows.bytes() / sizeof(bf16), runner.stream());
  const DevicePtr p = rows.get();
  const KdaCoreInputs core{.q = p, .k = p, .v = p, .f = p, .b = p, .z = p};
  device->synchronize(runner.stream());

  const std::uint64_t created = device->created();
  const std::uint64_t live = device->memory_info().live;
  const std::uint64_t inner_live = device->inner()->memory_info().live;
  const KdaLayer& layer = runner.layer();
  KdaState& state = runner.state();
  KdaWorkspace& ws = runner.workspace();
  layer.decode(runner.hidden(0), state, ws, runner.stream());
  layer.decode_k(runner.hidden(0), tokens, state, ws, std::span(&snapshot, 1), runner.stream());
  layer.prefill(runner.hidden(0), tokens, state, ws, runner.stream());
  layer.prefill_with_pad_fill(runner.hidden(0), tokens, state, ws, runner.stream(), 7.5F);
  layer.decode_k_core(core, tokens, state, ws, std::span(&snapshot, 1), runner.stream(), p);
  layer.prefill_core(core, tokens, state, ws, runner.stream(), p);
  state.zero(runner.stream());
  device->synchronize(runner.stream());
  CHECK(device->created() == created);
  CHECK(device->memory_info().live == live);
  CHECK(device->inner()->memory_info().live == inner_live);
}

TEST_CASE("layers share weights and kernels, and each keeps what it uses alive", "[kda][layer][memory]") {
  const KdaConfig config = softplus_layer();
  const Input input = random_input(config, tokens, 6);
  std::optional<KdaLayer> survivor;
  std::shared_ptr<GpuBackend> device = open_test_device();
  Output expected;
  {
    const auto weights = device_weights(config, device);
    LayerRunner first(weights, tokens);
    expected = first.run(input, {{Call::decode_k, tokens}});
    const std::uint64_t live = device->memory_info().live;
    KdaOptions options;
    options.kernels = first.layer().kernels();
    survivor.emplace(weights, options);
    CHECK(device->memory_info().live == live);
  }
  // Weights, set and the first layer are out of scope; a moved layer is the layer.
  KdaLayer layer = std::move(*survivor);
  survivor.reset();
  KdaState state(device, config);
  KdaWorkspace ws(device, config, tokens);
  const Buffer hidden = upload(device, input.hidden);
  const OwnedStream stream(device);
  state.import_recurrent(std::span<const float>(input.recurrent));
  state.import_conv(std::span<const float>(input.conv));
  device.reset();
  layer.decode_k(hidden.get(), tokens, state, ws, {}, stream.get());
  layer.backend()->synchronize(stream.get());
  CHECK(download<bf16>(*layer.backend(), ws.final_out(), expected.out.size()) == expected.out);
}

}  // namespace kdart::test
