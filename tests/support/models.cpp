#include "tests/support/models.h"

#include <span>

namespace kdart::test {
namespace {

KdaConfig base() {
  KdaConfig config;
  config.hidden_size = 72;  // no multiple of any tile
  config.heads = 2;
  config.head_dim = 64;
  config.decay_rank = 16;
  config.output_gate_rank = 24;
  return config;
}

template <class T>
std::vector<T> copy(std::span<const T> source) {
  return {source.begin(), source.end()};
}

}  // namespace

KdaConfig softplus_layer() {
  KdaConfig config = base();
  config.output_gate_bias = true;
  return config;
}

KdaConfig lower_bound_layer() {
  KdaConfig config = base();
  config.heads = 3;
  config.gate_law = GateLaw::lower_bound;
  config.gate_lower_bound = -5.0F;
  return config;
}

KdaConfig full_rank_layer() {
  KdaConfig config = base();
  config.head_dim = 128;
  config.output_gate_rank = 0;
  config.gate_law = GateLaw::lower_bound;
  config.gate_lower_bound = -5.0F;
  return config;
}

KdaConfig one_head_layer() {
  KdaConfig config = base();
  config.hidden_size = 64;
  config.heads = 1;
  config.decay_rank = 8;
  config.output_gate_rank = 8;
  return config;
}

EditableWeights::EditableWeights(const KdaWeights& source)
    : config(source.config),
      q_proj(copy(source.q_proj)),
      k_proj(copy(source.k_proj)),
      v_proj(copy(source.v_proj)),
      q_conv(copy(source.q_conv)),
      k_conv(copy(source.k_conv)),
      v_conv(copy(source.v_conv)),
      f_a_proj(copy(source.f_a_proj)),
      f_b_proj(copy(source.f_b_proj)),
      g_a_proj(copy(source.g_a_proj)),
      g_b_proj(copy(source.g_b_proj)),
      g_b_bias(copy(source.g_b_bias)),
      g_proj(copy(source.g_proj)),
      b_proj(copy(source.b_proj)),
      o_proj(copy(source.o_proj)),
      o_norm(copy(source.o_norm)),
      a_log(copy(source.a_log)),
      dt_bias(copy(source.dt_bias)) {}

KdaWeights EditableWeights::view() const {
  KdaWeights w;
  w.config = config;
  w.q_proj = q_proj, w.k_proj = k_proj, w.v_proj = v_proj;
  w.q_conv = q_conv, w.k_conv = k_conv, w.v_conv = v_conv;
  w.f_a_proj = f_a_proj, w.f_b_proj = f_b_proj;
  w.g_a_proj = g_a_proj, w.g_b_proj = g_b_proj, w.g_b_bias = g_b_bias, w.g_proj = g_proj;
  w.b_proj = b_proj, w.o_proj = o_proj, w.o_norm = o_norm;
  w.a_log = a_log, w.dt_bias = dt_bias;
  return w;
}

}  // namespace kdart::test
