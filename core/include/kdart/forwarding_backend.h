// The base of layers (validating, tracing, faulting, recording): a GpuBackend that hands every call to another one.
#pragma once

#include <memory>

#include "kdart/backend.h"
#include "kdart/export.h"

namespace kdart {

// Forwards every do_* to the public method of `inner`, so that the inner backend's own checks stay in force. A layer
// overrides what it watches. Handles of this object are its own; inner ones never leak out. Services are not forwarded
// (design: a layer that does not wrap a service returns null for it).
class KDART_API ForwardingBackend : public GpuBackend {
 public:
  ~ForwardingBackend() override;
  [[nodiscard]] const std::shared_ptr<GpuBackend>& inner() const noexcept { return inner_; }

 protected:
  explicit ForwardingBackend(std::shared_ptr<GpuBackend> inner, OpenOptions options = {});

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

 private:
  struct Modules;  // what was loaded into the inner backend

  std::shared_ptr<GpuBackend> inner_;
  std::unique_ptr<Modules> modules_;
};

}  // namespace kdart
