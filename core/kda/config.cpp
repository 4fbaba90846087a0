#include "kdart/config.h"

#include <array>
#include <cmath>

#include "core/runtime/format.h"
#include "core/runtime/messages.h"
#include "kdart/error.h"

namespace kdart {
namespace {

// Widths and ranks stay below this, so that products of two of them, in bytes, fit 64 bits with room to spare.
constexpr std::uint64_t max_width = std::uint64_t{1} << 28;

void check_width(std::string_view field, std::uint64_t value) {
  if (value == 0 || value > max_width) {
    throw Error(ErrorCode::invalid_argument,
                detail::format("KdaConfig.{} is {}; it must be between 1 and {}", field, value, max_width));
  }
}

// The projections read eight bf16 at a time, so every row of an operand must be whole groups of eight.
void check_group(std::string_view field, std::uint32_t value) {
  if (value % 8 != 0) {
    throw Error(ErrorCode::unsupported,
                detail::format("KdaConfig.{} {} is not supported; it must be a multiple of 8", field, value));
  }
}

void check_eps(std::string_view field, float value) {
  if (!(std::isfinite(value) && value > 0.0F)) {
    throw Error(ErrorCode::invalid_argument,
                detail::format("KdaConfig.{} is {}; it must be positive and finite", field, value));
  }
}

void check_gate(const KdaConfig& config) {
  const float bound = config.gate_lower_bound;
  switch (config.gate_law) {
    case GateLaw::softplus:
      if (bound != 0.0F) {
        throw Error(ErrorCode::invalid_argument,
                    detail::format("KdaConfig.gate_lower_bound is {}; it must be 0 for the softplus gate law", bound));
      }
      return;
    case GateLaw::lower_bound:
      if (!(bound >= -5.0F && bound < 0.0F)) {
        throw Error(ErrorCode::invalid_argument,
                    detail::format(
                        "KdaConfig.gate_lower_bound is {}; it must be in [-5, 0) for the lower_bound gate law", bound));
      }
      return;
  }
  throw Error(ErrorCode::invalid_argument,
              detail::format("KdaConfig.gate_law is {}; it must be 0 (softplus) or 1 (lower_bound)",
                             static_cast<std::uint32_t>(config.gate_law)));
}

struct NamedGeometry {
  std::string_view name;
  std::uint32_t hidden_size;
  std::uint32_t heads;
  std::uint32_t output_gate_rank;
  GateLaw gate_law;
};

// Head width 128, four taps, decay rank 128 and no gate bias in all three.
constexpr std::array<NamedGeometry, 3> geometries{{
    {"kimi-linear", 2304, 32, 128, GateLaw::softplus},
    {"kimi-k3", 7168, 96, 0, GateLaw::lower_bound},
    {"glm-5.3-flash", 4096, 64, 128, GateLaw::lower_bound},
}};

}  // namespace

std::string_view to_string(GateLaw law) noexcept {
  switch (law) {
    case GateLaw::softplus:
      return "softplus";
    case GateLaw::lower_bound:
      return "lower_bound";
  }
  return "unknown";
}

void KdaConfig::validate() const {
  if (head_dim != 64 && head_dim != 128) {
    throw Error(ErrorCode::unsupported, detail::format("head_dim {} is not supported; it must be 64 or 128", head_dim));
  }
  if (conv_kernel != 4) {
    throw Error(ErrorCode::unsupported,
                detail::format("a convolution kernel of {} taps is not supported; it must be 4", conv_kernel));
  }
  check_width("hidden_size", hidden_size);
  check_width("heads", heads);
  check_width("decay_rank", decay_rank);
  if (output_gate_rank != 0) check_width("output_gate_rank", output_gate_rank);
  check_group("hidden_size", hidden_size);
  check_group("decay_rank", decay_rank);
  check_group("output_gate_rank", output_gate_rank);
  if (const std::uint64_t width = std::uint64_t{heads} * head_dim; width > max_width) {
    throw Error(ErrorCode::invalid_argument,
                detail::format("KdaConfig.heads x head_dim is {} x {} = {}; the limit is {}", heads, head_dim, width,
                               max_width));
  }
  if (output_gate_bias && output_gate_rank == 0) {
    throw Error(ErrorCode::invalid_argument,
                "KdaConfig.output_gate_bias is true with output_gate_rank 0; only a low-rank gate has a bias");
  }
  check_gate(*this);
  check_eps("rms_norm_eps", rms_norm_eps);
  check_eps("l2_eps", l2_eps);
}

KdaConfig named_geometry(std::string_view name) {
  for (const auto& g : geometries) {
    if (g.name != name) continue;
    KdaConfig config;
    config.hidden_size = g.hidden_size;
    config.heads = g.heads;
    config.head_dim = 128;
    config.decay_rank = 128;
    config.output_gate_rank = g.output_gate_rank;
    config.gate_law = g.gate_law;
    config.gate_lower_bound = g.gate_law == GateLaw::lower_bound ? -5.0F : 0.0F;
    return config;
  }
  throw Error(ErrorCode::invalid_argument, detail::format("unknown geometry {}; known are {}", detail::quote(name),
                                                          fmt::join(geometry_names(), ", ")));
}

std::vector<std::string_view> geometry_names() {
  std::vector<std::string_view> names;
  names.reserve(geometries.size());
  for (const auto& g : geometries) names.push_back(g.name);
  return names;
}

}  // namespace kdart
