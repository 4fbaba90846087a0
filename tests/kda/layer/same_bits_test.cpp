// The reference route has the same bits on CPU, CUDA and HIP: the layer on the device under test against the CPU, which
// every other test holds to float64.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/kda/exact_device.h"
#include "tests/support/layer_runner.h"
#include "tests/support/models.h"
#include "tools/reference/random_model.h"

namespace kdart::test {
namespace {

// The reference route, and kernels that are loaded already for all but a device's first layer.
KdaOptions reference_route(const std::shared_ptr<LoadedSet>& kernels = {}) {
  KdaOptions options;
  options.route = KdaRoute::reference;
  options.kernels = kernels;
  return options;
}

// One layer's weights on both devices. Runs the same there and here.
class BothSides {
 public:
  BothSides(const std::shared_ptr<GpuBackend>& device, const KdaWeights& weights)
      : there_(KdaDeviceWeights::upload(device, weights)),
        here_(KdaDeviceWeights::upload(open_device("cpu:0"), weights)),
        kernels_there_(KdaLayer(there_, reference_route()).kernels()),
        kernels_here_(KdaLayer(here_, reference_route()).kernels()) {}

  // What differs after each of `runs`; "" when no bit does.
  [[nodiscard]] std::string compare(const Input& input, const std::vector<Pieces>& runs, std::uint32_t chunk = 16,
                                    std::uint32_t max_tokens_per_launch = 0) const {
    const auto runner = [&](const auto& weights, const auto& kernels) {
      KdaOptions options = reference_route(kernels);
      options.chunk = chunk;
      return LayerRunner(weights, input.tokens, options, max_tokens_per_launch);
    };
    LayerRunner there = runner(there_, kernels_there_);
    LayerRunner here = runner(here_, kernels_here_);
    std::string result;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const std::string found = difference(there.run(input, runs[i]), here.run(input, runs[i]));
      if (!found.empty()) result += "run " + std::to_string(i) + ": " + found;
    }
    return result;
  }

  // The same for decode_k of all tokens in one call, with a snapshot after each.
  [[nodiscard]] std::string compare_snapshots(const Input& input) const {
    LayerRunner there(there_, input.tokens, reference_route(kernels_there_));
    LayerRunner here(here_, input.tokens, reference_route(kernels_here_));
    const auto expected = with_snapshots(here, input);
    const auto found = with_snapshots(there, input);
    std::string result = difference(found.first, expected.first);
    for (std::size_t t = 0; t < input.tokens; ++t) {
      const std::string at = difference(found.second[t], expected.second[t]);
      if (!at.empty()) result += "snapshot " + std::to_string(t) + ": " + at;
    }
    return result;
  }

  [[nodiscard]] const std::shared_ptr<GpuBackend>& device() const { return there_->backend(); }

 private:
  static std::pair<Output, std::vector<HostState>> with_snapshots(LayerRunner& runner, const Input& input) {
    const KdaConfig& config = runner.layer().config();
    const std::uint64_t recurrent_bytes = KdaState::recurrent_bytes(config);
    const std::uint64_t conv_bytes = KdaState::conv_bytes(config);
    const Buffer recurrent(runner.backend(), input.tokens * recurrent_bytes);
    const Buffer conv(runner.backend(), input.tokens * conv_bytes);
    std::vector<StateSnapshot> snapshots;
    for (std::uint64_t t = 0; t < input.tokens; ++t) {
      snapshots.push_back({recurrent.get().offset(t * recurrent_bytes), conv.get().offset(t * conv_bytes)});
    }
    runner.start(input);
    runner.layer().decode_k(runner.hidden(0), input.tokens, runner.state(), runner.workspace(), snapshots,
                            runner.stream(), runner.out(0));
    Output output = runner.finish();
    std::vector<HostState> states;
    for (const StateSnapshot& snapshot : snapshots) states.push_back(fetch(*runner.backend(), config, snapshot));
    return {std::move(output), std::move(states)};
  }

