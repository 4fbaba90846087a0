// The yardstick of a benchmark: how fast the device copies within its own memory.
#pragma once

#include <cstdint>
#include <memory>

#include "bench_results.h"
#include "kdart/backend.h"

namespace kdart::probe {

// The size of each of the two buffers: past any cache where memory allows.
[[nodiscard]] std::uint64_t copy_buffer_bytes(DeviceType type, std::uint64_t free, std::uint64_t allocation_limit);

// Throws what alloc and copies throw; unsupported when the events' clock does not advance.
[[nodiscard]] CopyBandwidth measure_copy(const std::shared_ptr<GpuBackend>& backend, Stream stream, std::uint64_t seed);

}  // namespace kdart::probe
