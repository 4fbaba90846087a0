// The weights of one KDA layer on the host: a view over memory that somebody else owns.
#pragma once

#include <memory>
#include <span>

#include "kdart/bf16.h"
#include "kdart/config.h"
#include "kdart/export.h"

namespace kdart {

// Row-major host tensors; shapes use hidden = config.hidden_size, qkv = config.qkv(), H = heads, D = head_dim.
// A span is empty exactly where the geometry has no such tensor. `keep_alive`, when set, owns what the spans point into;
// when it is null the caller keeps the memory alive for as long as the view is used.
struct KdaWeights {
  KdaConfig config;

  std::span<const bf16> q_proj, k_proj, v_proj;  // [qkv, hidden] each
  std::span<const bf16> q_conv, k_conv, v_conv;  // [qkv, 4] each, oldest tap first
  std::span<const bf16> f_a_proj;                // [decay_rank, hidden]
  std::span<const bf16> f_b_proj;                // [qkv, decay_rank]
  std::span<const bf16> g_a_proj;                // [output_gate_rank, hidden]; empty for a full-rank gate
  std::span<const bf16> g_b_proj;                // [qkv, output_gate_rank]; empty for a full-rank gate
  std::span<const bf16> g_b_bias;                // [qkv] or empty
  std::span<const bf16> g_proj;                  // [qkv, hidden]; empty for a low-rank gate
  std::span<const bf16> b_proj;                  // [H, hidden]
  std::span<const bf16> o_proj;                  // [hidden, qkv]
  std::span<const bf16> o_norm;                  // [D]
  std::span<const float> a_log;                  // [H]
  std::span<const float> dt_bias;                // [qkv]

  std::shared_ptr<const void> keep_alive;

  // Validates the config and every span's length against it. Throws Error(invalid_argument) naming the tensor, the
  // length found and the length expected.
  KDART_API void validate() const;
};

}  // namespace kdart
