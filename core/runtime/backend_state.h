// What GpuBackend keeps beside the vendor's objects: handle tables, live memory, the sticky error, captures.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/runtime/fail.h"
#include "core/runtime/handle_table.h"
#include "core/runtime/range_map.h"
#include "kdart/backend.h"

namespace kdart::detail {

// How often this process is a fork of the one that loaded the library: fork() in the parent changes it in the child.
[[nodiscard]] std::uint32_t fork_count() noexcept;
// A number for each backend opened, 1 .. max, then from 1 again: the tag of its handles.
[[nodiscard]] std::uint32_t next_backend_tag(std::uint32_t max) noexcept;

// Which operations of a capture's streams something comes after: stream index -> position. The position of a stream
// counts what it was given since it joined, so the streams of a capture form a vector clock.
using CaptureClock = std::map<std::uint32_t, std::uint64_t>;

// One capture, running until it ends. Its streams count as one for the rule that calls must not overlap: no lock here.
struct Capture : std::enable_shared_from_this<Capture> {
  Stream origin;
  std::vector<Stream> members;  // origin first
  bool running = true;
};

struct StreamSlot {
  std::uint64_t native = 0;
  std::shared_ptr<Capture> capture;  // null when not captured
  std::uint64_t position = 0;        // in the capture
  CaptureClock clock;                // what of the other members came before
  std::string invalidated;           // why the last capture that began here ended early; end_capture reports it once
};

struct EventSlot {
  enum class Recorded : std::uint8_t { never, stream, capture };
  std::uint64_t native = 0;
  Recorded recorded = Recorded::never;
  std::shared_ptr<Capture> capture;  // Recorded::capture: it may be over
  CaptureClock clock;
};

struct GraphSlot {
  std::uint64_t native = 0;
};

struct KernelSlot {
  std::uint64_t native = 0;
  KernelInfo info;
};

struct BackendState {
  explicit BackendState(std::uint32_t tag) : streams(tag), events(tag), graphs(tag), kernels(tag) {}

  HandleTable<StreamSlot, Stream> streams;
  HandleTable<EventSlot, Event> events;
  HandleTable<GraphSlot, Graph> graphs;
  HandleTable<KernelSlot, KernelHandle> kernels;

  // --- memory: copies and fills look, alloc and free change
  mutable std::shared_mutex memory_mutex;
  RangeMap ranges;
  RangeMap pinned;
  std::uint64_t live_bytes = 0;  // in allocations, those on their way included; imports are not counted

  // --- errors
  const std::uint32_t fork_count_at_open = fork_count();
  [[nodiscard]] bool forked() const noexcept { return fork_count() != fork_count_at_open; }
  void set_sticky(const Error& error) noexcept;
  [[nodiscard]] bool is_finished() const noexcept { return forked() || sticky_.load(std::memory_order_acquire); }
  // Throws the sticky error if there is one. Two atomic reads when there is none.
  void check_usable() const {
    if (is_finished()) throw_sticky();
  }

  // Runs the body of a public function: not on a finished device, keeping a sticky error that comes out of it, letting
  // nothing but Error out.
  template <class Body>
  decltype(auto) run(Body&& body) {
    check_usable();
    try {
      return body();
    } catch (const Error& error) {
      if (is_sticky(error.code())) set_sticky(error);
      throw;
    } catch (const std::bad_alloc&) {
      fail(ErrorCode::out_of_host_memory, "the host is out of memory");
    } catch (const std::exception& error) {
      fail(ErrorCode::driver_error, "the backend failed: {}", error.what());
    }
  }

  // --- handles: the slot, or invalid_handle saying which call got what
  [[nodiscard]] StreamSlot& stream(Stream handle, std::string_view call) const;
  [[nodiscard]] EventSlot& event(Event handle, std::string_view call) const;
  [[nodiscard]] GraphSlot& graph(Graph handle, std::string_view call) const;
  [[nodiscard]] KernelSlot& kernel(KernelHandle handle, std::string_view call) const;

  // --- memory: invalid_argument naming the call, the address and the bytes, unless all of it is known. `bytes` > 0.
  void require_known(std::string_view call, std::string_view what, DevicePtr address, std::uint64_t bytes) const;
  [[nodiscard]] bool is_pinned(const void* memory, std::uint64_t bytes) const;

 private:
  [[noreturn]] void throw_sticky() const;

  std::atomic<bool> sticky_{false};
  std::atomic<ErrorCode> sticky_code_{ErrorCode::device_fault};
  mutable std::mutex sticky_mutex_;
  std::optional<Error> sticky_error_;  // absent only when the host had no memory to keep it
};

// A device address in messages.
[[nodiscard]] inline std::string address_text(DevicePtr memory) {
  return detail::format("0x{:x}", memory.address());
}

}  // namespace kdart::detail
