#include "tests/support/layer_runner.h"

#include <algorithm>
#include <array>
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <utility>

#include "core/runtime/format.h"
#include "kdart/kda_kernels.h"
#include "tools/reference/cases.h"
#include "tools/reference/random_model.h"
#include "tools/reference/reference.h"

namespace kdart::test {
namespace {

std::uint32_t bits(float x) {
  return std::bit_cast<std::uint32_t>(x);
}
std::uint32_t bits(bf16 x) {
  return x.bits;
}

template <class T>
std::string difference_of(std::string_view name, const std::vector<T>& a, const std::vector<T>& b) {
  if (a.size() != b.size()) return detail::format("{}: {} and {} elements; ", name, a.size(), b.size());
  std::size_t count = 0;
  std::size_t first = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (bits(a[i]) == bits(b[i])) continue;
    if (count++ == 0) first = i;
  }
  if (count == 0) return "";
  return detail::format("{}: {} of {} elements differ, first [{}]: {:#x} and {:#x}; ", name, count, a.size(), first,
                        bits(a[first]), bits(b[first]));
}

std::vector<float> widen(const std::vector<bf16>& x) {
  std::vector<float> result(x.size());
  std::transform(x.begin(), x.end(), result.begin(), [](bf16 value) { return to_float(value); });
  return result;
}

std::vector<float> rounded(const std::vector<double>& x) {
  std::vector<float> result(x.size());
  std::transform(x.begin(), x.end(), result.begin(), [](double value) { return static_cast<float>(value); });
  return result;
}

}  // namespace

Input random_input(const KdaConfig& config, std::uint32_t tokens, std::uint64_t seed) {
  return {tokens, reference::random_hidden(config, tokens, seed), reference::random_recurrent(config, seed),
          reference::random_conv(config, seed)};
}

Input slice(const Input& input, std::uint32_t first, std::uint32_t tokens) {
  const std::size_t width = input.hidden.size() / input.tokens;
  const auto begin = input.hidden.begin() + static_cast<std::ptrdiff_t>(first * width);
  return {tokens, {begin, begin + static_cast<std::ptrdiff_t>(tokens * width)}, input.recurrent, input.conv};
}

std::string difference(const Output& a, const Output& b) {
  return difference_of("out", a.out, b.out) + difference_of("recurrent", a.recurrent, b.recurrent) +
         difference_of("conv", a.conv, b.conv);
}

Truth truth_of(const KdaWeights& weights, const Input& input) {
  reference::State state{{input.recurrent.begin(), input.recurrent.end()}, {input.conv.begin(), input.conv.end()}};
  const std::vector<double> out = reference::forward(weights, input.hidden, input.tokens, state);
  return {rounded(out), rounded(state.recurrent), rounded(state.conv)};
}

Figures measure(const Output& output, const Truth& truth) {
  return {reference::relative_l2(widen(output.out), truth.out),
          reference::relative_l2(output.recurrent, truth.recurrent),
          reference::conv_max_excess(output.conv, truth.conv)};
}

void check_figures(const Figures& figures, double out_bound, double recurrent_bound) {
  // A comparison with NaN is false, so what is not finite fails here too.
  CHECK(figures.out <= out_bound);
  CHECK(figures.recurrent <= recurrent_bound);
  CHECK(figures.conv_excess <= 0.0);
}

Pieces decode_each(std::uint32_t tokens) {
  return Pieces(tokens, {Call::decode, 1});
}

Pieces decode_cycle(std::uint32_t tokens) {
  constexpr std::array<std::uint32_t, 7> widths{1, 2, 3, 5, 8, 16, 21};
  Pieces pieces;
  for (std::size_t i = 0; tokens > 0; ++i) {
    const std::uint32_t k = std::min(widths[i % widths.size()], tokens);
    pieces.push_back({Call::decode_k, k});
    tokens -= k;
  }
  return pieces;
}

Pieces prefill_whole(std::uint32_t tokens) {
  return {{Call::prefill, tokens}};
}

Pieces prefill_cut(std::uint32_t cut, std::uint32_t tokens) {
  return {{Call::prefill, cut}, {Call::prefill, tokens - cut}};
}

