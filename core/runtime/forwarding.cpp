#include "kdart/forwarding_backend.h"

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "core/runtime/fail.h"

namespace kdart {

using detail::fail;

namespace {

// An inner handle in the 64 bits that this object's own slots hold.
template <class H>
std::uint64_t pack(H handle) {
  return std::uint64_t{handle.generation()} << 32 | handle.index();
}
template <class H>
H unpack(std::uint64_t native) {
  return H(static_cast<std::uint32_t>(native & 0xFFFF'FFFF), static_cast<std::uint32_t>(native >> 32));
}

GpuBackend& required(const std::shared_ptr<GpuBackend>& inner) {
  if (inner == nullptr) fail(ErrorCode::invalid_argument, "a layer needs a backend to forward to");
  return *inner;
}

// An inner wait that ran out is a result here; the outer call words the error.
template <class Wait>
bool finished(const Wait& wait) {
  try {
    wait();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::timeout) throw;
    return false;
  }
  return true;
}

}  // namespace

struct ForwardingBackend::Modules {
  struct Module {
    Native native = 0;
    std::string file;
    std::vector<KernelHandle> kernels;
  };
  std::mutex mutex;
  std::map<Native, Module> loaded;
  Native next = 1;
};

ForwardingBackend::ForwardingBackend(std::shared_ptr<GpuBackend> inner, OpenOptions options)
    : GpuBackend(required(inner).info(), std::move(options)),
      inner_(std::move(inner)),
      modules_(std::make_unique<Modules>()) {}

// A layer that overrides a do_* function calls this itself, first in its own destructor; a second call does nothing.
ForwardingBackend::~ForwardingBackend() {
  shut_down();
}

DeviceFacts ForwardingBackend::do_facts() const {
  return inner_->facts();
}

// --- memory
DevicePtr ForwardingBackend::do_alloc(std::uint64_t bytes) {
  return inner_->alloc(bytes);
}
void ForwardingBackend::do_free(DevicePtr memory) {
  inner_->free(memory);
}
DevicePtr ForwardingBackend::do_alloc_async(std::uint64_t bytes, Native stream) {
  return inner_->alloc_async(bytes, unpack<Stream>(stream));
}
void ForwardingBackend::do_free_async(DevicePtr memory, Native stream) {
  inner_->free_async(memory, unpack<Stream>(stream));
}
void ForwardingBackend::do_fill(DevicePtr dst, std::uint32_t value, std::uint32_t width, std::uint64_t count,
                                Native stream) {
  inner_->fill(dst, value, width, count, unpack<Stream>(stream));
}
void ForwardingBackend::do_copy_h2d(DevicePtr dst, const void* src, std::uint64_t bytes) {
  inner_->copy_h2d(dst, src, bytes);
}
void ForwardingBackend::do_copy_d2h(void* dst, DevicePtr src, std::uint64_t bytes) {
  inner_->copy_d2h(dst, src, bytes);
}
void ForwardingBackend::do_copy_d2d(DevicePtr dst, DevicePtr src, std::uint64_t bytes) {
  inner_->copy_d2d(dst, src, bytes);
}
void ForwardingBackend::do_copy_h2d_async(DevicePtr dst, const void* src, std::uint64_t bytes, bool, Native stream) {
  inner_->copy_h2d_async(dst, src, bytes, unpack<Stream>(stream));
}
void ForwardingBackend::do_copy_d2h_async(void* dst, DevicePtr src, std::uint64_t bytes, bool, Native stream) {
  inner_->copy_d2h_async(dst, src, bytes, unpack<Stream>(stream));
}
void ForwardingBackend::do_copy_d2d_async(DevicePtr dst, DevicePtr src, std::uint64_t bytes, Native stream) {
  inner_->copy_d2d_async(dst, src, bytes, unpack<Stream>(stream));
}
void ForwardingBackend::do_copy_2d_d2d_async(DevicePtr dst, std::uint64_t dst_pitch, DevicePtr src,
                                             std::uint64_t src_pitch, std::uint64_t width, std::uint64_t height,
                                             Native stream) {
  inner_->copy_2d_d2d_async(dst, dst_pitch, src, src_pitch, width, height, unpack<Stream>(stream));
}
void* ForwardingBackend::do_alloc_pinned(std::uint64_t bytes) {
  return inner_->alloc_pinned(bytes);
}
void ForwardingBackend::do_free_pinned(void* memory) {
  inner_->free_pinned(memory);
}
DevicePtr ForwardingBackend::do_import_memory(std::uint64_t native, std::uint64_t bytes) {
  return inner_->import_memory(native, bytes);
}
void ForwardingBackend::do_release_import(DevicePtr memory) {
  inner_->release_import(memory);
}
MemoryInfo ForwardingBackend::do_memory_info() {
  return inner_->memory_info();
}

// --- streams and events
GpuBackend::Native ForwardingBackend::do_create_stream() {
  return pack(inner_->create_stream());
}
void ForwardingBackend::do_destroy_stream(Native stream) {
  inner_->destroy_stream(unpack<Stream>(stream));
}
void ForwardingBackend::do_flush(Native stream) {
  inner_->flush(unpack<Stream>(stream));
}
bool ForwardingBackend::do_synchronize(Native stream, Timeout timeout) {
  return finished([&] { inner_->synchronize(unpack<Stream>(stream), timeout); });
}
GpuBackend::Native ForwardingBackend::do_create_event() {
  return pack(inner_->create_event());
}
void ForwardingBackend::do_destroy_event(Native event) {
  inner_->destroy_event(unpack<Event>(event));
}
void ForwardingBackend::do_record(Native event, Native stream) {
  inner_->record(unpack<Event>(event), unpack<Stream>(stream));
}
void ForwardingBackend::do_wait(Native stream, Native event) {
  inner_->wait(unpack<Stream>(stream), unpack<Event>(event));
}
bool ForwardingBackend::do_wait_host(Native event, Timeout timeout) {
  return finished([&] { inner_->wait_host(unpack<Event>(event), timeout); });
}
bool ForwardingBackend::do_query(Native event) {
  return inner_->query(unpack<Event>(event));
}
double ForwardingBackend::do_elapsed_ms(Native start, Native end) {
  return inner_->elapsed_ms(unpack<Event>(start), unpack<Event>(end));
}

// --- kernels: the inner backend knows the image and its kernels as if it had loaded the set itself
GpuBackend::Native ForwardingBackend::do_load_image(const ManifestImage& image, std::span<const std::byte> bytes) {
  Modules::Module module;
  module.file = image.file;
  module.native = inner_->open_module(image, bytes);
  try {
    const std::lock_guard lock(modules_->mutex);
    const Native id = modules_->next++;
    modules_->loaded.emplace(id, module);
    return id;
  } catch (...) {
    inner_->close_module(module.native, {});
    throw;
  }
}

GpuBackend::KernelLoad ForwardingBackend::do_get_kernel(Native module, const ImageKernel& kernel,
                                                        const ContractKernel& contract) {
  const std::lock_guard lock(modules_->mutex);
  Modules::Module& loaded = modules_->loaded.at(module);
  loaded.kernels.emplace_back();  // the place first: the handle must not be lost for want of memory
  const KernelHandle handle = inner_->open_kernel(loaded.native, loaded.file, kernel, contract);
  loaded.kernels.back() = handle;
  // The inner backend has compared the image's own layout with the contract; its limits hold here too.
  const KernelInfo& info = inner_->kernel_info(handle);
  return {pack(handle), info.max_threads, info.static_shared_bytes, {}};
}

void ForwardingBackend::do_unload_image(Native module) {
  Modules::Module unloaded;
  {
    const std::lock_guard lock(modules_->mutex);
    const auto found = modules_->loaded.find(module);
    if (found == modules_->loaded.end()) return;
    unloaded = std::move(found->second);
    modules_->loaded.erase(found);
  }
  inner_->close_module(unloaded.native, unloaded.kernels);
}

void ForwardingBackend::do_prepare(Native kernel, Dim3 block, std::uint32_t shared_bytes) {
  inner_->prepare(unpack<KernelHandle>(kernel), block, shared_bytes);
}
void ForwardingBackend::do_launch(Native kernel, const LaunchRecord& record, Native stream) {
  LaunchRecord forwarded = record;
  forwarded.kernel = unpack<KernelHandle>(kernel);
  inner_->launch(forwarded, unpack<Stream>(stream));
}

// --- graphs
void ForwardingBackend::do_begin_capture(Native stream) {
  inner_->begin_capture(unpack<Stream>(stream));
}
GpuBackend::Native ForwardingBackend::do_end_capture(Native stream) {
  return pack(inner_->end_capture(unpack<Stream>(stream)));
}
void ForwardingBackend::do_abort_capture(Native stream) {
  inner_->abort_capture(unpack<Stream>(stream));
}
void ForwardingBackend::do_launch_graph(Native graph, Native stream) {
  inner_->launch_graph(unpack<Graph>(graph), unpack<Stream>(stream));
}
void ForwardingBackend::do_destroy_graph(Native graph) {
  inner_->destroy_graph(unpack<Graph>(graph));
}

}  // namespace kdart
