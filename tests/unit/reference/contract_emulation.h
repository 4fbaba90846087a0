// The layer composed of the per-kernel references, with the rounding contract of kda.md section 3 between them: what a
// perfect implementation of the contract gives. The distance to the float64 layer is the contract's own error.
#pragma once

#include <cmath>
#include <span>
#include <vector>

#include "kdart/weights.h"
#include "tools/reference/kernels_reference.h"

namespace kdart::test {

struct Emulated {
  std::vector<float> out, recurrent, conv;
};

inline std::vector<float> to_f32(std::span<const double> x) {
  std::vector<float> result(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) result[i] = static_cast<float>(x[i]);
  return result;
}

class ContractEmulation {
 public:
  ContractEmulation(const KdaWeights& weights, std::size_t tokens) : w_(weights), c_(weights.config), tokens_(tokens) {}

  // Token by token, as decode does it.
  Emulated decode(std::span<const bf16> hidden, std::vector<float> recurrent, std::span<const float> conv) {
    front_end(hidden, conv);
    std::vector<float> core;
    const std::size_t qkv = c_.qkv();
    for (std::size_t t = 0; t < tokens_; ++t) {
      const auto row = [&](const std::vector<float>& x, std::size_t width) {
        return std::span(x).subspan(t * width, width);
      };
      const auto step = reference::recurrent_step(row(q_, qkv), row(k_, qkv), row(v_, qkv), row(gate_, qkv),
                                                  row(beta_, c_.heads), recurrent, c_.heads, c_.head_dim, scale());
      recurrent = to_f32(step.state);
      const auto out = to_f32(step.out);
      core.insert(core.end(), out.begin(), out.end());
    }
    return {back_end(core), recurrent, window_};
  }

  // In chunks, as prefill does it.
  Emulated prefill(std::span<const bf16> hidden, const std::vector<float>& recurrent, std::span<const float> conv,
                   std::size_t chunk) {
    front_end(hidden, conv);
    const reference::ChunkShape shape{tokens_, c_.heads, c_.head_dim, chunk};
    const auto prepared = reference::chunk_prepare(k_, v_, gate_, beta_, shape);
    const auto scanned = reference::chunk_scan(q_, k_, to_f32(prepared.gc), to_f32(prepared.u), to_f32(prepared.w),
                                               recurrent, shape, scale());
    return {back_end(to_f32(scanned.out)), to_f32(scanned.state), window_};
  }

 private:
  [[nodiscard]] float scale() const { return 1.0F / std::sqrt(static_cast<float>(c_.head_dim)); }

  [[nodiscard]] std::vector<bf16> project(std::span<const bf16> x, std::span<const bf16> weight, std::size_t rows,
                                          std::span<const bf16> bias = {}) const {
    const std::size_t columns = weight.size() / rows;
    return reference::round_to_bf16(reference::gemm(x, weight, bias, {tokens_, rows, columns, columns}));
  }

  void front_end(std::span<const bf16> hidden, std::span<const float> conv) {
    const std::size_t qkv = c_.qkv();
    std::vector<bf16> packed(tokens_ * 3 * qkv);
    std::vector<bf16> taps;
    std::size_t part = 0;
    for (const auto& [proj, conv_weight] :
         {std::pair{w_.q_proj, w_.q_conv}, {w_.k_proj, w_.k_conv}, {w_.v_proj, w_.v_conv}}) {
      const auto y = project(hidden, proj, qkv);
      for (std::size_t t = 0; t < tokens_; ++t) {
        for (std::size_t i = 0; i < qkv; ++i) packed[t * 3 * qkv + part * qkv + i] = y[t * qkv + i];
      }
      taps.insert(taps.end(), conv_weight.begin(), conv_weight.end());
      ++part;
    }
    const auto convolved =
        reference::conv(conv, packed, taps, {tokens_, 3 * qkv, 2 * qkv, c_.head_dim, 3 * qkv, c_.l2_eps});
    window_ = convolved.state;
    const auto rounded = reference::widen(reference::round_to_bf16(convolved.out));
    std::vector<float>* parts[] = {&q_, &k_, &v_};
    for (std::size_t p = 0; p < 3; ++p) {
      for (std::size_t t = 0; t < tokens_; ++t) {
        const auto row = std::span(rounded).subspan((t * 3 + p) * qkv, qkv);
        parts[p]->insert(parts[p]->end(), row.begin(), row.end());
      }
    }
    const auto f = project(project(hidden, w_.f_a_proj, c_.decay_rank), w_.f_b_proj, qkv);
    gate_ = to_f32(
        reference::gate(f, w_.dt_bias, w_.a_log, {tokens_, c_.heads, c_.head_dim}, c_.gate_law, c_.gate_lower_bound));
    beta_ = to_f32(reference::sigmoid(project(hidden, w_.b_proj, c_.heads)));
    z_ = c_.output_gate_rank == 0
             ? project(hidden, w_.g_proj, qkv)
             : project(project(hidden, w_.g_a_proj, c_.output_gate_rank), w_.g_b_proj, qkv, w_.g_b_bias);
  }

  std::vector<float> back_end(const std::vector<float>& core) {
    const auto y = reference::o_norm(core, z_, w_.o_norm, {tokens_, c_.heads, c_.head_dim}, c_.rms_norm_eps);
    return reference::widen(project(reference::round_to_bf16(y), w_.o_proj, c_.hidden_size));
  }

  const KdaWeights& w_;
  const KdaConfig& c_;
  std::size_t tokens_;
  std::vector<float> q_, k_, v_, gate_, beta_, window_;
  std::vector<bf16> z_;
};

}  // namespace kdart::test
