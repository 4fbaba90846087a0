#include "tests/support/fake_backend.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <utility>

namespace kdart::test {
namespace {

std::atomic<int> live{0};

template <class T>
T* host(DevicePtr memory) {
  return reinterpret_cast<T*>(static_cast<std::uintptr_t>(memory.address()));
}

constexpr std::size_t alignment = 256;

}  // namespace

DeviceInfo fake_info() {
  DeviceInfo info;
  info.id = "fake:0";
  info.backend = "fake";
  info.name = "fake device";
  info.vendor = "tests";
  info.type = DeviceType::virtual_gpu;
  info.target = "x86-64-v3";
  info.total_memory = std::uint64_t{1} << 30;
  info.limits.shared_memory_per_block = 65536;
  info.limits.threads_per_block = 1024;
  info.limits.block = {1024, 512, 64};
  info.limits.grid = {65535, 1000, 1000};
  info.limits.allocation = std::uint64_t{1} << 29;
  return info;
}

std::shared_ptr<FakeBackend> FakeBackend::open(OpenOptions options, DeviceInfo info) {
  return std::shared_ptr<FakeBackend>(new FakeBackend(std::move(info), std::move(options)));
}

FakeBackend::FakeBackend(DeviceInfo info, OpenOptions options) : GpuBackend(std::move(info), std::move(options)) {
  facts_.backend = "cpu";  // so that a rule of selection applies
  facts_.target = this->info().target;
  facts_.shared_memory_per_block = this->info().limits.shared_memory_per_block;
  facts_.threads_per_block = this->info().limits.threads_per_block;
}

FakeBackend::~FakeBackend() {
  shut_down();
  for (void* memory : memory_) std::free(memory);  // what was told to fail stays counted as live
}

void* FakeBackend::allocate(std::uint64_t bytes) {
  const std::uint64_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = rounded < bytes ? nullptr : std::aligned_alloc(alignment, rounded);
  if (memory == nullptr) return nullptr;
  const std::lock_guard lock(mutex_);
  memory_.insert(memory);
  ++live;
  return memory;
}

void FakeBackend::release(void* memory) {
  {
    const std::lock_guard lock(mutex_);
    if (memory_.erase(memory) != 1) throw std::logic_error("the fake driver has no such memory");
  }
  std::free(memory);
  --live;
}

int FakeBackend::calls(const std::string& function) const {
  const std::lock_guard lock(mutex_);
  const auto found = calls_.find(function);
  return found == calls_.end() ? 0 : found->second;
}

std::set<std::string> FakeBackend::called() const {
  const std::lock_guard lock(mutex_);
  std::set<std::string> names;
  for (const auto& [name, count] : calls_) names.insert(name);
  return names;
}

void FakeBackend::fail_call(const std::string& function, const Error& error, int nth) {
  const std::lock_guard lock(mutex_);
  failures_[function] = {nth, [error] { throw Error(error); }};
}

void FakeBackend::fail_call_with_bad_alloc(const std::string& function) {
  const std::lock_guard lock(mutex_);
  failures_[function] = {1, [] { throw std::bad_alloc(); }};
}

std::vector<FakeBackend::Launch> FakeBackend::launches() const {
  const std::lock_guard lock(mutex_);
  return launches_;
}

int FakeBackend::live_objects() {
  return live;
}

void FakeBackend::enter(const char* function) const {
  std::function<void()> raise;
  {
    const std::lock_guard lock(mutex_);
    ++calls_[function];
    const auto failure = failures_.find(function);
    if (failure != failures_.end() && --failure->second.countdown == 0) {
      raise = failure->second.raise;
      failures_.erase(failure);
    }
  }
  if (raise) raise();
}

GpuBackend::Native FakeBackend::create() {
  const std::lock_guard lock(mutex_);
  objects_.insert(next_);
  ++live;
  return next_++;
}

void FakeBackend::destroy(Native object) {
  const std::lock_guard lock(mutex_);
  if (objects_.erase(object) != 1) throw std::logic_error("the fake driver has no such object");
  --live;
}

void FakeBackend::submit_work(Native stream, Work work) {
  {
    const std::lock_guard lock(mutex_);
    if (!objects_.contains(stream)) throw std::logic_error("the fake driver has no such stream");
    if (const auto captured = captured_streams_.find(stream); captured != captured_streams_.end()) {
      captured->second->push_back(std::move(work));
      return;
    }
  }
  work();
}

DeviceFacts FakeBackend::do_facts() const {
  enter("facts");
  return facts_;
}
void* FakeBackend::do_service(std::string_view id) {
  enter("service");
  return id == GemmService::service_id ? service_ : nullptr;
}

// --- memory
DevicePtr FakeBackend::do_alloc(std::uint64_t bytes) {
  enter("alloc");
  return DevicePtr(reinterpret_cast<std::uintptr_t>(allocate(bytes)));
}
void FakeBackend::do_free(DevicePtr memory) {
  enter("free");
  release(host<void>(memory));
}
DevicePtr FakeBackend::do_alloc_async(std::uint64_t bytes, Native) {
  enter("alloc_async");
  return DevicePtr(reinterpret_cast<std::uintptr_t>(allocate(bytes)));
}
void FakeBackend::do_free_async(DevicePtr memory, Native) {
  enter("free_async");
  release(host<void>(memory));
}
void FakeBackend::do_fill(DevicePtr dst, std::uint32_t value, std::uint32_t width, std::uint64_t count, Native stream) {
  enter("fill");
  submit_work(stream, [=] {
    for (std::uint64_t i = 0; i < count; ++i) std::memcpy(host<char>(dst.offset(i * width)), &value, width);
  });
}
void FakeBackend::do_copy_h2d(DevicePtr dst, const void* src, std::uint64_t bytes) {
  enter("copy_h2d");
  std::memcpy(host<void>(dst), src, bytes);
}
void FakeBackend::do_copy_d2h(void* dst, DevicePtr src, std::uint64_t bytes) {
  enter("copy_d2h");
  std::memcpy(dst, host<void>(src), bytes);
}
void FakeBackend::do_copy_d2d(DevicePtr dst, DevicePtr src, std::uint64_t bytes) {
  enter("copy_d2d");
  std::memcpy(host<void>(dst), host<void>(src), bytes);
}
void FakeBackend::do_copy_h2d_async(DevicePtr dst, const void* src, std::uint64_t bytes, bool pinned, Native stream) {
  enter("copy_h2d_async");
  last_pinned_ = pinned;
  submit_work(stream, [=] { std::memcpy(host<void>(dst), src, bytes); });
}
void FakeBackend::do_copy_d2h_async(void* dst, DevicePtr src, std::uint64_t bytes, bool pinned, Native stream) {
  enter("copy_d2h_async");
  last_pinned_ = pinned;
  submit_work(stream, [=] { std::memcpy(dst, host<void>(src), bytes); });
}
void FakeBackend::do_copy_d2d_async(DevicePtr dst, DevicePtr src, std::uint64_t bytes, Native stream) {
  enter("copy_d2d_async");
  submit_work(stream, [=] { std::memcpy(host<void>(dst), host<void>(src), bytes); });
}
void FakeBackend::do_copy_2d_d2d_async(DevicePtr dst, std::uint64_t dst_pitch, DevicePtr src, std::uint64_t src_pitch,
                                       std::uint64_t width, std::uint64_t height, Native stream) {
  enter("copy_2d_d2d_async");
  submit_work(stream, [=] {
    for (std::uint64_t row = 0; row < height; ++row) {
      std::memcpy(host<void>(dst.offset(row * dst_pitch)), host<void>(src.offset(row * src_pitch)), width);
    }
  });
}
void* FakeBackend::do_alloc_pinned(std::uint64_t bytes) {
  enter("alloc_pinned");
  return allocate(bytes);
}
void FakeBackend::do_free_pinned(void* memory) {
  enter("free_pinned");
  release(memory);
}
DevicePtr FakeBackend::do_import_memory(std::uint64_t native, std::uint64_t) {
  enter("import_memory");
  ++live;
  return DevicePtr(native);
}
void FakeBackend::do_release_import(DevicePtr) {
  enter("release_import");
  --live;
}
MemoryInfo FakeBackend::do_memory_info() {
  enter("memory_info");
  return {.free = info().total_memory / 2, .total = info().total_memory, .live = 0};
}

// --- streams and events
GpuBackend::Native FakeBackend::do_create_stream() {
  enter("create_stream");
  return create();
}
void FakeBackend::do_destroy_stream(Native stream) {
  enter("destroy_stream");
  destroy(stream);
}
void FakeBackend::do_flush(Native) {
  enter("flush");
}
bool FakeBackend::do_synchronize(Native, Timeout timeout) {
  enter("synchronize");
  {
    const std::lock_guard lock(mutex_);
    last_timeout_ = timeout;
  }
  if (while_waiting_) while_waiting_();
  return !busy_ || !timeout;
}
GpuBackend::Native FakeBackend::do_create_event() {
  enter("create_event");
  return create();
}
void FakeBackend::do_destroy_event(Native event) {
  enter("destroy_event");
  destroy(event);
}
void FakeBackend::do_record(Native event, Native stream) {
  enter("record");
  const std::lock_guard lock(mutex_);
  captured_events_.erase(event);
  if (const auto captured = captured_streams_.find(stream); captured != captured_streams_.end()) {
    captured_events_[event] = captured->second;
  }
}
void FakeBackend::do_wait(Native stream, Native event) {
  enter("wait");
  const std::lock_guard lock(mutex_);
  if (const auto captured = captured_events_.find(event); captured != captured_events_.end()) {
    captured_streams_[stream] = captured->second;
  }
}
bool FakeBackend::do_wait_host(Native, Timeout timeout) {
  enter("wait_host");
  {
    const std::lock_guard lock(mutex_);
    last_timeout_ = timeout;
  }
  if (while_waiting_) while_waiting_();
  return !busy_ || !timeout;
}
bool FakeBackend::do_query(Native) {
  enter("query");
  return !busy_;
}
double FakeBackend::do_elapsed_ms(Native, Native) {
  enter("elapsed_ms");
  return 1.5;
}

// --- kernels
GpuBackend::Native FakeBackend::do_load_image(const ManifestImage&, std::span<const std::byte>) {
  enter("load_image");
  return create();
}
GpuBackend::KernelLoad FakeBackend::do_get_kernel(Native, const ImageKernel& kernel, const ContractKernel&) {
  enter("get_kernel");
  const std::lock_guard lock(mutex_);
  const Native native = next_++;
  kernels_[native] = kernel.name;
  KernelLoad load;
  load.kernel = native;
  if (const auto found = stated.find(kernel.name); found != stated.end()) {
    load.max_threads = found->second.max_threads;
    load.static_shared_bytes = found->second.static_shared_bytes;
    for (const auto& [offset, size] : found->second.arguments) load.arguments.push_back({offset, size});
  }
  return load;
}
void FakeBackend::do_unload_image(Native module) {
  enter("unload_image");
  destroy(module);
}
void FakeBackend::do_prepare(Native, Dim3, std::uint32_t) {
  enter("prepare");
}
void FakeBackend::do_launch(Native kernel, const LaunchRecord& record, Native stream) {
  enter("launch");
  submit_work(stream, [this, kernel, record, stream] {
    const std::lock_guard lock(mutex_);
    launches_.push_back({kernels_.at(kernel), record, stream});
  });
}

// --- graphs
void FakeBackend::do_begin_capture(Native stream) {
  enter("begin_capture");
  const std::lock_guard lock(mutex_);
  captured_streams_[stream] = std::make_shared<std::vector<Work>>();
}
GpuBackend::Native FakeBackend::do_end_capture(Native stream) {
  enter("end_capture");
  Recording recording;
  {
    const std::lock_guard lock(mutex_);
    recording = captured_streams_.at(stream);
    std::erase_if(captured_streams_, [&](const auto& entry) { return entry.second == recording; });
  }
  const Native graph = create();
  const std::lock_guard lock(mutex_);
  graphs_[graph] = *recording;
  return graph;
}
void FakeBackend::do_abort_capture(Native stream) {
  enter("abort_capture");
  const std::lock_guard lock(mutex_);
  const auto found = captured_streams_.find(stream);
  if (found == captured_streams_.end()) return;
  const Recording recording = found->second;
  std::erase_if(captured_streams_, [&](const auto& entry) { return entry.second == recording; });
}
void FakeBackend::do_launch_graph(Native graph, Native) {
  enter("launch_graph");
  std::vector<Work> work;
  {
    const std::lock_guard lock(mutex_);
    work = graphs_.at(graph);
  }
  for (const Work& step : work) step();
}
void FakeBackend::do_destroy_graph(Native graph) {
  enter("destroy_graph");
  destroy(graph);
}

}  // namespace kdart::test
