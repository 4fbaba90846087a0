// One layer, several threads; and the smallest layer calls on real threads, which ThreadSanitizer can follow.
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <exception>
#include <string>
#include <thread>

#include "tests/support/layer_runner.h"
#include "tests/support/models.h"
#include "tools/reference/cases.h"
#include "tools/reference/random_model.h"

namespace kdart::test {
namespace {

OpenOptions thread_engine() {
  OpenOptions options;
  options.cpu_engine = CpuEngine::threads;
  options.cpu_threads = 2;
  return options;
}

// What one engine does with its own sequence, state, workspace and stream, over a layer that it shares.
Output run_sequence(const KdaLayer& layer, const Input& input, const Pieces& pieces) {
  const std::shared_ptr<GpuBackend>& gpu = layer.backend();
  const KdaConfig& config = layer.config();
  const OwnedStream stream(gpu);
  KdaState state(gpu, config);
  KdaWorkspace ws(gpu, config, input.tokens);
  state.import_recurrent(std::span<const float>(input.recurrent));
  state.import_conv(std::span<const float>(input.conv));
  const Buffer hidden = upload(gpu, input.hidden);
  const Buffer out(gpu, hidden.bytes());
  std::uint64_t offset = 0;
  for (const Piece& piece : pieces) {
    const DevicePtr from = hidden.get().offset(offset);
    const DevicePtr to = out.get().offset(offset);
    if (piece.call == Call::prefill) {
      layer.prefill(from, piece.tokens, state, ws, stream.get(), to);
    } else {
      layer.decode_k(from, piece.tokens, state, ws, {}, stream.get(), to);
    }
    offset += std::uint64_t{piece.tokens} * config.hidden_size * sizeof(bf16);
  }
  gpu->synchronize(stream.get());
  HostState states = fetch(state);
  return {download<bf16>(*gpu, out.get(), input.hidden.size()), std::move(states.recurrent), std::move(states.conv)};
}

// Threads at once, each with its own input and calls; the bits of each alone.
template <std::size_t count>
void check_threads(const KdaLayer& layer, const std::array<Pieces, count>& pieces,
                   const std::array<std::uint32_t, count>& tokens) {
  std::array<Input, count> inputs;
  for (std::size_t i = 0; i < count; ++i) inputs[i] = random_input(layer.config(), tokens[i], i + 1);
  std::array<Output, count> together;
  std::array<std::string, count> errors;
  {
    std::array<std::thread, count> threads;
    for (std::size_t i = 0; i < count; ++i) {
      threads[i] = std::thread([&, i] {
        try {
          together[i] = run_sequence(layer, inputs[i], pieces[i]);
        } catch (const std::exception& error) {
          errors[i] = error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  for (std::size_t i = 0; i < count; ++i) {
    INFO("thread " << i);
    CHECK(errors[i] == "");
    CHECK(difference(together[i], run_sequence(layer, inputs[i], pieces[i])) == "");
  }
}

}  // namespace

TEST_CASE("two threads share a layer, each with states of its own", "[kda][layer][threads]") {
  const KdaConfig config = softplus_layer();
  const KdaLayer layer(open_test_device(), reference::random_weights(config, 91));
  for (int i = 0; i < 4; ++i) {
    check_threads<2>(layer, {decode_cycle(30), Pieces{{Call::prefill, 33}, {Call::decode_k, 3}}}, {30, 36});
  }
}

TEST_CASE("eight threads on eight streams share a layer", "[kda][layer][threads]") {
  const KdaLayer layer(open_test_device(), reference::random_weights(softplus_layer(), 92));
  const std::uint32_t tokens = layer.backend()->info().type == DeviceType::cpu ? 20 : 400;
  std::array<Pieces, 8> pieces;
  std::array<std::uint32_t, 8> lengths{};
  for (std::uint32_t i = 0; i < 8; ++i) {
    lengths[i] = tokens + i;
    const Pieces choices[] = {decode_each(lengths[i]), decode_cycle(lengths[i]),
                              Pieces{{Call::prefill, tokens - 3}, {Call::decode_k, i + 3}}};
    pieces[i] = choices[i % 3];
  }
  check_threads<8>(layer, pieces, lengths);
}

TEST_CASE("threads make and drop layers of one device at once", "[kda][layer][threads]") {
  const KdaConfig config = one_head_layer();
  const auto device = open_test_device();
  const KdaWeights weights = reference::random_weights(config, 93);
  const Input input = random_input(config, 5, 3);
  const Output expected = run_sequence(KdaLayer(device, weights), input, {{Call::decode_k, 5}});
  const std::uint64_t live = device->memory_info().live;
  std::array<std::string, 3> errors;
  std::array<std::thread, 3> threads;
  for (std::size_t i = 0; i < threads.size(); ++i) {
    threads[i] = std::thread([&, i] {
      try {
        for (int round = 0; round < 4; ++round) {
          const KdaLayer layer(device, weights);
          errors[i] += difference(run_sequence(layer, input, {{Call::decode_k, 5}}), expected);
        }
      } catch (const std::exception& error) {
        errors[i] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& error : errors) CHECK(error == "");
  CHECK(device->memory_info().live == live);
}

TEST_CASE("decode of 2 tokens and prefill of 17 at one head, on the thread engine",
          "[cpu][kda][layer][threads][tsan]") {
  const KdaConfig config = one_head_layer();
  const KdaWeights weights = reference::random_weights(config, 95);
  LayerRunner threaded(KdaDeviceWeights::upload(open_device("cpu:0", thread_engine()), weights), 17);
  const reference::Bounds bounds = reference::base_bounds(17);
  {
    const Input input = random_input(config, 2, 4);
    check_figures(measure(threaded.run(input, decode_each(2)), truth_of(weights, input)), bounds.decode_out,
                  bounds.decode_state);
  }
  const Input input = random_input(config, 17, 5);
  check_figures(measure(threaded.run(input, prefill_whole(17)), truth_of(weights, input)), bounds.prefill_out,
                bounds.prefill_state);
}

TEST_CASE("two threads share a layer on the thread engine", "[cpu][kda][layer][threads][tsan]") {
  const KdaLayer layer(open_device("cpu:0", thread_engine()), reference::random_weights(one_head_layer(), 97));
  check_threads<2>(layer, {decode_each(1), Pieces{{Call::decode_k, 2}}}, {1, 2});
}

TEST_CASE("both CPU engines give the same bits", "[cpu][kda][layer][threads]") {
  const KdaConfig config = one_head_layer();
  const KdaWeights weights = reference::random_weights(config, 99);
  LayerRunner fibers(KdaDeviceWeights::upload(open_device("cpu:0"), weights), 17);
  LayerRunner threads(KdaDeviceWeights::upload(open_device("cpu:0", thread_engine()), weights), 17);
  const Input input = random_input(config, 17, 6);
  CHECK(difference(threads.run(input, prefill_whole(17)), fibers.run(input, prefill_whole(17))) == "");
  const Input two = slice(input, 0, 2);
  CHECK(difference(threads.run(two, {{Call::decode_k, 2}}), fibers.run(two, {{Call::decode_k, 2}})) == "");
}

}  // namespace kdart::test
