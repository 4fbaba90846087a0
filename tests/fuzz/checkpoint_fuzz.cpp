// A safetensors file as a one-layer checkpoint. The first byte picks the config, the rest is the file. Any bytes give
// weights that are whole and inside the file, or an Error.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "core/kda/checkpoint_layer.h"
#include "kdart/checkpoint.h"
#include "kdart/error.h"

namespace {

kdart::ModelConfig model_of(std::uint8_t pick) {
  kdart::ModelConfig model;
  model.model_type = "glm5_next";
  model.hidden_size = 8;
  model.heads = 1;
  model.head_dim = 64;
  model.conv_kernel = 4;
  model.rms_norm_eps = 1e-5F;
  model.kda_layers = {0};
  if ((pick & 1U) != 0) model.full_rank_gate = true;
  if ((pick & 2U) != 0) model.gate_lower_bound = -5.0F;
  return model;
}

// Reads every element, so that a span past its memory is found.
template <typename T>
std::uint64_t sum(std::span<const T> values) {
  std::uint64_t total = 0;
  for (const std::byte byte : std::as_bytes(values)) total += std::to_integer<std::uint64_t>(byte);
  return total;
}

std::uint64_t read_all(const kdart::KdaWeights& w) {
  std::uint64_t total = sum(w.a_log) + sum(w.dt_bias);
  for (const auto tensor : {w.q_proj, w.k_proj, w.v_proj, w.q_conv, w.k_conv, w.v_conv, w.f_a_proj, w.f_b_proj,
                            w.g_a_proj, w.g_b_proj, w.g_b_bias, w.g_proj, w.b_proj, w.o_proj, w.o_norm}) {
    total += sum(tensor);
  }
  return total;
}

volatile std::uint64_t sink = 0;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  try {
    const std::array files{kdart::SafetensorsFile::from_memory(bytes, "fuzz.safetensors")};
    for (const auto& [name, tensor] : files[0].tensors()) sink = sink + sum(tensor.data);
    const kdart::KdaWeights weights = kdart::detail::layer_weights(model_of(data[0]), files, 0);
    weights.validate();
    sink = sink + read_all(weights);
  } catch (const kdart::Error& error) {
    // unsupported: a rank that is no multiple of 8.
    if (error.code() != kdart::ErrorCode::bad_checkpoint && error.code() != kdart::ErrorCode::unsupported) std::abort();
  }
  return 0;
}
