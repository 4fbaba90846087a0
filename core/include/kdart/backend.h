// GpuBackend: one open device behind one small interface. Every vendor is a plug-in behind it, and kdart's layer knows
// nothing else.
//
// Who checks what. The public methods are not virtual. They check handles, sizes, ranges and capture rules, do the
// accounting, and keep the sticky error; a vendor implements the protected do_* functions, which may assume all of it.
// So a rule holds on every backend, and a test of it has one subject.
//
// The rules:
//   * alloc(0) gives null; free(null) does nothing; a copy or fill of 0 bytes ignores its pointers and succeeds.
//   * Memory operations accept addresses inside live allocations of this backend, and inside memory that import_memory
//     made known. Anything else is invalid_argument. d2d ranges that overlap (self-copy included) are refused.
//   * A grid with a 0 passes every check and submits nothing; a 0 in a block is invalid_launch.
//   * Stream{} is invalid_handle. Work in one stream runs in order; streams are ordered by events alone. Blocking copies
//     use a stream of their own and are ordered with no other: synchronize first.
//   * An async h2d from memory that alloc_pinned did not give has read its source when it returns.
//   * A wait means the latest record at the time of the call; a wait on a never-recorded event does nothing.
//   * While a stream is captured, it and the streams that joined it take launches, async d2d copies, fills, record and
//     wait. Any other call that names them throws capture_invalidated: the capture is over, the streams stay usable.
//     The streams of one capture, and the events recorded in it, count as one stream: calls on them must not overlap.
//   * An event recorded in a capture is only an edge of its graph: until it is recorded again, the host cannot wait for it
//     or ask about it, and once the capture is over no stream can wait for it (invalid_argument).
//   * device_fault, device_lost and forked_process are sticky; after any other error the device is usable and the call
//     has changed nothing.
//
// Threads. Any number of threads may call one backend. Calls that name the same stream, event or graph must not overlap.
// Ownership. Held by shared_ptr; owners (owned.h), loaded sets and layers keep it alive. The destructor waits for work,
// releases what is left and does not throw, even after the driver has shut down.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kdart/device_info.h"
#include "kdart/error.h"
#include "kdart/export.h"
#include "kdart/kernel_set.h"
#include "kdart/launch.h"
#include "kdart/types.h"

namespace kdart {

using Timeout = std::optional<std::chrono::nanoseconds>;  // none: wait for as long as it takes

struct MemoryInfo {
  std::uint64_t free = 0;  // as the driver (or memory_limit) has it now
  std::uint64_t total = 0;
  std::uint64_t live = 0;  // bytes in live allocations of this backend
};

class GpuBackend;

namespace detail {
// A failed release, from a destructor, to the backend's log callback.
KDART_API void log_release(const GpuBackend& backend, std::string_view message) noexcept;
struct Capture;
struct BackendState;  // handle tables, live allocations, capture bookkeeping: core/runtime/backend_state.h
}  // namespace detail

class GpuBackend : public std::enable_shared_from_this<GpuBackend> {
 public:
  GpuBackend(const GpuBackend&) = delete;
  GpuBackend& operator=(const GpuBackend&) = delete;
  KDART_API virtual ~GpuBackend();

  // --- identity -----------------------------------------------------------------------------------------------------
  [[nodiscard]] const DeviceInfo& info() const noexcept { return info_; }
  // What image selection sees of this device.
  [[nodiscard]] KDART_API DeviceFacts facts() const;
  // An optional service (gemm_service.h), or null where this backend has none. T::service_id names it. Valid while the
  // backend lives.
  template <class T>
  [[nodiscard]] T* service() {
    return static_cast<T*>(find_service(T::service_id));
  }

  // --- memory -------------------------------------------------------------------------------------------------------
  // At least 256-byte aligned device memory, contents undefined. Throws out_of_device_memory (which names the request,
  // what is live and the limit), also when memory_limit would be passed.
  [[nodiscard]] KDART_API DevicePtr alloc(std::uint64_t bytes);
  // Waits for work that may use it where the driver does not. invalid_handle for what alloc did not give or took back.
  KDART_API void free(DevicePtr memory);
  // Ordered in `stream`: usable by work submitted to it after the call; after free_async by work submitted before it.
  [[nodiscard]] KDART_API DevicePtr alloc_async(std::uint64_t bytes, Stream stream);
  KDART_API void free_async(DevicePtr memory, Stream stream);

