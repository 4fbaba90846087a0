// The two states of one sequence: the recurrent matrix per head, and the convolution's window.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kdart/backend.h"
#include "kdart/bf16.h"
#include "kdart/config.h"
#include "kdart/export.h"
#include "kdart/owned.h"

namespace kdart {

// How an engine keeps its recurrent state [H, D, D]. kdart's own is key_major.
enum class StateLayout : std::uint8_t {
  key_major,    // S[(h * D + k) * D + v]
  value_major,  // S[(h * D + v) * D + k]
};

// How an engine keeps its convolution window, channels q | k | v, oldest input first. kdart's own is four_slots, whose
// slot 0 is shifted out unread: 0 after an import, meaningless in an export.
enum class ConvLayout : std::uint8_t {
  four_slots,   // [3 * qkv, 4]
  three_slots,  // [3 * qkv, 3]: slots 1..3
};

// Device memory: recurrent f32 [H, D, D] key-major, conv f32 [3 * qkv, 4]; both updated in place by the layer.
// One call at a time: no two calls that use one state may overlap, and its stream work must be ordered by the caller.
class KdaState {
 public:
  // Bytes of each part, for memory the caller provides.
  [[nodiscard]] static std::uint64_t recurrent_bytes(const KdaConfig& config) noexcept {
    return config.recurrent_elements() * sizeof(float);
  }
  [[nodiscard]] static std::uint64_t conv_bytes(const KdaConfig& config) noexcept {
    return config.conv_elements() * sizeof(float);
  }

  // Owns its memory, zeroed: the state before the first token. Throws what alloc throws, or config.validate.
  KDART_API KdaState(std::shared_ptr<GpuBackend> backend, const KdaConfig& config);
  // Sits on the caller's memory, which must outlive it, must be known to the backend (alloc or import_memory) and is
  // taken as it is. Both addresses are multiples of 4. Throws invalid_argument naming the part that does not fit.
  KDART_API KdaState(std::shared_ptr<GpuBackend> backend, const KdaConfig& config, DevicePtr recurrent, DevicePtr conv);

  [[nodiscard]] DevicePtr recurrent() const noexcept { return recurrent_; }
  [[nodiscard]] DevicePtr conv() const noexcept { return conv_; }
  [[nodiscard]] const KdaConfig& config() const noexcept { return config_; }
  [[nodiscard]] const std::shared_ptr<GpuBackend>& backend() const noexcept { return backend_; }

  // Back to the state before the first token, ordered in `stream`.
  KDART_API void zero(Stream stream);

  // Host to device and back, converting. Blocking, and ordered with no stream: synchronise the state's stream first.
  // Every span's length must be exactly that of the layout; otherwise invalid_argument names length and expectation and
  // nothing is changed. bf16 exports round to nearest even.
  KDART_API void import_recurrent(std::span<const float> source, StateLayout layout = StateLayout::key_major);
  KDART_API void import_recurrent(std::span<const bf16> source, StateLayout layout = StateLayout::key_major);
  KDART_API void export_recurrent(std::span<float> target, StateLayout layout = StateLayout::key_major) const;
  KDART_API void export_recurrent(std::span<bf16> target, StateLayout layout = StateLayout::key_major) const;
  KDART_API void import_conv(std::span<const float> source, ConvLayout layout = ConvLayout::four_slots);
  KDART_API void import_conv(std::span<const bf16> source, ConvLayout layout = ConvLayout::four_slots);
  KDART_API void export_conv(std::span<float> target, ConvLayout layout = ConvLayout::four_slots) const;
  KDART_API void export_conv(std::span<bf16> target, ConvLayout layout = ConvLayout::four_slots) const;

 private:
  std::shared_ptr<GpuBackend> backend_;
  KdaConfig config_;
  Buffer own_recurrent_, own_conv_;  // empty on the caller's memory
  DevicePtr recurrent_, conv_;
};

// Where decode_k puts both states after one row: two device addresses, each of KdaState's sizes, known to the backend,
// overlapping neither each other nor the state.
struct StateSnapshot {
  DevicePtr recurrent;
  DevicePtr conv;
};

}  // namespace kdart