std::vector<std::uint32_t> usable_chunks(const KdaConfig& config, const GpuBackend& device) {
  kernels::ChunkScanArgs args{};
  args.key_dim = args.value_dim = config.head_dim;
  args.key_heads = args.value_heads = config.heads;
  args.chunk = 32;
  const auto* arguments = reinterpret_cast<const std::byte*>(&args);
  const std::uint64_t shared_bytes = kernels::ChunkScanArgs::contract().shape(arguments).shared_bytes;
  if (shared_bytes > device.info().limits.shared_memory_per_block) return {16};
  return {16, 32};
}

LayerRunner::LayerRunner(const std::shared_ptr<const KdaDeviceWeights>& weights, std::uint32_t max_tokens,
                         KdaOptions options, std::uint32_t max_tokens_per_launch)
    : backend_(weights->backend()),
      stream_(backend_),
      layer_(weights, std::move(options)),
      state_(backend_, weights->config),
      workspace_(backend_, weights->config, max_tokens, max_tokens_per_launch),
      hidden_(backend_, std::uint64_t{max_tokens} * weights->config.hidden_size * sizeof(bf16)),
      out_(backend_, hidden_.bytes()) {}

DevicePtr LayerRunner::hidden(std::uint32_t row) const {
  return hidden_.get().offset(std::uint64_t{row} * layer_.config().hidden_size * sizeof(bf16));
}

DevicePtr LayerRunner::out(std::uint32_t row) const {
  return out_.get().offset(std::uint64_t{row} * layer_.config().hidden_size * sizeof(bf16));
}

Output LayerRunner::run(const Input& input, const Pieces& pieces) {
  start(input);
  std::uint32_t first = 0;
  for (const Piece& piece : pieces) {
    submit(piece, first);
    first += piece.tokens;
  }
  REQUIRE(first == input.tokens);
  return finish();
}

void LayerRunner::start(const Input& input) {
  tokens_ = input.tokens;
  state_.import_recurrent(std::span<const float>(input.recurrent));
  state_.import_conv(std::span<const float>(input.conv));
  backend_->copy_h2d(hidden_.get(), input.hidden.data(), input.hidden.size() * sizeof(bf16));
  // NaN, so that a row that no call writes is noticed.
  backend_->fill(out_.get(), 0x7FC0U, sizeof(bf16), out_.bytes() / sizeof(bf16), stream_.get());
}

void LayerRunner::submit(const Piece& piece, std::uint32_t first) {
  switch (piece.call) {
    case Call::decode:
      REQUIRE(piece.tokens == 1);
      layer_.decode(hidden(first), state_, workspace_, stream_.get(), out(first));
      return;
    case Call::decode_k:
      layer_.decode_k(hidden(first), piece.tokens, state_, workspace_, {}, stream_.get(), out(first));
      return;
    case Call::prefill:
      layer_.prefill(hidden(first), piece.tokens, state_, workspace_, stream_.get(), out(first));
      return;
  }
}

Output LayerRunner::finish() {
  backend_->synchronize(stream_.get());
  HostState states = fetch(state_);
  return {download<bf16>(*backend_, out_.get(), std::size_t{tokens_} * layer_.config().hidden_size),
          std::move(states.recurrent), std::move(states.conv)};
}

HostState fetch(const KdaState& state) {
  HostState result{std::vector<float>(state.config().recurrent_elements()),
                   std::vector<float>(state.config().conv_elements())};
  state.export_recurrent(std::span<float>(result.recurrent));
  state.export_conv(std::span<float>(result.conv));
  return result;
}

HostState fetch(GpuBackend& backend, const KdaConfig& config, const StateSnapshot& snapshot) {
  HostState result{download<float>(backend, snapshot.recurrent, config.recurrent_elements()),
                   download<float>(backend, snapshot.conv, config.conv_elements())};
  for (std::size_t i = 0; i < result.conv.size(); i += config.conv_kernel) result.conv[i] = 0.0F;
  return result;
}

std::string difference(const HostState& a, const HostState& b) {
  return difference_of("recurrent", a.recurrent, b.recurrent) + difference_of("conv", a.conv, b.conv);
}

}  // namespace kdart::test
