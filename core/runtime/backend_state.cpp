#include "core/runtime/backend_state.h"

#include <pthread.h>

namespace kdart::detail {
namespace {

std::atomic<std::uint32_t> forks{0};

}  // namespace

std::uint32_t fork_count() noexcept {
  // The first backend to be opened installs the handler; before that a fork concerns nobody.
  [[maybe_unused]] static const int installed =
      ::pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
  return forks.load(std::memory_order_relaxed);
}

std::uint32_t next_backend_tag(std::uint32_t max) noexcept {
  static std::atomic<std::uint32_t> opened{0};
  return opened.fetch_add(1, std::memory_order_relaxed) % max + 1;
}

void BackendState::set_sticky(const Error& error) noexcept {
  const std::lock_guard lock(sticky_mutex_);
  if (sticky_.load(std::memory_order_relaxed)) return;  // the first one says what happened
  sticky_code_.store(error.code(), std::memory_order_relaxed);
  try {
    sticky_error_.emplace(error);
  } catch (...) {  // no memory for the text: the code alone is kept
    sticky_error_.reset();
  }
  sticky_.store(true, std::memory_order_release);
}

void BackendState::throw_sticky() const {
  // No lock in a forked child: another thread of the parent may have held it.
  if (forked()) {
    fail(ErrorCode::forked_process,
         "the device was opened before fork() and cannot be used in the child: open it anew there");
  }
  const std::lock_guard lock(sticky_mutex_);
  if (sticky_error_) throw Error(*sticky_error_);
  fail(sticky_code_.load(std::memory_order_relaxed), "the device is finished: {}",
       to_string(sticky_code_.load(std::memory_order_relaxed)));
}

namespace {

template <class Slot, class H>
Slot& find_or_refuse(const HandleTable<Slot, H>& table, H handle, std::string_view call, std::string_view kind) {
  if (Slot* slot = table.find(handle)) return *slot;
  if (!handle) fail(ErrorCode::invalid_handle, "{}: the {} handle is empty", call, kind);
  fail(ErrorCode::invalid_handle, "{}: {} handle {} (generation {:#x}) is stale or belongs to another backend", call,
       kind, handle.index(), handle.generation());
}

}  // namespace

StreamSlot& BackendState::stream(Stream handle, std::string_view call) const {
  return find_or_refuse(streams, handle, call, "stream");
}
EventSlot& BackendState::event(Event handle, std::string_view call) const {
  return find_or_refuse(events, handle, call, "event");
}
GraphSlot& BackendState::graph(Graph handle, std::string_view call) const {
  return find_or_refuse(graphs, handle, call, "graph");
}
KernelSlot& BackendState::kernel(KernelHandle handle, std::string_view call) const {
  return find_or_refuse(kernels, handle, call, "kernel");
}

void BackendState::require_known(std::string_view call, std::string_view what, DevicePtr address,
                                 std::uint64_t bytes) const {
  const std::shared_lock lock(memory_mutex);
  if (ranges.covers(address.address(), bytes)) return;
  const auto near = ranges.at_or_before(address.address());
  const std::uint64_t offset = near ? address.address() - near->address : 0;
  if (near && offset < near->range.bytes) {
    fail(ErrorCode::invalid_argument,
         "{}: the {}, {} bytes at {}, runs past the end of its {} of {} bytes at 0x{:x}, of which {} bytes are left",
         call, what, bytes, address_text(address), near->range.kind == RangeKind::import ? "import" : "allocation",
         near->range.bytes, near->address, near->range.bytes - offset);
  }
  fail(ErrorCode::invalid_argument,
       "{}: the {}, {} bytes at {}, lies in no live allocation and no import of this device", call, what, bytes,
       address_text(address));
}

bool BackendState::is_pinned(const void* memory, std::uint64_t bytes) const {
  const std::shared_lock lock(memory_mutex);
  return pinned.covers(reinterpret_cast<std::uintptr_t>(memory), bytes);
}

}  // namespace kdart::detail
