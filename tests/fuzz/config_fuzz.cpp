// config.json: any text gives a ModelConfig that keeps its promises, or Error(bad_checkpoint).
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string_view>

#include "kdart/config.h"
#include "kdart/error.h"

namespace {

bool keeps_its_promises(const kdart::ModelConfig& config) {
  const auto& layers = config.kda_layers;
  const bool distinct = std::adjacent_find(layers.begin(), layers.end(), std::greater_equal<>()) == layers.end();
  const bool bound = !config.gate_lower_bound || (*config.gate_lower_bound >= -5.0F && *config.gate_lower_bound < 0.0F);
  return !layers.empty() && distinct && bound && config.hidden_size != 0 && config.heads != 0 && config.head_dim != 0 &&
         config.conv_kernel != 0 && config.rms_norm_eps > 0.0F &&
         (config.model_type == "kimi_linear" || config.model_type == "kimi_k3" || config.model_type == "glm5_next");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto config = kdart::ModelConfig::parse({reinterpret_cast<const char*>(data), size});
    if (!keeps_its_promises(config)) std::abort();
  } catch (const kdart::Error& error) {
    if (error.code() != kdart::ErrorCode::bad_checkpoint) std::abort();
  }
  return 0;
}
