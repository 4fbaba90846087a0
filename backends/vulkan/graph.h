// Graphs: command buffers that are submitted again.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/vulkan/kernels.h"
#include "backends/vulkan/memory.h"
#include "backends/vulkan/recorder.h"

namespace kdart::vulkan {

// A recorded command buffer with all that it refers to. The operations of all captured streams stand in it in the order in
// which they were captured, each after all before it; that order satisfies every event among them. Immutable once
// finished; any number of submissions may be pending.
class VulkanGraph {
 public:
  VulkanGraph(const LogicalDevice& device, const BytePipelines& pipelines);
  ~VulkanGraph();
  VulkanGraph(const VulkanGraph&) = delete;
  VulkanGraph& operator=(const VulkanGraph&) = delete;

  [[nodiscard]] VkCommandBuffer commands() const noexcept { return commands_; }
  [[nodiscard]] Recorder& recorder() noexcept { return recorder_; }
  void finish() { recorder_.end(); }

  // Memory of the graph's own for one argument block; its device address.
  [[nodiscard]] std::uint64_t keep_arguments(std::span<const std::byte> arguments);
  void keep_module(std::shared_ptr<VulkanModule> module);

 private:
  const LogicalDevice* device_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
  Recorder recorder_;
  std::vector<MemoryBuffer> arguments_;
  std::uint64_t arguments_used_ = 0;  // of the last
  std::vector<std::shared_ptr<VulkanModule>> modules_;
};

// A capture in progress, shared by the streams in it and the events recorded in it (core/runtime/native_objects.h).
class Capture {
 public:
  explicit Capture(std::shared_ptr<VulkanGraph> graph) : graph_(std::move(graph)) {}

  [[nodiscard]] bool open() const noexcept { return open_.load(std::memory_order_acquire); }
  [[nodiscard]] VulkanGraph& graph() noexcept { return *graph_; }
  // Ends the capture and gives what it holds. Throws Error.
  [[nodiscard]] std::shared_ptr<const VulkanGraph> finish();
  void abort() noexcept;

 private:
  std::atomic<bool> open_{true};
  std::shared_ptr<VulkanGraph> graph_;
};

}  // namespace kdart::vulkan
