// The arithmetic of a benchmark: order statistics of samples, and what a layer call must move and compute at least.
#pragma once

#include <cstdint>
#include <vector>

#include "kdart/config.h"

namespace kdart::probe {

// The middle value, or the mean of the two middle ones. NaN for none.
[[nodiscard]] double median(std::vector<double> samples);
// The smallest sample that at least `part` (in (0, 1]) of all samples do not exceed. NaN for none.
[[nodiscard]] double percentile(std::vector<double> samples, double part);
[[nodiscard]] double smallest(const std::vector<double>& samples);  // NaN for none

// The fewest bytes that one layer call moves through device memory: each weight read once, both states read and written
// once, the input rows read and the output rows written. Nothing in between is counted.
struct Traffic {
  std::uint64_t weights = 0;
  std::uint64_t state = 0;
  std::uint64_t activations = 0;
  [[nodiscard]] std::uint64_t total() const noexcept { return weights + state + activations; }
};
[[nodiscard]] Traffic traffic_of(const KdaConfig& config, std::uint32_t tokens) noexcept;
[[nodiscard]] std::uint64_t weight_bytes(const KdaConfig& config) noexcept;
[[nodiscard]] std::uint64_t state_bytes(const KdaConfig& config) noexcept;  // both states of one sequence
[[nodiscard]] std::uint64_t row_bytes(const KdaConfig& config, std::uint32_t tokens) noexcept;  // hidden, or out

// The same for the layer's core: the small weights that it has of its own, both states, the projected inputs and its rows out.
[[nodiscard]] Traffic core_traffic(const KdaConfig& config, std::uint32_t tokens) noexcept;
// And for the recurrent kernel with one token of each of `rows` sequences: f32 throughout.
[[nodiscard]] Traffic recurrent_traffic(const KdaConfig& config, std::uint32_t rows) noexcept;
[[nodiscard]] std::uint64_t core_input_bytes(const KdaConfig& config, std::uint32_t tokens) noexcept;  // q k v f b z
[[nodiscard]] std::uint64_t core_row_bytes(const KdaConfig& config, std::uint32_t tokens) noexcept;    // out

// Multiplications and additions of the projections, the convolution and the recurrence, token by token (7 D^2 per head).
// Gates, norms and activations are left out; a chunked prefill does more than this.
[[nodiscard]] std::uint64_t flops_of(const KdaConfig& config, std::uint32_t tokens) noexcept;
// The same without the projections, and without the convolution too.
[[nodiscard]] std::uint64_t core_flops(const KdaConfig& config, std::uint32_t tokens) noexcept;
[[nodiscard]] std::uint64_t recurrent_flops(const KdaConfig& config, std::uint32_t rows) noexcept;

// Microseconds that `bytes` take at `bytes_per_second`.
[[nodiscard]] double floor_us(std::uint64_t bytes, double bytes_per_second) noexcept;

// How many sets of `set_bytes` to rotate among so that together they are at least `target` bytes: between `least` and
// `most` of them, and fewer (though never 0) where more than `room` bytes would be needed.
[[nodiscard]] std::uint32_t rotation_sets(std::uint64_t set_bytes, std::uint64_t target, std::uint64_t room,
                                          std::uint32_t least, std::uint32_t most) noexcept;

// Sets of inputs that go with `layers` copies of the weights, each always with the same one: `sets`, less the remainder.
[[nodiscard]] std::uint32_t paired_sets(std::uint32_t sets, std::uint32_t layers) noexcept;

// How many calls to try next when `calls` calls took `elapsed_ms` and a sample should take `wanted_ms`: `calls` itself
// when that was long enough, else more, up to `most`.
[[nodiscard]] std::uint32_t next_calls(std::uint32_t calls, double elapsed_ms, double wanted_ms,
                                       std::uint32_t most) noexcept;

}  // namespace kdart::probe
