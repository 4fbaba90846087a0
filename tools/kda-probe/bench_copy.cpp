#include "bench_copy.h"

#include <algorithm>

#include "core/runtime/fail.h"
#include "kdart/owned.h"
#include "tools/reference/random_model.h"

namespace kdart::probe {
namespace {

constexpr std::uint64_t largest = std::uint64_t{512} << 20;
constexpr std::uint64_t largest_on_cpu = std::uint64_t{256} << 20;
constexpr std::uint64_t least = std::uint64_t{1} << 20;
constexpr std::uint64_t pattern_bytes = std::uint64_t{1} << 20;

// Random data: constant bytes may move faster.
void fill_randomly(GpuBackend& backend, const Buffer& buffer, std::uint64_t seed) {
  KdaConfig row;
  row.hidden_size = pattern_bytes / sizeof(bf16);
  const std::vector<bf16> pattern = reference::random_hidden(row, 1, seed);
  for (std::uint64_t at = 0; at < buffer.bytes(); at += pattern_bytes) {
    backend.copy_h2d(buffer.get().offset(at), pattern.data(), std::min(pattern_bytes, buffer.bytes() - at));
  }
}

}  // namespace

std::uint64_t copy_buffer_bytes(DeviceType type, std::uint64_t free, std::uint64_t allocation_limit) {
  std::uint64_t bytes = type == DeviceType::cpu ? largest_on_cpu : largest;
  // Two buffers, in half of what is free; a limit of 0 is none.
  const std::uint64_t most = std::min(free / 4, allocation_limit == 0 ? bytes : allocation_limit);
  while (bytes > most && bytes > least) bytes /= 2;
  return bytes;
}

CopyBandwidth measure_copy(const std::shared_ptr<GpuBackend>& backend, Stream stream, std::uint64_t seed) {
  const DeviceInfo& device = backend->info();
  CopyBandwidth result;
  result.buffer_bytes = copy_buffer_bytes(device.type, backend->memory_info().free, device.limits.allocation);
  const Buffer source(backend, result.buffer_bytes);
  const Buffer target(backend, result.buffer_bytes);
  fill_randomly(*backend, source, seed);
  const auto copy = [&] { backend->copy_d2d_async(target.get(), source.get(), result.buffer_bytes, stream); };
  result.timing = EventTimer(backend, stream).measure(copy, {.repeats = {}, .most = 20, .budget_s = 1.0});
  if (!(result.median_us() > 0.0)) {
    detail::fail(ErrorCode::unsupported, "{}: its events put 0 us between them around a copy of {} bytes: no clock",
                 device.id, result.buffer_bytes);
  }
  return result;
}

}  // namespace kdart::probe
