// The geometry of one KDA layer, and what a model's config.json says about all of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kdart/export.h"

namespace kdart {

// How the log-decay g follows from f (kda.md calls this "the gate law").
//   softplus:     g = -exp(A_log[h]) * softplus(f + dt_bias)                        in (-inf, 0]
//   lower_bound:  g = lower_bound * sigmoid(exp(A_log[h]) * (f + dt_bias))          in [lower_bound, 0]
enum class GateLaw : std::uint32_t { softplus = 0, lower_bound = 1 };
[[nodiscard]] KDART_API std::string_view to_string(GateLaw law) noexcept;

// One layer's geometry. A plain value; `validate()` is the one place that says what is allowed.
struct KdaConfig {
  std::uint32_t hidden_size = 0;
  std::uint32_t heads = 0;             // H
  std::uint32_t head_dim = 0;          // D, keys and values alike: 64 or 128
  std::uint32_t conv_kernel = 4;       // taps of the causal depthwise convolution: 4
  std::uint32_t decay_rank = 0;        // rank of f_b(f_a(x)): rows of f_a_proj
  std::uint32_t output_gate_rank = 0;  // rank of g_b(g_a(x)); 0 means one full-rank g_proj
  bool output_gate_bias = false;       // g_b_proj has a bias
  GateLaw gate_law = GateLaw::softplus;
  float gate_lower_bound = 0.0F;  // in [-5, 0) for GateLaw::lower_bound, else 0
  float rms_norm_eps = 1e-5F;
  float l2_eps = 1e-6F;  // inside the root

  [[nodiscard]] std::uint32_t qkv() const noexcept { return heads * head_dim; }     // channels of each of q, k, v
  [[nodiscard]] std::uint32_t conv_channels() const noexcept { return 3 * qkv(); }  // q | k | v
  [[nodiscard]] std::uint64_t recurrent_elements() const noexcept {                 // f32 [H, D, D]
    return std::uint64_t{heads} * head_dim * head_dim;
  }
  [[nodiscard]] std::uint64_t conv_elements() const noexcept {  // f32 [3 * qkv, conv_kernel]
    return std::uint64_t{conv_channels()} * conv_kernel;
  }

  // Throws Error: unsupported for a head_dim or conv_kernel that no kernel handles, and for a hidden_size or rank that is
  // no multiple of 8 (projections read eight elements at a time); invalid_argument for all else
  // (a zero, a bound outside [-5, 0), an eps that is not positive and finite, a geometry whose qkv overflows 2^28).
  // The message names the field, its value and what is allowed.
  KDART_API void validate() const;

  friend bool operator==(const KdaConfig&, const KdaConfig&) = default;
};

// What config.json says. Layer numbers are 0-based here, whatever the file's own base.
struct ModelConfig {
  std::string model_type;  // outer: kimi_linear, kimi_k3 or glm5_next
  std::uint32_t hidden_size = 0;
  std::uint32_t heads = 0;
  std::uint32_t head_dim = 0;
  std::uint32_t conv_kernel = 0;
  float rms_norm_eps = 0.0F;
  std::optional<float> gate_lower_bound;  // absent or null: softplus
  bool full_rank_gate = false;
  std::vector<std::uint32_t> kda_layers;  // ascending, 0-based: the N of `layers.N` in tensor names

  // Reads a config.json's text. Fields stand at the top or under `text_config`. Throws Error(bad_checkpoint) naming the
  // field, what was found and what was expected; nesting and length are bounded, so untrusted text is safe.
  [[nodiscard]] static KDART_API ModelConfig parse(std::string_view text);
};

// The full-size geometries of the checkpoints this layer is made for: "kimi-linear", "kimi-k3", "glm-5.3-flash".
// Throws Error(invalid_argument) listing these names for any other.
[[nodiscard]] KDART_API KdaConfig named_geometry(std::string_view name);
[[nodiscard]] KDART_API std::vector<std::string_view> geometry_names();

}  // namespace kdart
