#include "kdart/state.h"

#include <string_view>
#include <vector>

#include "core/kda/checks.h"
#include "core/runtime/fail.h"

namespace kdart {
namespace {

using detail::fail;

float load(float x) {
  return x;
}
float load(bf16 x) {
  return to_float(x);
}
void store(float& target, float x) {
  target = x;
}
void store(bf16& target, float x) {
  target = to_bf16(x);
}

void check_length(std::string_view call, std::size_t found, std::uint64_t expected) {
  if (found != expected) {
    fail(ErrorCode::invalid_argument, "{}: the span has {} elements, this layout has {}", call, found, expected);
  }
}

// Where element (h, k, v) of the engine's layout lies in ours, for the whole tensor in ours' order.
template <class Visit>
void for_each_recurrent(const KdaConfig& config, StateLayout layout, const Visit& visit) {
  const std::size_t d = config.head_dim;
  std::size_t ours = 0;
  for (std::size_t h = 0; h < config.heads; ++h) {
    for (std::size_t k = 0; k < d; ++k) {
      for (std::size_t v = 0; v < d; ++v, ++ours) {
        visit(ours, layout == StateLayout::key_major ? ours : (h * d + v) * d + k);
      }
    }
  }
}

std::size_t slots(ConvLayout layout) {
  return layout == ConvLayout::four_slots ? 4 : 3;
}

// Slots 1..3, the ones with meaning: index in ours, index in the engine's layout.
template <class Visit>
void for_each_conv(const KdaConfig& config, ConvLayout layout, const Visit& visit) {
  const std::size_t theirs = slots(layout);
  for (std::size_t channel = 0; channel < config.conv_channels(); ++channel) {
    for (std::size_t slot = 1; slot < 4; ++slot) visit(channel * 4 + slot, channel * theirs + slot + theirs - 4);
  }
}

template <class T>
void import_recurrent_as(GpuBackend& backend, const KdaConfig& config, DevicePtr target, std::span<const T> source,
                         StateLayout layout) {
  check_length("KdaState::import_recurrent", source.size(), config.recurrent_elements());
  std::vector<float> host(source.size());
  for_each_recurrent(config, layout, [&](std::size_t ours, std::size_t theirs) { host[ours] = load(source[theirs]); });
  backend.copy_h2d(target, host.data(), host.size() * sizeof(float));
}

template <class T>
void export_recurrent_as(GpuBackend& backend, const KdaConfig& config, DevicePtr source, std::span<T> target,
                         StateLayout layout) {
  check_length("KdaState::export_recurrent", target.size(), config.recurrent_elements());
  std::vector<float> host(target.size());
  backend.copy_d2h(host.data(), source, host.size() * sizeof(float));
  for_each_recurrent(config, layout, [&](std::size_t ours, std::size_t theirs) { store(target[theirs], host[ours]); });
}

template <class T>
void import_conv_as(GpuBackend& backend, const KdaConfig& config, DevicePtr target, std::span<const T> source,
                    ConvLayout layout) {
  check_length("KdaState::import_conv", source.size(), std::uint64_t{config.conv_channels()} * slots(layout));
  std::vector<float> host(config.conv_elements());  // slot 0 stays 0
  for_each_conv(config, layout, [&](std::size_t ours, std::size_t theirs) { host[ours] = load(source[theirs]); });
  backend.copy_h2d(target, host.data(), host.size() * sizeof(float));
}

template <class T>
void export_conv_as(GpuBackend& backend, const KdaConfig& config, DevicePtr source, std::span<T> target,
                    ConvLayout layout) {
  check_length("KdaState::export_conv", target.size(), std::uint64_t{config.conv_channels()} * slots(layout));
  std::vector<float> host(config.conv_elements());
  backend.copy_d2h(host.data(), source, host.size() * sizeof(float));
  if (layout == ConvLayout::four_slots) {
    for (std::size_t channel = 0; channel < config.conv_channels(); ++channel) store(target[channel * 4], 0.0F);
  }
  for_each_conv(config, layout, [&](std::size_t ours, std::size_t theirs) { store(target[theirs], host[ours]); });
}

}  // namespace

KdaState::KdaState(std::shared_ptr<GpuBackend> backend, const KdaConfig& config)
    : backend_(std::move(backend)), config_(config) {
  detail::check_backend("KdaState", backend_);
  config_.validate();
  own_recurrent_ = Buffer(backend_, recurrent_bytes(config_));
  own_conv_ = Buffer(backend_, conv_bytes(config_));
  recurrent_ = own_recurrent_.get();
  conv_ = own_conv_.get();
  const OwnedStream stream(backend_);
  zero(stream.get());
  backend_->synchronize(stream.get());
}

KdaState::KdaState(std::shared_ptr<GpuBackend> backend, const KdaConfig& config, DevicePtr recurrent, DevicePtr conv)
    : backend_(std::move(backend)), config_(config), recurrent_(recurrent), conv_(conv) {
  detail::check_backend("KdaState", backend_);
  config_.validate();
  detail::check_memory(*backend_, "KdaState", "recurrent", recurrent_, recurrent_bytes(config_), alignof(float));
  detail::check_memory(*backend_, "KdaState", "conv", conv_, conv_bytes(config_), alignof(float));
  detail::check_disjoint("KdaState",
                         {{"recurrent", recurrent_, recurrent_bytes(config_)}, {"conv", conv_, conv_bytes(config_)}});
}

void KdaState::zero(Stream stream) {
  backend_->fill(recurrent_, 0, 4, config_.recurrent_elements(), stream);
  backend_->fill(conv_, 0, 4, config_.conv_elements(), stream);
}

void KdaState::import_recurrent(std::span<const float> source, StateLayout layout) {
  import_recurrent_as(*backend_, config_, recurrent_, source, layout);
}
void KdaState::import_recurrent(std::span<const bf16> source, StateLayout layout) {
  import_recurrent_as(*backend_, config_, recurrent_, source, layout);
}
void KdaState::export_recurrent(std::span<float> target, StateLayout layout) const {
  export_recurrent_as(*backend_, config_, recurrent_, target, layout);
}
void KdaState::export_recurrent(std::span<bf16> target, StateLayout layout) const {
  export_recurrent_as(*backend_, config_, recurrent_, target, layout);
}
void KdaState::import_conv(std::span<const float> source, ConvLayout layout) {
  import_conv_as(*backend_, config_, conv_, source, layout);
}
void KdaState::import_conv(std::span<const bf16> source, ConvLayout layout) {
  import_conv_as(*backend_, config_, conv_, source, layout);
}
void KdaState::export_conv(std::span<float> target, ConvLayout layout) const {
  export_conv_as(*backend_, config_, conv_, target, layout);
}
void KdaState::export_conv(std::span<bf16> target, ConvLayout layout) const {
  export_conv_as(*backend_, config_, conv_, target, layout);
}

}  // namespace kdart
