// A device behind an API of streams, events, modules and graphs, as CUDA's driver and HIP have it.
//
// Handles go to the driver nearly as they are: its streams, events and graphs do what the interface asks. Every call runs
// in the device's context and leaves the caller's current again. After fork() the driver is of no use in the child, so a
// child's copy of a device is left as it is. At the end of the process the driver answers that it has shut down, which
// destructors take for what it is.
//
// `Api` is a vendor's traits.h: the names and numbers of its API, and a function for what the two do each in its own way.
// The members are defined in calls.h, which the vendor's device.cpp includes and instantiates.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>

#include "backends/common/graph.h"
#include "backends/common/kernels.h"
#include "backends/common/launched.h"
#include "backends/common/memory.h"
#include "backends/common/stream.h"
#include "core/runtime/format.h"
#include "core/runtime/native_objects.h"
#include "kdart/backend.h"
#include "kdart/gemm_service.h"

namespace kdart::common {

template <class Api>
class DriverBackend : public GpuBackend {
 public:
  ~DriverBackend() override;

 protected:
  using Result = typename Api::Result;
  using Context = typename Api::Context;
  using Current = typename Api::Current;
  using CurrentToRelease = typename Api::CurrentToRelease;
  using Kernel = DriverKernel<Api>;
  using Module = DriverModule<Api>;

  // Nothing of the driver's yet. Throws Error(unsupported) for a device that cannot be used.
  DriverBackend(const typename Api::Snapshot& snapshot, const OpenOptions& options);
  // The device's objects, in this context: the last thing that a vendor's constructor does. Throws what Api::check throws.
  void start(std::unique_ptr<Context> context, const typename Api::Snapshot& snapshot);

  // The vendor's products, null where there are none. Called once, in the context.
  [[nodiscard]] virtual std::unique_ptr<GemmService> open_gemm() = 0;

  DeviceFacts do_facts() const override;
  void* do_service(std::string_view id) override;

  DevicePtr do_alloc(std::uint64_t bytes) override;
  void do_free(DevicePtr memory) override;
  DevicePtr do_alloc_async(std::uint64_t bytes, Native stream) override;
  void do_free_async(DevicePtr memory, Native stream) override;
  void do_fill(DevicePtr dst, std::uint32_t value, std::uint32_t width, std::uint64_t count, Native stream) override;
  void do_copy_h2d(DevicePtr dst, const void* src, std::uint64_t bytes) override;
  void do_copy_d2h(void* dst, DevicePtr src, std::uint64_t bytes) override;
  void do_copy_d2d(DevicePtr dst, DevicePtr src, std::uint64_t bytes) override;
  void do_copy_h2d_async(DevicePtr dst, const void* src, std::uint64_t bytes, bool pinned, Native stream) override;
  void do_copy_d2h_async(void* dst, DevicePtr src, std::uint64_t bytes, bool pinned, Native stream) override;
  void do_copy_d2d_async(DevicePtr dst, DevicePtr src, std::uint64_t bytes, Native stream) override;
  void do_copy_2d_d2d_async(DevicePtr dst, std::uint64_t dst_pitch, DevicePtr src, std::uint64_t src_pitch,
                            std::uint64_t width, std::uint64_t height, Native stream) override;
  void* do_alloc_pinned(std::uint64_t bytes) override;
  void do_free_pinned(void* memory) override;
  DevicePtr do_import_memory(std::uint64_t native, std::uint64_t bytes) override;
  void do_release_import(DevicePtr memory) override;
  MemoryInfo do_memory_info() override;

  Native do_create_stream() override;
  void do_destroy_stream(Native stream) override;
  void do_flush(Native stream) override;
  bool do_synchronize(Native stream, Timeout timeout) override;
  bool do_is_captured_elsewhere(Native stream) override;
  Native do_create_event() override;
  void do_destroy_event(Native event) override;
  void do_record(Native event, Native stream) override;
  void do_wait(Native stream, Native event) override;
  bool do_wait_host(Native event, Timeout timeout) override;
  bool do_query(Native event) override;
  double do_elapsed_ms(Native start, Native end) override;

