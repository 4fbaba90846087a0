#include "backends/vulkan/graph.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/vulkan/device.h"
#include "backends/vulkan/driver_life.h"
#include "backends/vulkan/errors.h"

namespace kdart::vulkan {
namespace {

constexpr std::uint64_t argument_memory_bytes = std::uint64_t{64} << 10;
constexpr std::uint64_t argument_alignment = 16;

}  // namespace

VulkanGraph::VulkanGraph(const LogicalDevice& device, const BytePipelines& pipelines)
    : device_(&device), recorder_(device.fn(), device.pipeline_layout(), pipelines) {
  const Commands commands = device.make_commands(0);
  pool_ = commands.pool;
  commands_ = commands.buffer;
  try {
    recorder_.begin(commands_, VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT);
  } catch (...) {
    device.fn().vkDestroyCommandPool(device.get(), pool_, nullptr);
    throw;
  }
}

VulkanGraph::~VulkanGraph() {
  device_->fn().vkDestroyCommandPool(device_->get(), pool_, nullptr);
}

std::uint64_t VulkanGraph::keep_arguments(std::span<const std::byte> arguments) {
  if (arguments_.empty() || arguments_used_ + arguments.size() > argument_memory_bytes) {
    arguments_.emplace_back(*device_, argument_memory_bytes, device_->plan().upload_types, true);
    arguments_used_ = 0;
  }
  const MemoryBuffer& memory = arguments_.back();
  const std::uint64_t offset = arguments_used_;
  std::memcpy(memory.data() + offset, arguments.data(), arguments.size());
  arguments_used_ = (offset + arguments.size() + argument_alignment - 1) / argument_alignment * argument_alignment;
  return memory.address() + offset;
}

void VulkanGraph::keep_module(std::shared_ptr<VulkanModule> module) {
  if (std::find(modules_.begin(), modules_.end(), module) == modules_.end()) modules_.push_back(std::move(module));
}

std::shared_ptr<const VulkanGraph> Capture::finish() {
  open_.store(false, std::memory_order_release);
  std::shared_ptr<VulkanGraph> graph = std::exchange(graph_, nullptr);
  graph->finish();
  return graph;
}

void Capture::abort() noexcept {
  open_.store(false, std::memory_order_release);
  graph_.reset();
}

// --- the backend's graph group ----------------------------------------------------------------------------------------

void VulkanBackend::do_begin_capture(Native stream) {
  stream_of(stream).capture =
      std::make_shared<Capture>(std::make_shared<VulkanGraph>(parts_->device, parts_->pipelines));
}

GpuBackend::Native VulkanBackend::do_end_capture(Native stream) {
  const std::shared_ptr<Capture> capture = std::exchange(stream_of(stream).capture, nullptr);
  return parts_->graphs.insert(capture->finish());
}

void VulkanBackend::do_abort_capture(Native stream) {
  const std::shared_ptr<Capture> capture = std::exchange(stream_of(stream).capture, nullptr);
  if (capture != nullptr) capture->abort();
}

void VulkanBackend::do_launch_graph(Native graph, Native stream) {
  stream_of(stream).launch_graph(parts_->graphs.get(graph));
}

// A launch that is still pending keeps the graph until it has passed.
void VulkanBackend::do_destroy_graph(Native graph) {
  if (driver_is_gone()) return;
  parts_->graphs.remove(graph);
}

}  // namespace kdart::vulkan
