// The CPU as a device.
//
// Streams are asynchronous: each has a queue and a thread; a launch's blocks are spread over a pool that all streams
// share. Device memory is host memory. There is no fault isolation: a kernel that stores through a wild address faults in
// this process and ends it ("fault_isolation_none" among the features). After fork() the threads are gone, so a child's
// copy of a device is left as it is: nothing is joined, locked or released.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "backends/cpu/facts.h"
#include "backends/cpu/graph.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/memory.h"
#include "backends/cpu/operation.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/stream.h"
#include "core/runtime/native_objects.h"
#include "kdart/backend.h"

namespace kdart::cpu {

class CpuBackend final : public GpuBackend {
 public:
  // Throws Error: what describe_device throws, out_of_host_memory when threads or memory for them run out.
  CpuBackend(const CpuSnapshot& snapshot, const OpenOptions& options);
  ~CpuBackend() override;

 private:
  DeviceFacts do_facts() const override;

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

  [[nodiscard]] static CpuStream& stream_of(Native native) noexcept { return *detail::object_at<CpuStream>(native); }

  // Queues an operation, or captures it when the stream is being captured.
  static void enqueue(CpuStream& stream, Operation operation);
  // Waits for everything submitted to any stream so far.
  void wait_for_all();

  // Everything with a thread or a lock in it, so that a forked child can leave all of it alone. Destroyed bottom up: the
  // streams before the pool and the memory they use.
  struct Parts {
    Parts(std::uint64_t total_memory, std::uint32_t threads, CpuEngine engine, std::function<void(const Error&)> sticky)
        : memory(total_memory), pool(threads, engine), stream_device{pool, memory, std::move(sticky)} {}
    Memory memory;
    Pool pool;
    CpuStream::Device stream_device;
    detail::ObjectTable<CpuModule> modules;
    detail::ObjectTable<const CpuGraph> graphs;
    detail::ObjectTable<CpuEvent> events;
    detail::ObjectTable<CpuStream> streams;
  };
  std::unique_ptr<Parts> parts_;
};

}  // namespace kdart::cpu
