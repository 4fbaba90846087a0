#include "kdart/layer.h"

#include <array>
#include <utility>

#include "core/kda/checks.h"
#include "core/kda/layer_impl.h"
#include "core/runtime/fail.h"

namespace kdart {
namespace {

using detail::fail;

constexpr std::uint64_t vector_bytes = 16;  // projections load eight bf16 of a row at a time

void check_options(const KdaOptions& options) {
  if (options.chunk != 16 && options.chunk != 32) {
    fail(ErrorCode::invalid_argument, "KdaOptions: chunk is {}, it must be 16 or 32", options.chunk);
  }
  if (options.route == KdaRoute::reference && options.gemm == KdaGemm::service) {
    fail(ErrorCode::invalid_argument,
         "KdaOptions: gemm asks for the GEMM service, whose sums have an order of their own, on the reference route");
  }
}

std::shared_ptr<LoadedSet> load_built_in(GpuBackend& backend) {
  return backend.load(KernelSet::embedded(kernels::kda_contract(), backend.info().backend));
}

}  // namespace

KdaLayer::Impl::Impl(std::shared_ptr<const KdaDeviceWeights> device_weights, KdaOptions layer_options)
    : weights(std::move(device_weights)), options(std::move(layer_options)) {
  if (weights == nullptr) fail(ErrorCode::invalid_argument, "KdaLayer: the weights are null");
  check_options(options);
  set = options.kernels != nullptr ? options.kernels : load_built_in(gpu());
  kernels = detail::find_kernels(*set, options, config(), gpu().info());
  detail::prepare_kernels(gpu(), kernels, config(), options.chunk);
  products = detail::choose_products(gpu(), *weights, options);
  if (options.max_tokens_per_launch == 0) options.max_tokens_per_launch = gpu().info().limits.max_tokens_per_launch;
}

std::uint32_t KdaLayer::Impl::piece_tokens(const KdaWorkspace& ws) const {
  std::uint32_t most = ws.rows();
  if (options.max_tokens_per_launch != 0) most = std::min(most, options.max_tokens_per_launch);
  // A workspace below one chunk is padded to a whole one and runs its few tokens in a single piece.
  return std::max(most / options.chunk, 1U) * options.chunk;
}

void KdaLayer::Impl::check_call(std::string_view name, std::uint32_t tokens, const LayerCall& call) const {
  if (tokens == 0) fail(ErrorCode::invalid_argument, "{}: 0 tokens, at least 1 is needed", name);
  if (tokens > call.ws.max_tokens()) {
    fail(ErrorCode::invalid_argument, "{}: {} tokens, the workspace was made for at most {}", name, tokens,
         call.ws.max_tokens());
  }
  if (call.state.config() != config()) {
    fail(ErrorCode::invalid_argument, "{}: the state was made for another geometry than the layer's", name);
  }
  if (call.ws.config() != config()) {
    fail(ErrorCode::invalid_argument, "{}: the workspace was made for another geometry than the layer's", name);
  }
  if (call.state.backend() != weights->backend() || call.ws.backend() != weights->backend()) {
    fail(ErrorCode::invalid_argument, "{}: state and workspace must be on the layer's device object ({})", name,
         gpu().info().id);
  }
}

void KdaLayer::Impl::check_rows(std::string_view name, DevicePtr hidden, DevicePtr out) const {
  detail::check_address(name, "hidden", hidden, vector_bytes);
  detail::check_address(name, "out", out, sizeof(bf16));
}

void KdaLayer::Impl::check_core(std::string_view name, const KdaCoreInputs& inputs, DevicePtr out) const {
  const std::array<std::pair<std::string_view, DevicePtr>, 7> all = {{{"inputs.q", inputs.q},
                                                                      {"inputs.k", inputs.k},
                                                                      {"inputs.v", inputs.v},
                                                                      {"inputs.f", inputs.f},
                                                                      {"inputs.b", inputs.b},
                                                                      {"inputs.z", inputs.z},
                                                                      {"out", out}}};
  for (const auto& [part, memory] : all) detail::check_address(name, part, memory, sizeof(bf16));
}

void KdaLayer::Impl::check_snapshots(std::string_view name, std::uint32_t tokens, const KdaState& state,
                                     std::span<const StateSnapshot> snapshots) const {
  if (snapshots.size() > tokens) {
    fail(ErrorCode::invalid_argument, "{}: {} snapshots for {} tokens", name, snapshots.size(), tokens);
  }
  const std::uint64_t recurrent_bytes = KdaState::recurrent_bytes(config());
  const std::uint64_t conv_bytes = KdaState::conv_bytes(config());
  if (snapshots.empty()) return;
  std::vector<detail::MemoryRange> ranges = {{"the recurrent state", state.recurrent(), recurrent_bytes},
                                             {"the conv state", state.conv(), conv_bytes}};
  for (const StateSnapshot& snapshot : snapshots) {
    detail::check_memory(gpu(), name, "a snapshot's recurrent state", snapshot.recurrent, recurrent_bytes, 4);
    detail::check_memory(gpu(), name, "a snapshot's conv state", snapshot.conv, conv_bytes, 4);
    ranges.push_back({"a snapshot's recurrent state", snapshot.recurrent, recurrent_bytes});
    ranges.push_back({"a snapshot's conv state", snapshot.conv, conv_bytes});
  }
  detail::check_disjoint(name, std::move(ranges));
}

KdaCoreInputs advance(const KdaCoreInputs& inputs, const KdaConfig& config, std::uint64_t first) {
  const std::uint64_t row = first * config.qkv() * sizeof(bf16);
  return {.q = inputs.q.offset(row),
          .k = inputs.k.offset(row),
          .v = inputs.v.offset(row),
          .f = inputs.f.offset(row),
          .b = inputs.b.offset(first * config.heads * sizeof(bf16)),
          .z = inputs.z.offset(row)};
}

KdaLayer::KdaLayer(std::shared_ptr<GpuBackend> backend, const KdaWeights& weights, KdaOptions options)
    : KdaLayer(KdaDeviceWeights::upload(std::move(backend), weights), std::move(options)) {}

KdaLayer::KdaLayer(std::shared_ptr<const KdaDeviceWeights> weights, KdaOptions options)
    : impl_(std::make_unique<const Impl>(std::move(weights), std::move(options))) {}

KdaLayer::~KdaLayer() = default;
KdaLayer::KdaLayer(KdaLayer&&) noexcept = default;
KdaLayer& KdaLayer::operator=(KdaLayer&&) noexcept = default;

const KdaConfig& KdaLayer::config() const noexcept {
  return impl_->config();
}
const std::shared_ptr<GpuBackend>& KdaLayer::backend() const noexcept {
  return impl_->weights->backend();
}
const std::shared_ptr<LoadedSet>& KdaLayer::kernels() const noexcept {
  return impl_->set;
}
KdaRoute KdaLayer::route() const noexcept {
  return KdaRoute::reference;
}  // the only one that a set offers today
KdaPrefillGemm KdaLayer::prefill_gemm() const noexcept {
  return impl_->products.count;
}
std::string_view KdaLayer::recurrent_kernel() const noexcept {
  return impl_->kernels.recurrent_smem ? "recurrent_smem" : "recurrent";
}

}  // namespace kdart
