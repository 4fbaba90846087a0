// DriverBackend: memory and copies.
#pragma once

#include <optional>

#include "backends/common/device.h"

namespace kdart::common {

template <class Api>
DevicePtr DriverBackend<Api>::allocate(std::uint64_t bytes, typename Api::Stream stream) {
  typename Api::Address memory{};
  Result result = parts_->memory.allocate(memory, bytes, stream);
  if (result == Api::out_of_memory) {
    wait_for_all();
    check(driver().stream_synchronize(parts_->allocations.get()), "waiting for what is being freed");
    parts_->memory.trim();
    result = parts_->memory.allocate(memory, bytes, stream);
  }
  if (result == Api::out_of_memory) {
    const MemoryInfo left = parts_->memory.info();
    throw Error(ErrorCode::out_of_device_memory,
                detail::format("alloc: {} bytes on {}: the driver has no memory for them, {} of {} bytes are free",
                               bytes, info().id, left.free, left.total),
                result, Api::result_name(result));
  }
  check(result, "allocating device memory");
  return Api::device_ptr(memory);
}

// Any stream may use it next, so it has to be there.
template <class Api>
DevicePtr DriverBackend<Api>::do_alloc(std::uint64_t bytes) {
  const Current current(*context_);
  const typename Api::Stream stream = parts_->allocations.get();
  const DevicePtr memory = allocate(bytes, stream);
  if (!parts_->snapshot.pools) return memory;
  const Result result = driver().stream_synchronize(stream);
  if (result != Api::success) static_cast<void>(parts_->memory.release(Api::address(memory), stream));
  check(result, "allocating device memory");
  return memory;
}

template <class Api>
void DriverBackend<Api>::do_free(DevicePtr memory) {
  const Current current(*context_);
  wait_for_all();
  check(parts_->memory.release(Api::address(memory), parts_->allocations.get()), "freeing device memory");
}

template <class Api>
DevicePtr DriverBackend<Api>::do_alloc_async(std::uint64_t bytes, Native stream) {
  const Current current(*context_);
  return allocate(bytes, stream_of(stream).get());
}

template <class Api>
void DriverBackend<Api>::do_free_async(DevicePtr memory, Native stream) {
  const Current current(*context_);
  check(parts_->memory.release(Api::address(memory), stream_of(stream).get()), "freeing device memory");
}

template <class Api>
void DriverBackend<Api>::do_fill(DevicePtr dst, std::uint32_t value, std::uint32_t width, std::uint64_t count,
                                 Native stream) {
  const Current current(*context_);
  const typename Api::Stream queue = stream_of(stream).get();
  const auto to = Api::address(dst);
  const Result result = width == 1 ? driver().memset_d8_async(to, static_cast<unsigned char>(value), count, queue)
                        : width == 2
                            ? driver().memset_d16_async(to, static_cast<unsigned short>(value), count, queue)
                            : driver().memset_d32_async(to, static_cast<typename Api::Word>(value), count, queue);
  check(result, "filling device memory");
}

template <class Api>
template <class Copy>
void DriverBackend<Api>::copy_and_wait(std::string_view doing, const Copy& copy) {
  const Current current(*context_);
  const typename Api::Stream stream = parts_->copies.get();
  check(copy(stream), doing);
  check(driver().stream_synchronize(stream), doing);
}

template <class Api>
void DriverBackend<Api>::do_copy_h2d(DevicePtr dst, const void* src, std::uint64_t bytes) {
  copy_and_wait("copying to the device", [&](typename Api::Stream stream) {
    return driver().memcpy_htod_async(Api::address(dst), src, bytes, stream);
  });
}

template <class Api>
void DriverBackend<Api>::do_copy_d2h(void* dst, DevicePtr src, std::uint64_t bytes) {
  copy_and_wait("copying from the device", [&](typename Api::Stream stream) {
    return driver().memcpy_dtoh_async(dst, Api::address(src), bytes, stream);
  });
}

template <class Api>
void DriverBackend<Api>::do_copy_d2d(DevicePtr dst, DevicePtr src, std::uint64_t bytes) {
  copy_and_wait("copying on the device", [&](typename Api::Stream stream) {
    return driver().memcpy_dtod_async(Api::address(dst), Api::address(src), bytes, stream);
  });
}

template <class Api>
void DriverBackend<Api>::do_copy_h2d_async(DevicePtr dst, const void* src, std::uint64_t bytes, bool pinned,
                                           Native stream) {
  const Current current(*context_);
  DriverStream<Api>& queue = stream_of(stream);
  check(driver().memcpy_htod_async(Api::address(dst), src, bytes, queue.get()), "copying to the device");
  if (!pinned && Api::reads_late(driver(), parts_->snapshot, src, bytes))
    static_cast<void>(wait_for(queue, std::nullopt));
}

template <class Api>
void DriverBackend<Api>::do_copy_d2h_async(void* dst, DevicePtr src, std::uint64_t bytes, bool, Native stream) {
  const Current current(*context_);
  check(driver().memcpy_dtoh_async(dst, Api::address(src), bytes, stream_of(stream).get()), "copying from the device");
}

template <class Api>
void DriverBackend<Api>::do_copy_d2d_async(DevicePtr dst, DevicePtr src, std::uint64_t bytes, Native stream) {
  const Current current(*context_);
  check(driver().memcpy_dtod_async(Api::address(dst), Api::address(src), bytes, stream_of(stream).get()),
        "copying on the device");
}

template <class Api>
void DriverBackend<Api>::do_copy_2d_d2d_async(DevicePtr dst, std::uint64_t dst_pitch, DevicePtr src,
                                              std::uint64_t src_pitch, std::uint64_t width, std::uint64_t height,
                                              Native stream) {
  const Current current(*context_);
  const typename Api::Stream queue = stream_of(stream).get();
  if (dst_pitch > parts_->snapshot.max_pitch || src_pitch > parts_->snapshot.max_pitch) {
    for (std::uint64_t row = 0; row < height; ++row) {
      check(driver().memcpy_dtod_async(Api::address(dst.offset(row * dst_pitch)),
                                       Api::address(src.offset(row * src_pitch)), width, queue),
            "copying rows on the device");
    }
    return;
  }
  check(Api::copy_2d(driver(), Api::address(dst), dst_pitch, Api::address(src), src_pitch, width, height, queue),
        "copying rows on the device");
}

template <class Api>
void* DriverBackend<Api>::do_alloc_pinned(std::uint64_t bytes) {
  const Current current(*context_);
  void* memory = nullptr;
  const Result result = driver().mem_host_alloc(&memory, bytes, Api::host_portable);
  if (result == Api::out_of_memory) {
    throw Error(ErrorCode::out_of_host_memory,
                detail::format("alloc_pinned: the driver cannot page-lock {} bytes of host memory", bytes), result,
                Api::result_name(result));
  }
  check(result, "allocating page-locked memory");
  return memory;
}

template <class Api>
void DriverBackend<Api>::do_free_pinned(void* memory) {
  const Current current(*context_);
  wait_for_all();
  check(driver().mem_free_host(memory), "freeing page-locked memory");
}

template <class Api>
MemoryInfo DriverBackend<Api>::do_memory_info() {
  const Current current(*context_);
  return naming_culprits("asking for free memory", [&] { return parts_->memory.info(); });
}

// Kernels and copies take any address of the context.
template <class Api>
DevicePtr DriverBackend<Api>::do_import_memory(std::uint64_t native, std::uint64_t) {
  return DevicePtr(native);
}

// The caller may free its memory next, so nothing given to a stream may still use it.
template <class Api>
void DriverBackend<Api>::do_release_import(DevicePtr) {
  const Current current(*context_);
  wait_for_all();
}

}  // namespace kdart::common
