// Checks of caller-provided device memory that state, workspace and layer share.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "kdart/backend.h"
#include "kdart/types.h"

namespace kdart::detail {

struct MemoryRange {
  std::string_view name;
  DevicePtr memory;
  std::uint64_t bytes;
};

// Throws invalid_argument for a null backend.
void check_backend(std::string_view call, const std::shared_ptr<GpuBackend>& backend);
// Throws invalid_argument unless `memory` is not null and a multiple of `alignment`.
void check_address(std::string_view call, std::string_view name, DevicePtr memory, std::uint64_t alignment);
// The same, and unless [memory, memory + bytes) lies in one live allocation or import of the backend.
void check_memory(const GpuBackend& backend, std::string_view call, std::string_view name, DevicePtr memory,
                  std::uint64_t bytes, std::uint64_t alignment);
// Throws invalid_argument naming the first two ranges that overlap.
void check_disjoint(std::string_view call, std::vector<MemoryRange> ranges);

}  // namespace kdart::detail
