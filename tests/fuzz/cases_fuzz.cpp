// A file of golden cases: any bytes give cases of the right sizes, or Error(bad_checkpoint).
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "kdart/error.h"
#include "tools/reference/cases.h"

namespace {

kdart::KdaConfig tiny_config() {
  kdart::KdaConfig config;
  config.hidden_size = 8;
  config.heads = 1;
  config.head_dim = 64;
  config.decay_rank = 8;
  return config;
}

bool whole(const kdart::reference::Case& c, const kdart::KdaConfig& config) {
  return c.tokens > 0 && !c.name.empty() && c.hidden.size() == c.tokens * config.hidden_size &&
         c.out.size() == c.hidden.size() && c.recurrent_in.size() == config.recurrent_elements() &&
         c.recurrent_out.size() == c.recurrent_in.size() && c.conv_in.size() == config.conv_elements() &&
         c.conv_out.size() == c.conv_in.size() && c.bounds.decode_out > 0 && c.bounds.decode_state > 0 &&
         c.bounds.prefill_out > 0 && c.bounds.prefill_state > 0;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const kdart::KdaConfig config = tiny_config();
  try {
    const auto cases = kdart::reference::parse_cases(std::as_bytes(std::span(data, size)), "fuzz.safetensors", config);
    if (cases.empty()) std::abort();
    for (const auto& c : cases) {
      if (!whole(c, config)) std::abort();
    }
  } catch (const kdart::Error& error) {
    if (error.code() != kdart::ErrorCode::bad_checkpoint) std::abort();
  }
  return 0;
}
