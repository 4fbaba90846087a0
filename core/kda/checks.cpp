#include "core/kda/checks.h"

#include <algorithm>

#include "core/runtime/fail.h"

namespace kdart::detail {

void check_backend(std::string_view call, const std::shared_ptr<GpuBackend>& backend) {
  if (backend == nullptr) fail(ErrorCode::invalid_argument, "{}: the backend is null", call);
}

void check_address(std::string_view call, std::string_view name, DevicePtr memory, std::uint64_t alignment) {
  if (!memory) fail(ErrorCode::invalid_argument, "{}: {} is null", call, name);
  if (memory.address() % alignment != 0) {
    fail(ErrorCode::invalid_argument, "{}: {} is at {:#x}, which is not a multiple of {} bytes", call, name,
         memory.address(), alignment);
  }
}

void check_memory(const GpuBackend& backend, std::string_view call, std::string_view name, DevicePtr memory,
                  std::uint64_t bytes, std::uint64_t alignment) {
  check_address(call, name, memory, alignment);
  if (!backend.contains(memory, bytes)) {
    fail(ErrorCode::invalid_argument,
         "{}: {} needs {} bytes at {:#x}, which lie in no single allocation of {} (alloc or import_memory)", call, name,
         bytes, memory.address(), backend.info().id);
  }
}

void check_disjoint(std::string_view call, std::vector<MemoryRange> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const MemoryRange& a, const MemoryRange& b) { return a.memory < b.memory; });
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    const MemoryRange& a = ranges[i - 1];
    const MemoryRange& b = ranges[i];
    if (b.memory.address() - a.memory.address() < a.bytes) {
      fail(ErrorCode::invalid_argument, "{}: {} ({} bytes at {:#x}) and {} ({} bytes at {:#x}) overlap", call, a.name,
           a.bytes, a.memory.address(), b.name, b.bytes, b.memory.address());
    }
  }
}

}  // namespace kdart::detail
