// Fills and copies: ranges, overlap, then the driver.
#include <limits>
#include <optional>

#include "core/runtime/backend_submit.h"
#include "kdart/backend.h"

namespace kdart {

using detail::address_text;
using detail::BackendState;
using detail::fail;

namespace {

void require_host(std::string_view call, std::string_view what, const void* memory, std::uint64_t bytes) {
  if (memory == nullptr) fail(ErrorCode::invalid_argument, "{}: the host {} of {} bytes is null", call, what, bytes);
}

void require_disjoint(std::string_view call, DevicePtr dst, DevicePtr src, std::uint64_t bytes) {
  const std::uint64_t distance = dst > src ? dst.address() - src.address() : src.address() - dst.address();
  if (distance >= bytes) return;
  fail(ErrorCode::invalid_argument, "{}: {} bytes from {} to {} overlap: the addresses are only {} bytes apart", call,
       bytes, address_text(src), address_text(dst), distance);
}

// `height` rows of `width` bytes, `pitch` bytes apart. No dimension is 0.
struct Rows {
  DevicePtr base;
  std::uint64_t pitch, width, height;

  // Bytes from the first to past the last; nothing when that is more than 64 bits hold.
  [[nodiscard]] std::optional<std::uint64_t> span() const {
    if (height > 1 && pitch > (std::numeric_limits<std::uint64_t>::max() - width) / (height - 1)) return std::nullopt;
    return pitch * (height - 1) + width;
  }
};

// True when any byte lies in rows of both. Both lie in known memory, so no address wraps.
bool rows_overlap(const Rows& a, const Rows& b) {
  const auto end = [](const Rows& rows) { return rows.base.address() + *rows.span(); };
  if (end(a) <= b.base.address() || end(b) <= a.base.address()) return false;
  // The two interleave. Of b's rows only the last that begins at or before a row of a, and the one after, can meet it.
  for (std::uint64_t i = 0; i < a.height; ++i) {
    const std::uint64_t row = a.base.address() + i * a.pitch;
    const std::uint64_t before = row < b.base.address() ? 0 : (row - b.base.address()) / b.pitch;
    for (std::uint64_t j = before; j < b.height && j <= before + 1; ++j) {
      const std::uint64_t other = b.base.address() + j * b.pitch;
      if (row < other + b.width && other < row + a.width) return true;
    }
  }
  return false;
}

void require_rows(const BackendState& state, std::string_view call, std::string_view what, const Rows& rows) {
  if (rows.pitch < rows.width) {
    fail(ErrorCode::invalid_argument, "{}: the {} pitch of {} bytes is less than the width of {} bytes", call, what,
         rows.pitch, rows.width);
  }
  const auto span = rows.span();
  if (!span) {
    fail(ErrorCode::invalid_argument, "{}: the {} of {} rows, {} bytes apart, passes the end of the address space",
         call, what, rows.height, rows.pitch);
  }
  state.require_known(call, what, rows.base, *span);
}

}  // namespace

void GpuBackend::fill(DevicePtr dst, std::uint32_t value, std::uint32_t width, std::uint64_t count, Stream stream) {
  submit(stream, "fill", [&](Native native) {
    if (width != 1 && width != 2 && width != 4) {
      fail(ErrorCode::invalid_argument, "fill: an element has 1, 2 or 4 bytes, not {}", width);
    }
    if (count == 0) return false;
    if (count > std::numeric_limits<std::uint64_t>::max() / width) {
      fail(ErrorCode::invalid_argument, "fill: {} elements of {} bytes are more than an address space holds", count,
           width);
    }
    if (dst.address() % width != 0) {
      fail(ErrorCode::invalid_argument, "fill: the destination {} is not a multiple of the element's {} bytes",
           address_text(dst), width);
    }
    state_->require_known("fill", "destination", dst, count * width);
    do_fill(dst, value, width, count, native);
    return true;
  });
}

void GpuBackend::copy_h2d(DevicePtr dst, const void* src, std::uint64_t bytes) {
  state_->run([&] {
    if (bytes == 0) return;
    require_host("copy_h2d", "source", src, bytes);
    state_->require_known("copy_h2d", "destination", dst, bytes);
    do_copy_h2d(dst, src, bytes);
    state_->check_usable();
  });
}

void GpuBackend::copy_d2h(void* dst, DevicePtr src, std::uint64_t bytes) {
  state_->run([&] {
    if (bytes == 0) return;
    require_host("copy_d2h", "destination", dst, bytes);
    state_->require_known("copy_d2h", "source", src, bytes);
    do_copy_d2h(dst, src, bytes);
    state_->check_usable();
  });
}

void GpuBackend::copy_d2d(DevicePtr dst, DevicePtr src, std::uint64_t bytes) {
  state_->run([&] {
    if (bytes == 0) return;
    state_->require_known("copy_d2d", "destination", dst, bytes);
    state_->require_known("copy_d2d", "source", src, bytes);
    require_disjoint("copy_d2d", dst, src, bytes);
    do_copy_d2d(dst, src, bytes);
    state_->check_usable();
  });
}

void GpuBackend::copy_h2d_async(DevicePtr dst, const void* src, std::uint64_t bytes, Stream stream) {
  state_->run([&] {
    const detail::StreamSlot& slot = state_->stream(stream, "copy_h2d_async");
    refuse_in_capture(stream, "copy_h2d_async");
    if (bytes == 0) return;
    require_host("copy_h2d_async", "source", src, bytes);
    state_->require_known("copy_h2d_async", "destination", dst, bytes);
    do_copy_h2d_async(dst, src, bytes, state_->is_pinned(src, bytes), slot.native);
  });
}

void GpuBackend::copy_d2h_async(void* dst, DevicePtr src, std::uint64_t bytes, Stream stream) {
  state_->run([&] {
    const detail::StreamSlot& slot = state_->stream(stream, "copy_d2h_async");
    refuse_in_capture(stream, "copy_d2h_async");
    if (bytes == 0) return;
    require_host("copy_d2h_async", "destination", dst, bytes);
    state_->require_known("copy_d2h_async", "source", src, bytes);
    do_copy_d2h_async(dst, src, bytes, state_->is_pinned(dst, bytes), slot.native);
  });
}

void GpuBackend::copy_d2d_async(DevicePtr dst, DevicePtr src, std::uint64_t bytes, Stream stream) {
  submit(stream, "copy_d2d_async", [&](Native native) {
    if (bytes == 0) return false;
    state_->require_known("copy_d2d_async", "destination", dst, bytes);
    state_->require_known("copy_d2d_async", "source", src, bytes);
    require_disjoint("copy_d2d_async", dst, src, bytes);
    do_copy_d2d_async(dst, src, bytes, native);
    return true;
  });
}

void GpuBackend::copy_2d_d2d_async(DevicePtr dst, std::uint64_t dst_pitch, DevicePtr src, std::uint64_t src_pitch,
                                   std::uint64_t width, std::uint64_t height, Stream stream) {
  constexpr std::string_view call = "copy_2d_d2d_async";
  submit(stream, call, [&](Native native) {
    if (width == 0 || height == 0) return false;
    const Rows to{dst, dst_pitch, width, height};
    const Rows from{src, src_pitch, width, height};
    require_rows(*state_, call, "destination", to);
    require_rows(*state_, call, "source", from);
    if (rows_overlap(to, from)) {
      fail(ErrorCode::invalid_argument, "{}: {} rows of {} bytes from {} (pitch {}) to {} (pitch {}) overlap", call,
           height, width, address_text(src), src_pitch, address_text(dst), dst_pitch);
    }
    do_copy_2d_d2d_async(dst, dst_pitch, src, src_pitch, width, height, native);
    return true;
  });
}

}  // namespace kdart
