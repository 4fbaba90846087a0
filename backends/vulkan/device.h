// A Vulkan device as a kdart backend.
//
// Launches and copies collect in a command buffer per stream (stream.h); device addresses are what vkGetBufferDeviceAddress
// gives, and kernels get them in push constants. After fork() the driver's threads are gone, so a child's copy of a device
// is left as it is: nothing is waited for or released.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "backends/vulkan/graph.h"
#include "backends/vulkan/kernels.h"
#include "backends/vulkan/list.h"
#include "backends/vulkan/logical_device.h"
#include "backends/vulkan/memory.h"
#include "backends/vulkan/stream.h"
#include "core/runtime/native_objects.h"
#include "kdart/backend.h"
#include "kdart/vulkan.h"

namespace kdart::vulkan {

class VulkanBackend final : public GpuBackend {
 public:
  // Throws Error: unsupported for a device that lacks something (plan.h), what the driver answers.
  VulkanBackend(std::shared_ptr<const Instance> instance, const ListedDevice& listed, const OpenOptions& options);
  // The caller's device.
  VulkanBackend(const VulkanDevice& adopted, const PhysicalDeviceFacts& facts, const DevicePlan& plan,
                const OpenOptions& options);
  ~VulkanBackend() override;

 private:
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

  [[nodiscard]] static VulkanStream& stream_of(Native native) noexcept {
    return *detail::object_at<VulkanStream>(native);
  }
  [[nodiscard]] static VulkanEvent& event_of(Native native) noexcept { return *detail::object_at<VulkanEvent>(native); }

  // Runs `record(Recorder&)` as an operation of the stream, or of the graph that it is captured into.
  template <class Record>
  static void operate(VulkanStream& stream, const Record& record) {
    if (Capture* capture = detail::running(stream.capture)) {
      record(capture->graph().recorder());
    } else {
      stream.operate(record);
    }
  }
  [[nodiscard]] CopySide side(DevicePtr memory) const;
  // Waits for everything given to any stream so far.
  void wait_for_all();

  // Everything that calls the driver, so that a forked child can leave all of it alone. Destroyed bottom up.
  struct Parts {
    template <class... Args>
    explicit Parts(bool dedicated, Args&&... args)
        : device(std::forward<Args>(args)...),
          cache(device),
          pipelines(make_byte_pipelines(device, cache.get())),
          memory(device, dedicated),
          pinned(device),
          uploads(device, device.plan().upload_types),
          readbacks(device, device.plan().readback_types),
          timestamps(device),
          stream_device{device, memory, uploads, readbacks, timestamps, pipelines} {}
    ~Parts() { destroy_byte_pipelines(device, pipelines); }
    Parts(const Parts&) = delete;
    Parts& operator=(const Parts&) = delete;

    LogicalDevice device;
    DriverCache cache;
    BytePipelines pipelines;
    DeviceMemory memory;
    PinnedMemory pinned;
    StagingPool uploads, readbacks;
    TimestampPool timestamps;
    StreamDevice stream_device;
    detail::ObjectTable<VulkanModule> modules;
    detail::ObjectTable<const VulkanGraph> graphs;
    detail::ObjectTable<VulkanEvent> events;
    detail::ObjectTable<VulkanStream> streams;
    // For blocking copies, which one thread makes at a time.
    std::mutex copies_mutex;
    std::unique_ptr<VulkanStream> copies;
  };
  std::unique_ptr<Parts> parts_;
};

}  // namespace kdart::vulkan