  std::shared_ptr<const KdaDeviceWeights> there_, here_;
  std::shared_ptr<LoadedSet> kernels_there_, kernels_here_;
};

// Both gate laws, both head widths, 2 to 4 heads, both output gates.
std::vector<KdaConfig> geometries() {
  KdaConfig softplus_wide = softplus_layer();
  softplus_wide.heads = 4;
  softplus_wide.head_dim = 128;
  softplus_wide.hidden_size = 200;
  KdaConfig softplus_full = softplus_layer();
  softplus_full.heads = 3;
  softplus_full.output_gate_rank = 0;
  softplus_full.output_gate_bias = false;
  return {softplus_layer(), lower_bound_layer(), full_rank_layer(), softplus_wide, softplus_full};
}

std::string text(const KdaConfig& config) {
  return "D " + std::to_string(config.head_dim) + ", " + std::to_string(config.heads) + " heads, " +
         std::string(to_string(config.gate_law));
}

// --- hard inputs ----------------------------------------------------------------------------------------------------

void scale(std::vector<bf16>& x, double factor) {
  for (bf16& value : x) value = to_bf16(static_cast<float>(static_cast<double>(to_float(value)) * factor));
}
// Element 0 of every token is 1, so that column 0 of a weight is a bias.
void add_constant(const KdaConfig& config, Input& input) {
  for (std::size_t i = 0; i < input.hidden.size(); i += config.hidden_size) input.hidden[i] = to_bf16(1.0F);
}
void fix_column_0(std::vector<bf16>& weight, std::size_t columns, float even, float odd) {
  std::fill(weight.begin(), weight.end(), bf16{});
  for (std::size_t row = 0; row * columns < weight.size(); ++row) {
    weight[row * columns] = to_bf16(row % 2 == 0 ? even : odd);
  }
}

struct Hard {
  const char* name;
  void (*bend)(EditableWeights& weights, Input& input);
};

const Hard all_hard[] = {
    {"gates at the floor beside open ones",
     [](EditableWeights& w, Input& input) {
       add_constant(w.config, input);
       fix_column_0(w.f_a_proj, w.config.hidden_size, 1.0F, 0.0F);
       fix_column_0(w.f_b_proj, w.config.decay_rank, 3e38F, -3e38F);
     }},
    {"identical tokens, beta 0 and 1, no decay",
     [](EditableWeights& w, Input& input) {
       const auto width = static_cast<std::ptrdiff_t>(w.config.hidden_size);
       for (std::ptrdiff_t t = 1; t < static_cast<std::ptrdiff_t>(input.tokens); ++t) {
         std::copy_n(input.hidden.begin(), width, input.hidden.begin() + t * width);
       }
       add_constant(w.config, input);
       fix_column_0(w.b_proj, w.config.hidden_size, 200.0F, -200.0F);
       std::fill(w.dt_bias.begin(), w.dt_bias.end(), -40.0F);
     }},
    {"tiny rows into an empty state",
     [](EditableWeights&, Input& input) {
       scale(input.hidden, 0x1p-14);
       std::fill(input.recurrent.begin(), input.recurrent.end(), 0.0F);
       std::fill(input.conv.begin(), input.conv.end(), 0.0F);
     }},
    {"denormal rows, zero rows",
     [](EditableWeights& w, Input& input) {
       scale(input.hidden, 0x1p-128);
       const auto row = static_cast<std::ptrdiff_t>(w.config.hidden_size);
       for (const std::ptrdiff_t t : {0, 7, 8, 9, 10, 11, 30}) std::fill_n(input.hidden.begin() + t * row, row, bf16{});
     }},
    {"convolution outputs up to 2^50, a state of 1e6",
     [](EditableWeights& w, Input& input) {
       for (auto* x : {&w.q_conv, &w.k_conv, &w.v_conv}) scale(*x, 0x1p48);
       for (float& value : input.recurrent) value *= 1e6F;
     }},
    {"A_log far beyond checkpoints, dt_bias of +-8",
     [](EditableWeights& w, Input&) {
       for (std::size_t h = 0; h < w.a_log.size(); ++h) w.a_log[h] = h % 2 == 0 ? -6.9F : 6.9F;
       for (std::size_t c = 0; c < w.dt_bias.size(); ++c) w.dt_bias[c] = c % 2 == 0 ? 8.0F : -8.0F;
     }},
};

}  // namespace

TEST_CASE("the reference route has the CPU's bits", "[kda][layer][bits]") {
  constexpr std::uint32_t tokens = 130;
  const auto device = open_exact_device();
  const std::vector<Pieces> decoded{decode_each(tokens), decode_cycle(tokens), {{Call::decode_k, tokens}}};
  const std::vector<Pieces> prefilled{
      prefill_whole(tokens),
      prefill_cut(37, tokens),
      prefill_cut(1, tokens),
      {{Call::prefill, 64}, {Call::decode, 1}, {Call::decode_k, 21}, {Call::prefill, 44}}};
  for (const KdaConfig& config : geometries()) {
    INFO(text(config));
    const BothSides sides(device, reference::random_weights(config, 77));
    const Input input = random_input(config, tokens, 5);
    CHECK(sides.compare(input, decoded) == "");
    for (const std::uint32_t chunk : usable_chunks(config, *device)) {
      INFO("chunks of " << chunk);
      CHECK(sides.compare(input, prefilled, chunk) == "");
      CHECK(sides.compare(input, {prefill_whole(tokens)}, chunk, 32) == "");
    }
    CHECK(sides.compare_snapshots(slice(input, 0, 40)) == "");
  }
}

TEST_CASE("prefill of every length around a chunk has the CPU's bits", "[kda][layer][bits]") {
  const auto device = open_exact_device();
  for (const KdaConfig& config : {softplus_layer(), full_rank_layer()}) {
    const BothSides sides(device, reference::random_weights(config, 78));
    const Input input = random_input(config, 65, 6);
    for (const std::uint32_t tokens : {1U, 2U, 3U, 4U, 15U, 16U, 17U, 31U, 32U, 33U, 47U, 65U}) {
      INFO(text(config) << ", " << tokens << " tokens");
      CHECK(sides.compare(slice(input, 0, tokens), {prefill_whole(tokens)}) == "");
    }
  }
}

TEST_CASE("the reference route has the CPU's bits on hard inputs", "[kda][layer][bits][hard]") {
  constexpr std::uint32_t tokens = 35;
  const auto device = open_exact_device();
  const std::vector<Pieces> runs{decode_cycle(tokens), prefill_whole(tokens), prefill_cut(9, tokens)};
  for (const KdaConfig& config : {softplus_layer(), lower_bound_layer(), full_rank_layer()}) {
    for (const Hard& hard : all_hard) {
      INFO(text(config) << ", " << hard.name);
      EditableWeights weights(reference::random_weights(config, 79));
      Input input = random_input(config, tokens, 7);
      hard.bend(weights, input);
      const BothSides sides(device, weights.view());
      CHECK(sides.compare(input, runs) == "");
    }
  }
}

}  // namespace kdart::test
