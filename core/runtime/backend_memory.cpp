// Allocation: the accounting behind memory_limit, and which addresses are known.
#include <algorithm>
#include <utility>

#include "core/runtime/backend_state.h"
#include "kdart/backend.h"

namespace kdart {

using detail::address_text;
using detail::BackendState;
using detail::fail;
using detail::Range;
using detail::RangeKind;

namespace {

// Bytes that count as live from the check of the limit on, so that two threads cannot pass it together.
class Reservation {
 public:
  Reservation(BackendState& state, std::uint64_t bytes, const DeviceInfo& info, std::uint64_t memory_limit)
      : state_(&state), bytes_(bytes) {
    if (info.limits.allocation != 0 && bytes > info.limits.allocation) {
      fail(ErrorCode::out_of_device_memory, "alloc: {} bytes are more than one allocation on {} can have, {} bytes",
           bytes, info.id, info.limits.allocation);
    }
    const std::lock_guard lock(state.memory_mutex);
    if (memory_limit != 0 && (state.live_bytes > memory_limit || bytes > memory_limit - state.live_bytes)) {
      fail(ErrorCode::out_of_device_memory,
           "alloc: {} bytes on {} would pass the memory_limit of {} bytes: {} are live", bytes, info.id, memory_limit,
           state.live_bytes);
    }
    if (!detail::range_fits(state.live_bytes, bytes)) {
      fail(ErrorCode::out_of_device_memory, "alloc: {} bytes on {}, where {} are live, are more than can be counted",
           bytes, info.id, state.live_bytes);
    }
    state.live_bytes += bytes;
  }
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  ~Reservation() {
    if (bytes_ == 0) return;
    const std::lock_guard lock(state_->memory_mutex);
    state_->live_bytes -= bytes_;
  }

  // The bytes now belong to the allocation at `memory`. False when a known range is in its way.
  [[nodiscard]] bool commit(DevicePtr memory) {
    const std::lock_guard lock(state_->memory_mutex);
    if (!state_->ranges.insert(memory.address(), {bytes_, RangeKind::allocation})) return false;
    bytes_ = 0;
    return true;
  }

 private:
  BackendState* state_;
  std::uint64_t bytes_;
};

// What both kinds of allocation do around the driver's: `take` gets the memory, `give_back` returns it on failure.
template <class Take, class GiveBack>
DevicePtr allocate(BackendState& state, const DeviceInfo& info, std::uint64_t memory_limit, std::uint64_t bytes,
                   const Take& take, const GiveBack& give_back) {
  if (bytes == 0) return {};
  Reservation reservation(state, bytes, info, memory_limit);
  DevicePtr memory;
  try {
    memory = take();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::out_of_device_memory) throw;
    const std::shared_lock lock(state.memory_mutex);
    throw Error(error.code(),
                detail::format("alloc: {} bytes on {}, where {} are live: {}", bytes, info.id, state.live_bytes - bytes,
                               error.what()),
                error.native_code(), error.native_text());
  }
  if (!memory) fail(ErrorCode::driver_error, "alloc: the driver of {} gave address 0 for {} bytes", info.id, bytes);
  bool known = false;
  try {
    known = reservation.commit(memory);
  } catch (...) {
    give_back(memory);
    throw;
  }
  if (known) return memory;
  give_back(memory);
  fail(ErrorCode::driver_error,
       "alloc: the driver of {} gave {} bytes at {}, inside a range that is still known: was imported memory freed "
       "before "
       "release_import?",
       info.id, bytes, address_text(memory));
}

// Takes an allocation off the books. Throws invalid_handle saying what the address is instead.
Range forget_allocation(BackendState& state, std::string_view call, DevicePtr memory) {
  const std::lock_guard lock(state.memory_mutex);
  if (const auto range = state.ranges.remove(memory.address(), RangeKind::allocation)) return *range;
  const auto near = state.ranges.at_or_before(memory.address());
  if (!near || memory.address() - near->address >= near->range.bytes) {
    fail(ErrorCode::invalid_handle, "{}: {} is no live allocation of this device: it was freed before, or is foreign",
         call, address_text(memory));
  }
  if (near->range.kind == RangeKind::import) {
    fail(ErrorCode::invalid_handle, "{}: {} is imported memory, which release_import forgets", call,
         address_text(memory));
  }
  fail(ErrorCode::invalid_handle, "{}: {} lies {} bytes inside the allocation that begins at 0x{:x}", call,
       address_text(memory), memory.address() - near->address, near->address);
}

// Frees with `give_back`; an allocation that the driver could not free is still there afterwards.
template <class GiveBack>
void deallocate(BackendState& state, std::string_view call, DevicePtr memory, const GiveBack& give_back) {
  const Range range = forget_allocation(state, call, memory);
  try {
    give_back();
  } catch (...) {
    const std::lock_guard lock(state.memory_mutex);
    state.ranges.insert(memory.address(), range);
    throw;
  }
  const std::lock_guard lock(state.memory_mutex);
  state.live_bytes -= range.bytes;
}

}  // namespace

void GpuBackend::require_known(std::string_view call, std::string_view what, DevicePtr memory,
                               std::uint64_t bytes) const {
  state_->require_known(call, what, memory, bytes);
}

DevicePtr GpuBackend::alloc(std::uint64_t bytes) {
  return state_->run([&] {
    return allocate(
        *state_, info_, options_.memory_limit, bytes, [&] { return do_alloc(bytes); },
        [&](DevicePtr memory) { do_free(memory); });
  });
}