  // Fills `count` elements of `width` bytes (1, 2 or 4) with the low bytes of `value`. `dst` is a multiple of `width`.
  KDART_API void fill(DevicePtr dst, std::uint32_t value, std::uint32_t width, std::uint64_t count, Stream stream);

  KDART_API void copy_h2d(DevicePtr dst, const void* src, std::uint64_t bytes);
  KDART_API void copy_d2h(void* dst, DevicePtr src, std::uint64_t bytes);
  KDART_API void copy_d2d(DevicePtr dst, DevicePtr src, std::uint64_t bytes);
  KDART_API void copy_h2d_async(DevicePtr dst, const void* src, std::uint64_t bytes, Stream stream);
  // `dst` is complete once the stream has been synchronised past the call.
  KDART_API void copy_d2h_async(void* dst, DevicePtr src, std::uint64_t bytes, Stream stream);
  KDART_API void copy_d2d_async(DevicePtr dst, DevicePtr src, std::uint64_t bytes, Stream stream);
  // `height` rows of `width` bytes, `*_pitch` bytes apart (>= width). The two footprints must not overlap.
  KDART_API void copy_2d_d2d_async(DevicePtr dst, std::uint64_t dst_pitch, DevicePtr src, std::uint64_t src_pitch,
                                   std::uint64_t width, std::uint64_t height, Stream stream);

  // Page-locked host memory for truly asynchronous copies. alloc_pinned(0) gives null. Throws out_of_host_memory.
  [[nodiscard]] KDART_API void* alloc_pinned(std::uint64_t bytes);
  KDART_API void free_pinned(void* memory);

  // Makes device memory that the caller owns known, so that copies, fills and Vulkan's address map accept it. `native`
  // is the device address (CPU: the host address). Returns the address that kernels use. Not counted against
  // memory_limit; release_import forgets it and frees nothing.
  [[nodiscard]] KDART_API DevicePtr import_memory(std::uint64_t native, std::uint64_t bytes);
  KDART_API void release_import(DevicePtr memory);

  // True when [memory, memory + bytes) lies inside one live allocation or import: what copies and fills accept. True for
  // 0 bytes. Lets a caller refuse an address before it launches anything. Throws nothing.
  [[nodiscard]] KDART_API bool contains(DevicePtr memory, std::uint64_t bytes) const noexcept;
  [[nodiscard]] KDART_API MemoryInfo memory_info();

  // --- streams and events -------------------------------------------------------------------------------------------
  [[nodiscard]] KDART_API Stream create_stream();
  KDART_API void destroy_stream(Stream stream);  // waits for its work
  // Hands collected work to the device. Never needed for correctness; record, synchronize and blocking copies flush.
  KDART_API void flush(Stream stream);
  // Waits for everything submitted to the stream. Throws timeout when it runs out, or the error of that work.
  KDART_API void synchronize(Stream stream, Timeout timeout = {});

  [[nodiscard]] KDART_API Event create_event();
  KDART_API void destroy_event(Event event);
  KDART_API void record(Event event, Stream stream);
  KDART_API void wait(Stream stream, Event event);
  KDART_API void wait_host(Event event, Timeout timeout = {});
  [[nodiscard]] KDART_API bool query(Event event);  // true when never recorded, or when its latest record has passed
  // Milliseconds between the latest records of two events that have passed; invalid_argument otherwise.
  [[nodiscard]] KDART_API double elapsed_ms(Event start, Event end);

  // --- kernels ------------------------------------------------------------------------------------------------------
  // Chooses an image, checks its bytes and its stated argument layout against the contract, loads it. Throws
  // no_matching_image (with a reason per image), corrupt_image, invalid_image, io_error.
  [[nodiscard]] KDART_API std::shared_ptr<LoadedSet> load(const std::shared_ptr<const KernelSet>& set);
  // Valid while the kernel's set is loaded.
  [[nodiscard]] KDART_API const KernelInfo& kernel_info(KernelHandle kernel) const;
  // Gets a kernel ready for launches of this block and dynamic shared memory, so that launch itself does no slow work.
  // Throws invalid_launch as launch would.
  KDART_API void prepare(KernelHandle kernel, Dim3 block, std::uint32_t shared_bytes);
  // Checks arguments, dimensions and shared memory against contract and device, then submits; with
  // OpenOptions::synchronous_launches, waits. Throws invalid_handle or
  // invalid_launch; the message names the kernel, the argument or dimension, the value and the limit. Takes no lock of
  // the interface's own.
  KDART_API void launch(const LaunchRecord& record, Stream stream);

