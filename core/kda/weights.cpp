#include "kdart/weights.h"

#include "core/runtime/format.h"
#include "kdart/error.h"

namespace kdart {
namespace {

template <typename T>
void check(std::string_view name, std::span<const T> span, std::uint64_t rows, std::uint64_t columns) {
  const std::uint64_t expected = rows * columns;  // both below 2^28 in a valid config
  if (span.size() == expected) return;
  throw Error(
      ErrorCode::invalid_argument,
      expected == 0
          ? detail::format("KdaWeights.{} has {} elements; this geometry has no such tensor, so it must be empty", name,
                           span.size())
          : detail::format("KdaWeights.{} has {} elements; expected {} ([{}, {}])", name, span.size(), expected, rows,
                           columns));
}

}  // namespace

void KdaWeights::validate() const {
  config.validate();
  const std::uint64_t hidden = config.hidden_size;
  const std::uint64_t qkv = config.qkv();
  const std::uint64_t rank = config.output_gate_rank;
  check("q_proj", q_proj, qkv, hidden);
  check("k_proj", k_proj, qkv, hidden);
  check("v_proj", v_proj, qkv, hidden);
  check("q_conv", q_conv, qkv, config.conv_kernel);
  check("k_conv", k_conv, qkv, config.conv_kernel);
  check("v_conv", v_conv, qkv, config.conv_kernel);
  check("f_a_proj", f_a_proj, config.decay_rank, hidden);
  check("f_b_proj", f_b_proj, qkv, config.decay_rank);
  check("g_a_proj", g_a_proj, rank, hidden);
  check("g_b_proj", g_b_proj, qkv, rank);
  check("g_b_bias", g_b_bias, config.output_gate_bias ? qkv : 0, 1);
  check("g_proj", g_proj, rank == 0 ? qkv : 0, hidden);
  check("b_proj", b_proj, config.heads, hidden);
  check("o_proj", o_proj, hidden, qkv);
  check("o_norm", o_norm, config.head_dim, 1);
  check("a_log", a_log, config.heads, 1);
  check("dt_bias", dt_bias, qkv, 1);
}

}  // namespace kdart
