// All scratch memory that a layer call needs. Made once; no layer call allocates.
#pragma once

#include <cstdint>
#include <memory>

#include "kdart/backend.h"
#include "kdart/config.h"
#include "kdart/export.h"
#include "kdart/owned.h"

namespace kdart {

// One call at a time: calls that use one workspace must not overlap, on the host or in streams. May serve any number of
// layers of the same geometry, one after another.
class KdaWorkspace {
 public:
  // Longest chunk of the prefill recurrence; padded buffers are a multiple of it.
  static constexpr std::uint32_t max_chunk = 32;

  // Bytes that a workspace for `max_tokens` takes. `max_tokens_per_launch` (0: no limit) bounds the rows that are in
  // flight at once and with them most of the memory; longer calls run in pieces. It is rounded up to a multiple of 32.
  [[nodiscard]] static KDART_API std::uint64_t bytes(const KdaConfig& config, std::uint32_t max_tokens,
                                                     std::uint32_t max_tokens_per_launch = 0);

  // Owns its memory. Throws invalid_argument for 0 tokens, what config.validate and alloc throw.
  KDART_API KdaWorkspace(std::shared_ptr<GpuBackend> backend, const KdaConfig& config, std::uint32_t max_tokens,
                         std::uint32_t max_tokens_per_launch = 0);
  // Sits on `memory`: bytes(..) long, 256-byte aligned, known to the backend, alive for as long as the workspace.
  KDART_API KdaWorkspace(std::shared_ptr<GpuBackend> backend, const KdaConfig& config, DevicePtr memory,
                         std::uint32_t max_tokens, std::uint32_t max_tokens_per_launch = 0);

  [[nodiscard]] const KdaConfig& config() const noexcept { return config_; }
  [[nodiscard]] const std::shared_ptr<GpuBackend>& backend() const noexcept { return backend_; }
  [[nodiscard]] std::uint32_t max_tokens() const noexcept { return max_tokens_; }
  [[nodiscard]] std::uint32_t rows() const noexcept { return rows_; }  // most tokens in one piece
  // bf16 [max_tokens, hidden_size]: where results go unless a call names another place.
  [[nodiscard]] DevicePtr final_out() const noexcept { return base_.offset(layout_.final_out); }

  // Where each intermediate lives, in bytes from the start. `rows` is rows(), `padded` is rows up to a multiple of 32.
  struct Layout {
    std::uint64_t qkv = 0;               // bf16 [rows, 3*qkv]     projections, q | k | v
    std::uint64_t f_a = 0;               // bf16 [rows, decay_rank]
    std::uint64_t f = 0;                 // bf16 [rows, qkv]
    std::uint64_t b = 0;                 // bf16 [rows, H]
    std::uint64_t g_a = 0;               // bf16 [rows, output_gate_rank]
    std::uint64_t z = 0;                 // bf16 [rows, qkv]
    std::uint64_t gate = 0;              // f32  [padded, qkv]     log-decay
    std::uint64_t beta = 0;              // f32  [padded, H]
    std::uint64_t conv_f32 = 0;          // f32  [padded, 3*qkv]   prefill only: conv + SiLU; later gc | u | w
    std::uint64_t conv_bf16 = 0;         // bf16 [rows, 3*qkv]     after conv, SiLU and L2
    std::uint64_t q = 0, k = 0, v = 0;   // f32 [padded, qkv] each
    std::uint64_t gc = 0, u = 0, w = 0;  // f32 [padded, qkv] each, inside conv_f32
    std::uint64_t core = 0;              // f32  [rows, qkv]       recurrence output
    std::uint64_t normed = 0;            // bf16 [rows, qkv]       after norm and gate
    std::uint64_t unaligned_out = 0;     // bf16 [rows, hidden_size], over gc .. core: a result on its way out
    std::uint64_t final_out = 0;         // bf16 [max_tokens, hidden_size]
    std::uint64_t total = 0;
  };
  [[nodiscard]] const Layout& layout() const noexcept { return layout_; }
  [[nodiscard]] DevicePtr at(std::uint64_t Layout::* part) const noexcept { return base_.offset(layout_.*part); }

 private:
  std::shared_ptr<GpuBackend> backend_;
  KdaConfig config_;
  std::uint32_t max_tokens_ = 0;
  std::uint32_t rows_ = 0;
  Layout layout_;
  Buffer own_;
  DevicePtr base_;
};

}  // namespace kdart
