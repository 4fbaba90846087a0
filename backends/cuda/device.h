// A CUDA device as a kdart backend.
//
// Handles go to the driver nearly as they are: its streams, events and graphs do what the interface asks. Every call runs
// in the device's context and leaves the caller's current again. After fork() the driver is of no use in the child, so a
// child's copy of a device is left as it is. At the end of the process the driver answers that it has shut down, which
// destructors take for what it is.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string_view>

#include "backends/cuda/context.h"
#include "backends/cuda/facts.h"
#include "backends/cuda/graph.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/launched.h"
#include "backends/cuda/memory.h"
#include "backends/cuda/stream.h"
#include "core/runtime/native_objects.h"
#include "kdart/backend.h"
#include "kdart/cuda.h"
#include "kdart/gemm_service.h"

namespace kdart::cuda {

class CudaBackend final : public GpuBackend, private CudaInterop {
 public:
  // Throws Error: unsupported for a device that cannot be used, what the driver answers.
  CudaBackend(std::shared_ptr<const Library> library, const CudaSnapshot& snapshot, const OpenOptions& options);
  // In the caller's context.
  CudaBackend(std::shared_ptr<const Library> library, const CudaSnapshot& snapshot, CUcontext adopted,
              const OpenOptions& options);
  ~CudaBackend() override;

 private:
  friend class CublasLtGemm;

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

  // CudaInterop
  Stream adopt_stream(void* stream) override;
  void* native_stream(Stream stream) const override;
  void* native_context() const noexcept override;
  void* native_kernel(KernelHandle kernel) const override;

  [[nodiscard]] static CudaStream& stream_of(Native native) noexcept { return *detail::object_at<CudaStream>(native); }
  [[nodiscard]] static CudaEvent& event_of(Native native) noexcept { return *detail::object_at<CudaEvent>(native); }
  [[nodiscard]] const Functions& cu() const noexcept { return context_->cu(); }

  // Throws for any result but success, naming the kernels that may have caused a fault.
  void check(CUresult result, std::string_view doing) const {
    if (result != CUDA_SUCCESS) [[unlikely]]
      fail(result, doing);
  }
  [[noreturn]] void fail(CUresult result, std::string_view doing) const;
  // For what knows nothing of streams: a fault that comes out of the body names those kernels too.
  template <class Body>
  decltype(auto) naming_culprits(std::string_view doing, const Body& body) const {
    try {
      return body();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::device_fault) throw;
      fail(static_cast<CUresult>(error.native_code()), doing);
    }
  }
  // Allocates; when the driver has no memory left, once more after everything under way and the pool's reserve are gone.
  [[nodiscard]] DevicePtr allocate(std::uint64_t bytes, CUstream stream);
  [[nodiscard]] bool read_late(const void* memory, std::uint64_t bytes) const;
  // Waits for everything given to any stream that is not being captured.
  void wait_for_all();
  // Throws invalid_argument for a stream that is not of this context.
  void require_own(CUstream stream) const;
  // Whether the caller captures a stream that it lent.
  [[nodiscard]] bool is_captured_by_owner(const CudaStream& stream) const;
  // A copy of its own, ordered with no stream.
  template <class Copy>
  void copy_and_wait(std::string_view doing, const Copy& copy);
  // Waits for one stream; false when the time is up first.
  bool wait_for(CudaStream& stream, Timeout timeout);
  struct Ended {
    CUresult result = CUDA_SUCCESS;
    CUgraph recorded = nullptr;
    std::shared_ptr<Capture> capture;
  };
  // Ends the capture that began on this stream, for all of its streams.
  Ended end_capture_of(CudaStream& origin);
  // The graph of a capture that is over, from what the driver recorded.
  [[nodiscard]] Native instantiate(Capture& capture, CUgraph recorded);
  [[nodiscard]] GemmService* gemm();

  // Everything that calls the driver, so that a forked child can leave all of it alone. Made and destroyed, bottom up, in
  // the context.
  struct Parts {
    Parts(const Context& context, const CudaSnapshot& facts)
        : snapshot(facts), memory(context, facts.pools), allocations(context), copies(context) {}

    CudaSnapshot snapshot;
    Names names;
    DeviceMemory memory;
    CudaStream allocations, copies;  // of blocking calls
    std::shared_mutex captures;  // of every stream's `capture`: shared to look at another thread's, else to change one
    detail::ObjectTable<CudaModule> modules;
    detail::ObjectTable<CudaGraph> graphs;
    detail::ObjectTable<CudaEvent> events;
    detail::ObjectTable<CudaStream> streams;
    std::mutex gemm_mutex;
    bool gemm_tried = false;
    std::unique_ptr<GemmService> gemm;
  };
  std::unique_ptr<Context> context_;
  std::unique_ptr<Parts> parts_;
};

}  // namespace kdart::cuda
