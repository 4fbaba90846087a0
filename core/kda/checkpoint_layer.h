// Checkpoint::kda_layer over any set of files; apart so that it can be fuzzed without a folder.
#pragma once

#include <cstdint>
#include <span>

#include "kdart/checkpoint.h"

namespace kdart::detail {

// See Checkpoint::kda_layer. For files made by SafetensorsFile::from_memory the caller keeps the bytes alive.
[[nodiscard]] KdaWeights layer_weights(const ModelConfig& model, std::span<const SafetensorsFile> files,
                                       std::uint32_t layer);

}  // namespace kdart::detail
