// Small layers for tests, and weights that a test can bend.
#pragma once

#include <cstdint>
#include <vector>

#include "kdart/bf16.h"
#include "kdart/config.h"
#include "kdart/weights.h"

namespace kdart::test {

// The smallest layers that still have more than one head, each with its own gate law, head width and output gate.
[[nodiscard]] KdaConfig softplus_layer();     // D 64, 2 heads, low-rank output gate with a bias
[[nodiscard]] KdaConfig lower_bound_layer();  // D 64, 3 heads, low-rank output gate without one
[[nodiscard]] KdaConfig full_rank_layer();    // D 128, 2 heads, full-rank output gate, lower bound
// One head of width 64: for runs whose cost is barriers.
[[nodiscard]] KdaConfig one_head_layer();

// A copy of a layer's weights that a test changes before it takes a view. The view points into this object.
struct EditableWeights {
  explicit EditableWeights(const KdaWeights& source);
  [[nodiscard]] KdaWeights view() const;

  KdaConfig config;
  std::vector<bf16> q_proj, k_proj, v_proj, q_conv, k_conv, v_conv, f_a_proj, f_b_proj, g_a_proj, g_b_proj, g_b_bias,
      g_proj, b_proj, o_proj, o_norm;
  std::vector<float> a_log, dt_bias;
};

}  // namespace kdart::test
