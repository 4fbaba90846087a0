// Uploading one layer's weights into one device allocation.
#include <cstddef>
#include <span>
#include <vector>

#include "core/kda/checks.h"
#include "kdart/layer.h"

namespace kdart {
namespace {

// Kernels load eight bf16 at a time from a weight's start; 256 bytes suit every device's own preference.
constexpr std::uint64_t alignment = 256;

// One device tensor: host pieces that are laid one after the other.
struct Placement {
  DevicePtr KdaDeviceWeights::* target;
  std::vector<std::span<const std::byte>> pieces;
  std::uint64_t offset = 0;
};

template <class... Spans>
Placement place(DevicePtr KdaDeviceWeights::* target, Spans... spans) {
  return {target, {std::as_bytes(spans)...}, 0};
}

std::uint64_t size_of(const Placement& placement) {
  std::uint64_t bytes = 0;
  for (const auto& piece : placement.pieces) bytes += piece.size();
  return bytes;
}

}  // namespace

std::shared_ptr<const KdaDeviceWeights> KdaDeviceWeights::upload(std::shared_ptr<GpuBackend> backend,
                                                                 const KdaWeights& weights) {
  detail::check_backend("KdaDeviceWeights::upload", backend);
  weights.validate();
  using W = KdaDeviceWeights;
  std::vector<Placement> placements = {
      place(&W::qkv_proj, weights.q_proj, weights.k_proj, weights.v_proj),
      place(&W::conv, weights.q_conv, weights.k_conv, weights.v_conv),
      place(&W::f_a_proj, weights.f_a_proj),
      place(&W::f_b_proj, weights.f_b_proj),
      place(&W::g_a_proj, weights.g_a_proj),
      place(&W::g_b_proj, weights.g_b_proj),
      place(&W::g_b_bias, weights.g_b_bias),
      place(&W::g_proj, weights.g_proj),
      place(&W::b_proj, weights.b_proj),
      place(&W::o_proj, weights.o_proj),
      place(&W::o_norm, weights.o_norm),
      place(&W::a_log, weights.a_log),
      place(&W::dt_bias, weights.dt_bias),
  };
  std::uint64_t total = 0;
  for (Placement& placement : placements) {
    placement.offset = total;
    total += (size_of(placement) + alignment - 1) / alignment * alignment;
  }

  std::shared_ptr<KdaDeviceWeights> result(new KdaDeviceWeights);
  result->config = weights.config;
  result->memory_ = Buffer(backend, total);
  for (const Placement& placement : placements) {
    if (size_of(placement) == 0) continue;  // this geometry has no such tensor: the address stays null
    DevicePtr target = result->memory_.get().offset(placement.offset);
    (*result).*placement.target = target;
    for (const auto& piece : placement.pieces) {
      backend->copy_h2d(target, piece.data(), piece.size());
      target = target.offset(piece.size());
    }
  }
  result->backend_ = std::move(backend);
  return result;
}

}  // namespace kdart
