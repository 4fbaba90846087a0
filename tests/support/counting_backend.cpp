#include "tests/support/counting_backend.h"

#include <utility>

namespace kdart::test {

CountingBackend::CountingBackend(std::shared_ptr<GpuBackend> inner) : ForwardingBackend(std::move(inner)) {}

std::shared_ptr<CountingBackend> CountingBackend::over(std::shared_ptr<GpuBackend> inner) {
  return std::shared_ptr<CountingBackend>(new CountingBackend(std::move(inner)));
}

CountingBackend::~CountingBackend() {
  shut_down();
}

DevicePtr CountingBackend::do_alloc(std::uint64_t bytes) {
  ++created_;
  allocations_.push_back(bytes);
  return ForwardingBackend::do_alloc(bytes);
}
DevicePtr CountingBackend::do_alloc_async(std::uint64_t bytes, Native stream) {
  ++created_;
  return ForwardingBackend::do_alloc_async(bytes, stream);
}
void* CountingBackend::do_alloc_pinned(std::uint64_t bytes) {
  ++created_;
  return ForwardingBackend::do_alloc_pinned(bytes);
}
DevicePtr CountingBackend::do_import_memory(std::uint64_t native, std::uint64_t bytes) {
  ++created_;
  return ForwardingBackend::do_import_memory(native, bytes);
}
CountingBackend::Native CountingBackend::do_create_stream() {
  ++created_;
  return ForwardingBackend::do_create_stream();
}
CountingBackend::Native CountingBackend::do_create_event() {
  ++created_;
  return ForwardingBackend::do_create_event();
}
CountingBackend::Native CountingBackend::do_load_image(const ManifestImage& image, std::span<const std::byte> bytes) {
  ++created_;
  return ForwardingBackend::do_load_image(image, bytes);
}
void CountingBackend::do_prepare(Native kernel, Dim3 block, std::uint32_t shared_bytes) {
  ++created_;
  ForwardingBackend::do_prepare(kernel, block, shared_bytes);
}

void CountingBackend::do_fill(DevicePtr dst, std::uint32_t value, std::uint32_t width, std::uint64_t count,
                              Native stream) {
  ++submitted_;
  ForwardingBackend::do_fill(dst, value, width, count, stream);
}
void CountingBackend::do_copy_h2d(DevicePtr dst, const void* src, std::uint64_t bytes) {
  ++submitted_;
  ForwardingBackend::do_copy_h2d(dst, src, bytes);
}
void CountingBackend::do_copy_d2h(void* dst, DevicePtr src, std::uint64_t bytes) {
  ++submitted_;
  ForwardingBackend::do_copy_d2h(dst, src, bytes);
}
void CountingBackend::do_copy_d2d(DevicePtr dst, DevicePtr src, std::uint64_t bytes) {
  ++submitted_;
  ForwardingBackend::do_copy_d2d(dst, src, bytes);
}
void CountingBackend::do_copy_h2d_async(DevicePtr dst, const void* src, std::uint64_t bytes, bool pinned,
                                        Native stream) {
  ++submitted_;
  ForwardingBackend::do_copy_h2d_async(dst, src, bytes, pinned, stream);
}
void CountingBackend::do_copy_d2h_async(void* dst, DevicePtr src, std::uint64_t bytes, bool pinned, Native stream) {
  ++submitted_;
  ForwardingBackend::do_copy_d2h_async(dst, src, bytes, pinned, stream);
}
void CountingBackend::do_copy_d2d_async(DevicePtr dst, DevicePtr src, std::uint64_t bytes, Native stream) {
  ++submitted_;
  ForwardingBackend::do_copy_d2d_async(dst, src, bytes, stream);
}
void CountingBackend::do_copy_2d_d2d_async(DevicePtr dst, std::uint64_t dst_pitch, DevicePtr src,
                                           std::uint64_t src_pitch, std::uint64_t width, std::uint64_t height,
                                           Native stream) {
  ++submitted_;
  ForwardingBackend::do_copy_2d_d2d_async(dst, dst_pitch, src, src_pitch, width, height, stream);
}
void CountingBackend::do_launch(Native kernel, const LaunchRecord& record, Native stream) {
  ++submitted_;
  ForwardingBackend::do_launch(kernel, record, stream);
}

}  // namespace kdart::test
