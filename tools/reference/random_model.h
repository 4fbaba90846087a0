// Seeded random weights, inputs and states whose statistics resemble the golden checkpoints', for any geometry.
#pragma once

#include <cstdint>
#include <vector>

#include "kdart/bf16.h"
#include "kdart/weights.h"

namespace kdart::reference {

// Weights of the given geometry; the result owns its memory (keep_alive). The same seed gives the same bits everywhere
// (own generator and own normal deviates: the standard library's distributions differ between implementations).
[[nodiscard]] KdaWeights random_weights(const KdaConfig& config, std::uint64_t seed);
[[nodiscard]] std::vector<bf16> random_hidden(const KdaConfig& config, std::uint64_t tokens, std::uint64_t seed);
// f32 [H, D, D] and f32 [3 * qkv, 4] (slot 0 zero).
[[nodiscard]] std::vector<float> random_recurrent(const KdaConfig& config, std::uint64_t seed);
[[nodiscard]] std::vector<float> random_conv(const KdaConfig& config, std::uint64_t seed);

}  // namespace kdart::reference
