#include "backends/vulkan/device.h"

#include <cstring>

#include "backends/vulkan/driver_life.h"
#include "backends/vulkan/errors.h"
#include "core/runtime/abandon.h"
#include "core/runtime/fail.h"

namespace kdart::vulkan {
namespace {

const DevicePlan& require_usable(const DeviceInfo& info, const DevicePlan& plan) {
  if (!plan.missing.empty()) {
    detail::fail(ErrorCode::unsupported, "{} ({}) cannot be used: it lacks {}", info.id, info.name,
                 fmt::join(plan.missing, ", "));
  }
  return plan;
}

}  // namespace

VulkanBackend::VulkanBackend(std::shared_ptr<const Instance> instance, const ListedDevice& listed,
                             const OpenOptions& options)
    : GpuBackend(listed.plan.info, options),
      parts_(std::make_unique<Parts>(options.dedicated_buffers, std::move(instance), listed.handle, listed.facts,
                                     require_usable(listed.plan.info, listed.plan))) {
  parts_->copies = std::make_unique<VulkanStream>(parts_->stream_device);
  note_driver_in_use(parts_->device.facts().driver_id);
}

VulkanBackend::VulkanBackend(const VulkanDevice& adopted, const PhysicalDeviceFacts& facts, const DevicePlan& plan,
                             const OpenOptions& options)
    : GpuBackend(plan.info, options),
      parts_(std::make_unique<Parts>(options.dedicated_buffers, adopted, facts, require_usable(plan.info, plan))) {
  parts_->copies = std::make_unique<VulkanStream>(parts_->stream_device);
  note_driver_in_use(parts_->device.facts().driver_id);
}

VulkanBackend::~VulkanBackend() {
  if (!driver_is_gone()) shut_down();
  if (forked() || driver_is_gone()) detail::abandon(parts_.release());
}

DeviceFacts VulkanBackend::do_facts() const {
  return parts_->device.plan().facts;
}

void* VulkanBackend::do_service(std::string_view id) {
  return id == PipelineCache::service_id ? static_cast<PipelineCache*>(&parts_->cache) : nullptr;
}

void VulkanBackend::wait_for_all() {
  for (const auto& stream : parts_->streams.all()) static_cast<void>(stream->synchronize(std::nullopt));
}

// --- memory -----------------------------------------------------------------------------------------------------------

DevicePtr VulkanBackend::do_alloc(std::uint64_t bytes) {
  try {
    return parts_->memory.allocate(bytes);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::out_of_device_memory) throw;
    for (const auto& stream : parts_->streams.all())
      stream->poll();  // what free_async gave may have been passed by now
    return parts_->memory.allocate(bytes);
  }
}

void VulkanBackend::do_free(DevicePtr memory) {
  if (driver_is_gone()) return;
  wait_for_all();
  parts_->memory.release(memory);
}

DevicePtr VulkanBackend::do_alloc_async(std::uint64_t bytes, Native) {
  return do_alloc(bytes);
}

void VulkanBackend::do_free_async(DevicePtr memory, Native stream) {
  if (driver_is_gone()) return;
  stream_of(stream).release_later(memory);
}

CopySide VulkanBackend::side(DevicePtr memory) const {
  return {memory, parts_->memory.find(memory)};
}

void VulkanBackend::do_fill(DevicePtr dst, std::uint32_t value, std::uint32_t width, std::uint64_t count,
                            Native stream) {
  operate(stream_of(stream), [&](Recorder& recorder) { recorder.fill(dst, value, width, count); });
}

void VulkanBackend::do_copy_h2d(DevicePtr dst, const void* src, std::uint64_t bytes) {
  const std::lock_guard lock(parts_->copies_mutex);
  parts_->copies->upload(side(dst), static_cast<const std::byte*>(src), bytes);
  static_cast<void>(parts_->copies->synchronize(std::nullopt));
}

void VulkanBackend::do_copy_d2h(void* dst, DevicePtr src, std::uint64_t bytes) {
  const std::lock_guard lock(parts_->copies_mutex);
  parts_->copies->download(static_cast<std::byte*>(dst), side(src), bytes);
}

void VulkanBackend::do_copy_d2d(DevicePtr dst, DevicePtr src, std::uint64_t bytes) {
  const std::lock_guard lock(parts_->copies_mutex);
  parts_->copies->operate(
      [&](Recorder& recorder) { recorder.copy_rows(side(dst), bytes, side(src), bytes, bytes, 1); });
  static_cast<void>(parts_->copies->synchronize(std::nullopt));
}