void GpuBackend::free(DevicePtr memory) {
  state_->run([&] {
    if (memory) deallocate(*state_, "free", memory, [&] { do_free(memory); });
  });
}

DevicePtr GpuBackend::alloc_async(std::uint64_t bytes, Stream stream) {
  return state_->run([&] {
    detail::StreamSlot& slot = state_->stream(stream, "alloc_async");
    refuse_in_capture(stream, "alloc_async");
    return allocate(
        *state_, info_, options_.memory_limit, bytes, [&] { return do_alloc_async(bytes, slot.native); },
        [&](DevicePtr memory) { do_free_async(memory, slot.native); });
  });
}

void GpuBackend::free_async(DevicePtr memory, Stream stream) {
  state_->run([&] {
    detail::StreamSlot& slot = state_->stream(stream, "free_async");
    refuse_in_capture(stream, "free_async");
    if (memory) deallocate(*state_, "free_async", memory, [&] { do_free_async(memory, slot.native); });
  });
}

void* GpuBackend::alloc_pinned(std::uint64_t bytes) {
  return state_->run([&]() -> void* {
    if (bytes == 0) return nullptr;
    void* memory = do_alloc_pinned(bytes);
    if (memory == nullptr) {
      fail(ErrorCode::out_of_host_memory, "alloc_pinned: {} has no {} bytes of page-locked memory", info_.id, bytes);
    }
    bool known = false;
    try {
      const std::lock_guard lock(state_->memory_mutex);
      known = state_->pinned.insert(reinterpret_cast<std::uintptr_t>(memory), {bytes, RangeKind::allocation});
    } catch (...) {
      do_free_pinned(memory);
      throw;
    }
    if (known) return memory;
    do_free_pinned(memory);
    fail(ErrorCode::driver_error, "alloc_pinned: the driver of {} gave memory that is already in use", info_.id);
  });
}

void GpuBackend::free_pinned(void* memory) {
  state_->run([&] {
    if (memory == nullptr) return;
    const std::uint64_t address = reinterpret_cast<std::uintptr_t>(memory);
    std::optional<Range> range;
    {
      const std::lock_guard lock(state_->memory_mutex);
      range = state_->pinned.remove(address, RangeKind::allocation);
    }
    if (!range) {
      fail(ErrorCode::invalid_handle, "free_pinned: 0x{:x} did not come from alloc_pinned, or was freed before",
           address);
    }
    try {
      do_free_pinned(memory);
    } catch (...) {
      const std::lock_guard lock(state_->memory_mutex);
      state_->pinned.insert(address, *range);
      throw;
    }
  });
}

DevicePtr GpuBackend::import_memory(std::uint64_t native, std::uint64_t bytes) {
  return state_->run([&] {
    if (native == 0 || bytes == 0) {
      fail(ErrorCode::invalid_argument, "import_memory: {} bytes at 0x{:x} are no memory", bytes, native);
    }
    if (!detail::range_fits(native, bytes)) {
      fail(ErrorCode::invalid_argument, "import_memory: {} bytes at 0x{:x} pass the end of the address space", bytes,
           native);
    }
    const DevicePtr memory = do_import_memory(native, bytes);
    std::optional<detail::RangeMap::Entry> other;
    {
      const std::lock_guard lock(state_->memory_mutex);
      if (state_->ranges.insert(memory.address(), {bytes, RangeKind::import})) return memory;
      other = state_->ranges.overlapping(memory.address(), bytes);
    }
    do_release_import(memory);
    fail(ErrorCode::invalid_argument, "import_memory: {} bytes at {} overlap the {} of {} bytes at 0x{:x}", bytes,
         address_text(memory), other && other->range.kind == RangeKind::import ? "import" : "allocation",
         other ? other->range.bytes : 0, other ? other->address : 0);
  });
}

void GpuBackend::release_import(DevicePtr memory) {
  state_->run([&] {
    if (!memory) return;
    std::optional<Range> range;
    {
      const std::lock_guard lock(state_->memory_mutex);
      range = state_->ranges.remove(memory.address(), RangeKind::import);
    }
    if (!range) {
      fail(ErrorCode::invalid_handle, "release_import: {} did not come from import_memory, or was released before",
           address_text(memory));
    }
    try {
      do_release_import(memory);
    } catch (...) {
      const std::lock_guard lock(state_->memory_mutex);
      state_->ranges.insert(memory.address(), *range);
      throw;
    }
  });
}

bool GpuBackend::contains(DevicePtr memory, std::uint64_t bytes) const noexcept {
  if (bytes == 0) return true;
  if (state_->forked()) return false;  // another thread of the parent may have held the lock
  const std::shared_lock lock(state_->memory_mutex);
  return state_->ranges.covers(memory.address(), bytes);
}

MemoryInfo GpuBackend::memory_info() {
  return state_->run([&] {
    MemoryInfo memory = do_memory_info();
    const std::shared_lock lock(state_->memory_mutex);
    memory.live = state_->live_bytes;
    if (const std::uint64_t limit = options_.memory_limit; limit != 0) {
      memory.total = std::min(memory.total, limit);
      memory.free = std::min(memory.free, limit - std::min(limit, memory.live));
    }
    return memory;
  });
}

}  // namespace kdart
