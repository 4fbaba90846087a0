// A layer over a device that counts what passes through it, for tests of "nothing was launched" and "nothing was
// allocated".
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "kdart/forwarding_backend.h"

namespace kdart::test {

class CountingBackend final : public ForwardingBackend {
 public:
  [[nodiscard]] static std::shared_ptr<CountingBackend> over(std::shared_ptr<GpuBackend> inner);
  ~CountingBackend() override;

  // Launches, copies and fills, blocking ones included.
  [[nodiscard]] std::uint64_t submitted() const { return submitted_; }
  // Device and pinned memory, streams, events, images, kernel preparations.
  [[nodiscard]] std::uint64_t created() const { return created_; }
  // Bytes of each device allocation, in order. Not to be read while another thread allocates.
  [[nodiscard]] const std::vector<std::uint64_t>& allocations() const { return allocations_; }

 protected:
  DevicePtr do_alloc(std::uint64_t bytes) override;
  DevicePtr do_alloc_async(std::uint64_t bytes, Native stream) override;
  void* do_alloc_pinned(std::uint64_t bytes) override;
  DevicePtr do_import_memory(std::uint64_t native, std::uint64_t bytes) override;
  Native do_create_stream() override;
  Native do_create_event() override;
  Native do_load_image(const ManifestImage& image, std::span<const std::byte> bytes) override;
  void do_prepare(Native kernel, Dim3 block, std::uint32_t shared_bytes) override;

  void do_fill(DevicePtr dst, std::uint32_t value, std::uint32_t width, std::uint64_t count, Native stream) override;
  void do_copy_h2d(DevicePtr dst, const void* src, std::uint64_t bytes) override;
  void do_copy_d2h(void* dst, DevicePtr src, std::uint64_t bytes) override;
  void do_copy_d2d(DevicePtr dst, DevicePtr src, std::uint64_t bytes) override;
  void do_copy_h2d_async(DevicePtr dst, const void* src, std::uint64_t bytes, bool pinned, Native stream) override;
  void do_copy_d2h_async(void* dst, DevicePtr src, std::uint64_t bytes, bool pinned, Native stream) override;
  void do_copy_d2d_async(DevicePtr dst, DevicePtr src, std::uint64_t bytes, Native stream) override;
  void do_copy_2d_d2d_async(DevicePtr dst, std::uint64_t dst_pitch, DevicePtr src, std::uint64_t src_pitch,
                            std::uint64_t width, std::uint64_t height, Native stream) override;
  void do_launch(Native kernel, const LaunchRecord& record, Native stream) override;

 private:
  explicit CountingBackend(std::shared_ptr<GpuBackend> inner);

  std::atomic<std::uint64_t> submitted_{0};
  std::atomic<std::uint64_t> created_{0};
  std::vector<std::uint64_t> allocations_;
};

}  // namespace kdart::test
