// KernelLaunch, and GpuBackend::launch: the path of every launch.
#include "kdart/launch.h"

#include "core/runtime/backend_submit.h"
#include "core/runtime/kernel_checks.h"
#include "kdart/backend.h"

namespace kdart {

KernelLaunch& KernelLaunch::push_bytes(ArgKind kind, const void* data, std::size_t size,
                                       std::size_t alignment) noexcept {
  const bool power_of_two = alignment != 0 && (alignment & (alignment - 1)) == 0;
  // Bounds first: with all three small, the sums below cannot wrap.
  if (!power_of_two || alignment > max_argument_bytes || size > max_argument_bytes ||
      record_.argument_count == max_kernel_arguments) {
    record_.overflow = true;
    return *this;
  }
  const std::size_t offset = (record_.argument_bytes + alignment - 1) / alignment * alignment;
  if (offset + size > max_argument_bytes) {
    record_.overflow = true;
    return *this;
  }
  if (size != 0) std::memcpy(record_.arguments.data() + offset, data, size);
  record_.slots[record_.argument_count] = {kind, static_cast<std::uint16_t>(offset), static_cast<std::uint16_t>(size)};
  ++record_.argument_count;
  record_.argument_bytes = static_cast<std::uint16_t>(offset + size);
  return *this;
}

void KernelLaunch::launch(Stream stream) const {
  backend_->launch(record_, stream);
}

void GpuBackend::launch(const LaunchRecord& record, Stream stream) {
  submit(stream, "launch", [&](Native native) {
    const detail::KernelSlot& kernel = state_->kernel(record.kernel, "launch");
    detail::check_arguments(*kernel.info.contract, record);
    detail::check_block(kernel.info, info_, record.block, record.shared_bytes);
    detail::check_grid(kernel.info, info_, record.grid, record.attributes);
    if (record.grid.x == 0 || record.grid.y == 0 || record.grid.z == 0) return false;
    do_launch(kernel.native, record, native);
    if (options_.synchronous_launches && state_->stream(stream, "launch").capture == nullptr &&
        !do_is_captured_elsewhere(native))
      static_cast<void>(do_synchronize(native, std::nullopt));
    return true;
  });
}

}  // namespace kdart