void VulkanBackend::do_copy_h2d_async(DevicePtr dst, const void* src, std::uint64_t bytes, bool pinned, Native stream) {
  if (!pinned) {
    stream_of(stream).upload(side(dst), static_cast<const std::byte*>(src), bytes);
    return;
  }
  const CopySide source{parts_->pinned.device_address(src), parts_->pinned.find(src)};
  stream_of(stream).operate([&](Recorder& recorder) { recorder.copy(side(dst), source, bytes); });
}

// Into memory that is not page-locked there is no asynchronous way: it waits.
void VulkanBackend::do_copy_d2h_async(void* dst, DevicePtr src, std::uint64_t bytes, bool pinned, Native stream) {
  if (!pinned) {
    stream_of(stream).download(static_cast<std::byte*>(dst), side(src), bytes);
    return;
  }
  const CopySide target{parts_->pinned.device_address(dst), parts_->pinned.find(dst)};
  stream_of(stream).operate([&](Recorder& recorder) { recorder.copy(target, side(src), bytes); });
}

void VulkanBackend::do_copy_d2d_async(DevicePtr dst, DevicePtr src, std::uint64_t bytes, Native stream) {
  do_copy_2d_d2d_async(dst, bytes, src, bytes, bytes, 1, stream);
}

void VulkanBackend::do_copy_2d_d2d_async(DevicePtr dst, std::uint64_t dst_pitch, DevicePtr src, std::uint64_t src_pitch,
                                         std::uint64_t width, std::uint64_t height, Native stream) {
  operate(stream_of(stream),
          [&](Recorder& recorder) { recorder.copy_rows(side(dst), dst_pitch, side(src), src_pitch, width, height); });
}

void* VulkanBackend::do_alloc_pinned(std::uint64_t bytes) {
  return parts_->pinned.allocate(bytes);
}

void VulkanBackend::do_free_pinned(void* memory) {
  if (driver_is_gone()) return;
  wait_for_all();
  parts_->pinned.release(memory);
}

MemoryInfo VulkanBackend::do_memory_info() {
  return parts_->device.memory_info(parts_->memory.reserved_bytes());
}

// --- streams and events -----------------------------------------------------------------------------------------------

GpuBackend::Native VulkanBackend::do_create_stream() {
  auto stream = std::make_shared<VulkanStream>(parts_->stream_device);
  return parts_->streams.insert(std::move(stream));
}

void VulkanBackend::do_destroy_stream(Native stream) {
  if (driver_is_gone()) return;
  try {
    static_cast<void>(stream_of(stream).synchronize(std::nullopt));
  } catch (const Error& error) {
    if (!is_sticky(error.code())) throw;  // on a lost device nothing runs any more
  }
  parts_->streams.remove(stream);
}

void VulkanBackend::do_flush(Native stream) {
  stream_of(stream).flush();
}

bool VulkanBackend::do_synchronize(Native stream, Timeout timeout) {
  return stream_of(stream).synchronize(timeout);
}

GpuBackend::Native VulkanBackend::do_create_event() {
  return parts_->events.insert(std::make_shared<VulkanEvent>());
}

void VulkanBackend::do_destroy_event(Native event) {
  if (driver_is_gone()) return;
  parts_->events.remove(event);
}

void VulkanBackend::do_record(Native event, Native stream) {
  VulkanStream& queue = stream_of(stream);
  VulkanEvent& target = event_of(event);
  if (detail::running(queue.capture) != nullptr) {
    target.capture = queue.capture;
    return;
  }
  const auto time = parts_->device.plan().timestamps ? parts_->timestamps.take() : nullptr;
  StreamPoint point = queue.record(time);
  target.capture.reset();
  target.set({std::move(point), time});
}

void VulkanBackend::do_wait(Native stream, Native event) {
  VulkanStream& queue = stream_of(stream);
  const VulkanEvent& source = event_of(event);
  if (source.capture != nullptr && source.capture->open()) {
    queue.capture = source.capture;  // joins; the order of capture is the order in the graph
    return;
  }
  queue.wait_for(source.latest().point);
}

bool VulkanBackend::do_wait_host(Native event, Timeout timeout) {
  const StreamPoint point = event_of(event).latest().point;
  return point.timeline->wait(point.value, timeout);
}

bool VulkanBackend::do_query(Native event) {
  const StreamPoint point = event_of(event).latest().point;
  return point.timeline->passed(point.value);
}