  // --- graphs -------------------------------------------------------------------------------------------------------
  KDART_API void begin_capture(Stream stream);
  // Every stream that joined must have been joined back (waited for by `stream`), else capture_invalidated.
  [[nodiscard]] KDART_API Graph end_capture(Stream stream);
  // May be launched again while pending. The caller keeps the captured memory alive.
  KDART_API void launch_graph(Graph graph, Stream stream);
  KDART_API void destroy_graph(Graph graph);  // launches that are pending complete

 protected:
  // A vendor's own stream, event, graph, module and kernel: whatever fits 64 bits (a pointer, an index).
  using Native = std::uint64_t;

  KDART_API GpuBackend(DeviceInfo info, OpenOptions options);

  // Vendors call this first in their destructor, while do_* still work: waits, destroys what is left, never throws.
  KDART_API void shut_down() noexcept;
  [[nodiscard]] const OpenOptions& options() const noexcept { return options_; }
  KDART_API void log(LogSeverity severity, std::string_view message) const;
  // Records a sticky error that a vendor noticed outside a call (a worker thread), then to be thrown by every call.
  KDART_API void set_sticky(const Error& error) noexcept;
  // True in a child of the process that opened the device: its threads and driver state are gone.
  [[nodiscard]] KDART_API bool forked() const noexcept;

  // For a vendor's services, which take handles as the public methods do.
  // Runs `body(native stream)`, which may stand in a capture and says whether it submitted work (backend_submit.h).
  template <class Body>
  void submit(Stream stream, std::string_view call, const Body& body);
  // Runs any other body as the public methods run: not on a finished device, keeping a sticky error that comes out of it.
  template <class Body>
  decltype(auto) run(const Body& body);
  // Throws invalid_argument naming the call, the address and the bytes, unless all of it is known. `bytes` > 0.
  void require_known(std::string_view call, std::string_view what, DevicePtr memory, std::uint64_t bytes) const;
  // A handle for a stream that exists; destroy_stream gives it to do_destroy_stream as any other.
  [[nodiscard]] Stream insert_stream(Native stream);
  // The vendor's object behind a handle; invalid_handle for a stale one.
  [[nodiscard]] Native native_of(Stream stream, std::string_view call) const;
  [[nodiscard]] Native native_of(KernelHandle kernel, std::string_view call) const;

  struct KernelLoad {
    Native kernel = 0;
    std::uint32_t max_threads = 0;  // per block as the driver has it; 0: no tighter than the device
    std::uint32_t static_shared_bytes = 0;
    // The layout the image itself states, compared with the contract by the caller. Empty: it states none.
    struct Argument {
      std::uint32_t offset, size;
    };
    std::vector<Argument> arguments;
  };

  virtual DeviceFacts do_facts() const = 0;
  virtual void* do_service(std::string_view id);  // null by default

  virtual DevicePtr do_alloc(std::uint64_t bytes) = 0;
  virtual void do_free(DevicePtr memory) = 0;
  virtual DevicePtr do_alloc_async(std::uint64_t bytes, Native stream) = 0;
  virtual void do_free_async(DevicePtr memory, Native stream) = 0;
  virtual void do_fill(DevicePtr dst, std::uint32_t value, std::uint32_t width, std::uint64_t count, Native stream) = 0;
  virtual void do_copy_h2d(DevicePtr dst, const void* src, std::uint64_t bytes) = 0;
  virtual void do_copy_d2h(void* dst, DevicePtr src, std::uint64_t bytes) = 0;
  virtual void do_copy_d2d(DevicePtr dst, DevicePtr src, std::uint64_t bytes) = 0;
  // `pinned` says that src (or dst) lies in memory from alloc_pinned.
  virtual void do_copy_h2d_async(DevicePtr dst, const void* src, std::uint64_t bytes, bool pinned, Native stream) = 0;
  virtual void do_copy_d2h_async(void* dst, DevicePtr src, std::uint64_t bytes, bool pinned, Native stream) = 0;
  virtual void do_copy_d2d_async(DevicePtr dst, DevicePtr src, std::uint64_t bytes, Native stream) = 0;
  virtual void do_copy_2d_d2d_async(DevicePtr dst, std::uint64_t dst_pitch, DevicePtr src, std::uint64_t src_pitch,
                                    std::uint64_t width, std::uint64_t height, Native stream) = 0;
  virtual void* do_alloc_pinned(std::uint64_t bytes) = 0;
  virtual void do_free_pinned(void* memory) = 0;
  virtual DevicePtr do_import_memory(std::uint64_t native, std::uint64_t bytes) = 0;
  virtual void do_release_import(DevicePtr memory) = 0;
  virtual MemoryInfo do_memory_info() = 0;  // live is ignored