  Native do_load_image(const ManifestImage& image, std::span<const std::byte> bytes) override;
  KernelLoad do_get_kernel(Native module, const ImageKernel& kernel, const ContractKernel& contract) override;
  void do_unload_image(Native module) override;
  void do_prepare(Native kernel, Dim3 block, std::uint32_t shared_bytes) override;
  void do_launch(Native kernel, const LaunchRecord& record, Native stream) override;

  void do_begin_capture(Native stream) override;
  Native do_end_capture(Native stream) override;
  void do_abort_capture(Native stream) override;
  void do_launch_graph(Native graph, Native stream) override;
  void do_destroy_graph(Native graph) override;

  [[nodiscard]] static DriverStream<Api>& stream_of(Native native) noexcept {
    return *detail::object_at<DriverStream<Api>>(native);
  }
  [[nodiscard]] static DriverEvent<Api>& event_of(Native native) noexcept {
    return *detail::object_at<DriverEvent<Api>>(native);
  }
  [[nodiscard]] const typename Api::Functions& driver() const noexcept { return context_->driver(); }

  // Throws for any result but success, naming the kernels that may have caused a fault.
  void check(Result result, std::string_view doing) const {
    if (!Api::succeeded(result)) [[unlikely]]
      fail(result, doing);
  }
  [[noreturn]] void fail(Result result, std::string_view doing) const;
  // For what knows nothing of streams: a fault that comes out of the body names those kernels too.
  template <class Body>
  decltype(auto) naming_culprits(std::string_view doing, const Body& body) const {
    try {
      return body();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::device_fault) throw;
      fail(static_cast<Result>(error.native_code()), doing);
    }
  }
  // Allocates; when the driver has no memory left, once more after everything under way and the pool's reserve are gone.
  [[nodiscard]] DevicePtr allocate(std::uint64_t bytes, typename Api::Stream stream);
  // Waits for everything given to any stream that is not being captured.
  void wait_for_all();
  // Takes over a stream that the caller made and that belongs to the context.
  [[nodiscard]] Stream insert_adopted(typename Api::Stream stream);
  // Whether the caller captures a stream that it lent.
  [[nodiscard]] bool is_captured_by_owner(const DriverStream<Api>& stream) const;
  // A copy of its own, ordered with no stream.
  template <class Copy>
  void copy_and_wait(std::string_view doing, const Copy& copy);
  // Waits for one stream; false when the time is up first.
  bool wait_for(DriverStream<Api>& stream, Timeout timeout);
  struct Ended {
    Result result = Api::success;
    typename Api::Graph recorded = nullptr;
    std::shared_ptr<Capture<Api>> capture;
  };
  // Ends the capture that began on this stream, for all of its streams.
  Ended end_capture_of(DriverStream<Api>& origin);
  // The graph of a capture that is over, from what the driver recorded.
  [[nodiscard]] Native instantiate(Capture<Api>& capture, typename Api::Graph recorded);
  [[nodiscard]] GemmService* gemm();

  // Everything that calls the driver, so that a forked child can leave all of it alone. Made and destroyed, bottom up, in
  // the context.
  struct Parts {
    Parts(const Context& context, const typename Api::Snapshot& facts)
        : snapshot(facts), memory(context, facts.pools), allocations(context), copies(context) {}

    typename Api::Snapshot snapshot;
    Names names;
    DeviceMemory<Api> memory;
    DriverStream<Api> allocations, copies;  // of blocking calls
    std::shared_mutex captures;  // of every stream's `capture`: shared to look at another thread's, else to change one
    detail::ObjectTable<Module> modules;
    detail::ObjectTable<DriverGraph<Api>> graphs;
    detail::ObjectTable<DriverEvent<Api>> events;
    detail::ObjectTable<DriverStream<Api>> streams;
    std::mutex gemm_mutex;
    bool gemm_tried = false;
    std::unique_ptr<GemmService> gemm;
  };
  std::unique_ptr<Context> context_;
  std::unique_ptr<Parts> parts_;
};

}  // namespace kdart::common