double VulkanBackend::do_elapsed_ms(Native start, Native end) {
  const DevicePlan& plan = parts_->device.plan();
  const auto from = event_of(start).latest().time;
  const auto to = event_of(end).latest().time;
  if (from == nullptr || to == nullptr) {
    detail::fail(ErrorCode::unsupported, "elapsed_ms: the queues of {} have no timestamps", info().id);
  }
  const std::uint64_t first = parts_->timestamps.read(*from) & plan.timestamp_mask;
  const std::uint64_t last = parts_->timestamps.read(*to) & plan.timestamp_mask;
  // The counter may have begun anew in between, and the end may lie before the start.
  const std::uint64_t forward = (last - first) & plan.timestamp_mask;
  const std::uint64_t backward = (first - last) & plan.timestamp_mask;
  const double ticks = forward <= backward ? static_cast<double>(forward) : -static_cast<double>(backward);
  return ticks * plan.timestamp_period / 1e6;
}

// --- kernels ----------------------------------------------------------------------------------------------------------

GpuBackend::Native VulkanBackend::do_load_image(const ManifestImage& image, std::span<const std::byte> bytes) {
  auto module = std::make_shared<VulkanModule>(parts_->device, parts_->cache, image, bytes);
  return parts_->modules.insert(std::move(module));
}

GpuBackend::KernelLoad VulkanBackend::do_get_kernel(Native module, const ImageKernel& kernel,
                                                    const ContractKernel& contract) {
  VulkanKernel* found = detail::object_at<VulkanModule>(module)->find(kernel.symbol);
  if (found == nullptr) {
    detail::fail(ErrorCode::corrupt_image, "kernel '{}': the image has no entry point '{}'", kernel.name,
                 kernel.symbol);
  }
  if (!found->by_address() && contract.argument_bytes > push_constant_bytes) {
    detail::fail(ErrorCode::corrupt_image,
                 "kernel '{}': its {} bytes of arguments do not fit {} bytes of push constants, and its image does not "
                 "take them by address",
                 kernel.name, contract.argument_bytes, push_constant_bytes);
  }
  KernelLoad load;
  load.kernel = detail::native_of(found);
  load.static_shared_bytes = found->static_shared_bytes();
  for (const SpirvArgument& argument : found->arguments()) load.arguments.push_back({argument.offset, argument.size});
  return load;
}

void VulkanBackend::do_unload_image(Native module) {
  if (driver_is_gone()) return;
  try {
    wait_for_all();
  } catch (const Error& error) {
    if (!is_sticky(error.code())) throw;
  }
  parts_->modules.remove(module);
}

void VulkanBackend::do_prepare(Native kernel, Dim3 block, std::uint32_t shared_bytes) {
  static_cast<void>(detail::object_at<VulkanKernel>(kernel)->prepare(block, shared_bytes));
}

void VulkanBackend::do_launch(Native kernel, const LaunchRecord& record, Native stream) {
  VulkanKernel& target = *detail::object_at<VulkanKernel>(kernel);
  VulkanStream& queue = stream_of(stream);
  Capture* capture = detail::running(queue.capture);
  VkPipeline pipeline = target.find(record.block, record.shared_bytes);
  if (pipeline == VK_NULL_HANDLE) {
    if (capture != nullptr) {
      detail::fail(ErrorCode::capture_invalidated,
                   "kernel '{}' was not prepared for blocks of {} x {} x {} with {} bytes of shared memory, and a "
                   "capture compiles nothing",
                   target.name(), record.block.x, record.block.y, record.block.z, record.shared_bytes);
    }
    pipeline = target.prepare(record.block, record.shared_bytes);
  }
  // Push constants come in words; the record has room behind the last argument.
  const std::size_t pushed_bytes = (std::size_t{record.argument_bytes} + 3) / 4 * 4;
  const std::span<const std::byte> arguments(record.arguments.data(), pushed_bytes);
  const auto push = [&](Recorder& recorder, std::span<const std::byte> pushed) {
    recorder.dispatch({pipeline, record.grid, pushed});
  };
  if (capture != nullptr) {
    VulkanGraph& graph = capture->graph();
    graph.keep_module(target.module().shared_from_this());
    if (!target.by_address()) return push(graph.recorder(), arguments);
    const std::uint64_t address = graph.keep_arguments(arguments);
    return push(graph.recorder(), std::as_bytes(std::span(&address, 1)));
  }
  queue.operate([&](Recorder& recorder) {
    if (!target.by_address()) return push(recorder, arguments);
    const VulkanStream::Staged staged = queue.stage_whole(arguments.size());
    std::memcpy(staged.data, arguments.data(), arguments.size());
    push(recorder, std::as_bytes(std::span(&staged.address, 1)));
  });
}

}  // namespace kdart::vulkan