  virtual Native do_create_stream() = 0;
  virtual void do_destroy_stream(Native stream) = 0;
  virtual void do_flush(Native stream) = 0;
  virtual bool do_synchronize(Native stream, Timeout timeout) = 0;  // false: timed out
  // True while somebody else captures the stream, who would lose the capture by a wait; false by default.
  virtual bool do_is_captured_elsewhere(Native stream);
  virtual Native do_create_event() = 0;
  virtual void do_destroy_event(Native event) = 0;
  virtual void do_record(Native event, Native stream) = 0;
  virtual void do_wait(Native stream, Native event) = 0;
  virtual bool do_wait_host(Native event, Timeout timeout) = 0;  // false: timed out
  virtual bool do_query(Native event) = 0;
  virtual double do_elapsed_ms(Native start, Native end) = 0;

  virtual Native do_load_image(const ManifestImage& image, std::span<const std::byte> bytes) = 0;
  virtual KernelLoad do_get_kernel(Native module, const ImageKernel& kernel, const ContractKernel& contract) = 0;
  virtual void do_unload_image(Native module) = 0;  // waits for launched work
  virtual void do_prepare(Native kernel, Dim3 block, std::uint32_t shared_bytes) = 0;
  virtual void do_launch(Native kernel, const LaunchRecord& record, Native stream) = 0;

  // Which streams a capture holds: the one it began on, and from then on each one for which do_wait is called with an
  // event that do_record last recorded on a stream of the capture. do_wait never comes with an event that was not yet
  // recorded, nor from inside a capture with one recorded outside. A graph must not refer to the events: they may be
  // destroyed or recorded anew before it is launched.
  virtual void do_begin_capture(Native stream) = 0;
  // Called when every stream that joined has been joined back. The capture is over also when it throws.
  virtual Native do_end_capture(Native stream) = 0;
  // Ends a capture that became invalid, on its origin stream; throws nothing a caller must see.
  virtual void do_abort_capture(Native stream) = 0;
  virtual void do_launch_graph(Native graph, Native stream) = 0;
  virtual void do_destroy_graph(Native graph) = 0;

 private:
  friend class LoadedSet;
  friend class ForwardingBackend;
  friend void detail::log_release(const GpuBackend& backend, std::string_view message) noexcept;

  [[nodiscard]] KDART_API void* find_service(std::string_view id);
  // What load and ForwardingBackend build on: one image, one kernel of it, and both undone.
  Native open_module(const ManifestImage& image, std::span<const std::byte> bytes);
  KernelHandle open_kernel(Native module, std::string_view image, const ImageKernel& kernel,
                           const ContractKernel& contract);
  void close_module(Native module, std::span<const KernelHandle> kernels) noexcept;
  void unload(LoadedSet& set) noexcept;
  // For calls that may not stand in a capture: ends a running one and throws capture_invalidated.
  void refuse_in_capture(Stream stream, std::string_view call);
  void refuse_captured(Event event, std::string_view call);
  // Ends a running capture early; its streams are free again.
  void invalidate(const std::shared_ptr<detail::Capture>& capture, const std::string& reason) noexcept;
  void abort_capture(Stream stream) noexcept;  // the one that `stream` is in, if any

  DeviceInfo info_;
  OpenOptions options_;
  std::unique_ptr<detail::BackendState> state_;
};

}  // namespace kdart
