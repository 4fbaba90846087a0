// A VkDevice with its queues: made from a plan, or the caller's own.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/vulkan/loader.h"
#include "backends/vulkan/plan.h"
#include "kdart/backend.h"
#include "kdart/vulkan.h"

namespace kdart::vulkan {

// One queue and the lock that every use of it takes.
class Queue {
 public:
  Queue(VkQueue queue, std::function<void()> lock, std::function<void()> unlock)
      : queue_(queue), lock_(std::move(lock)), unlock_(std::move(unlock)) {}

  // Throws Error. Any thread.
  void submit(const DeviceFunctions& functions, const VkSubmitInfo& info);

 private:
  VkQueue queue_;
  std::mutex mutex_;
  std::function<void()> lock_, unlock_;  // the caller's, when the queue is shared with it
};

// A command buffer and the pool that is its own.
struct Commands {
  VkCommandPool pool = VK_NULL_HANDLE;
  VkCommandBuffer buffer = VK_NULL_HANDLE;
};

class LogicalDevice {
 public:
  // Makes a device. Throws Error: what the driver answers, driver_too_old for a missing entry point.
  LogicalDevice(std::shared_ptr<const Instance> instance, VkPhysicalDevice physical, PhysicalDeviceFacts facts,
                DevicePlan plan);
  // Uses the caller's.
  LogicalDevice(const VulkanDevice& adopted, PhysicalDeviceFacts facts, DevicePlan plan);
  // Waits for nothing: whoever submitted has waited.
  ~LogicalDevice();
  LogicalDevice(const LogicalDevice&) = delete;
  LogicalDevice& operator=(const LogicalDevice&) = delete;

  [[nodiscard]] VkDevice get() const noexcept { return device_; }
  [[nodiscard]] VkPhysicalDevice physical() const noexcept { return physical_; }
  [[nodiscard]] const DeviceFunctions& fn() const noexcept { return functions_; }
  [[nodiscard]] const InstanceFunctions& instance_functions() const noexcept { return instance_functions_; }
  [[nodiscard]] const PhysicalDeviceFacts& facts() const noexcept { return facts_; }
  [[nodiscard]] const DevicePlan& plan() const noexcept { return plan_; }
  // Queues in turn, so that streams spread over them. Any thread.
  [[nodiscard]] Queue& next_queue() const noexcept;

  // Free and total bytes of the heap that allocations come from. Where the driver has no VK_EXT_memory_budget, free is what
  // `reserved` bytes of our own leave. Any thread.
  [[nodiscard]] MemoryInfo memory_info(std::uint64_t reserved) const;

  // For the plan's queues; the caller destroys the pool. Throws Error. Any thread.
  [[nodiscard]] Commands make_commands(VkCommandPoolCreateFlags flags) const;

  // One layout for every pipeline: push constants, no descriptors.
  [[nodiscard]] VkPipelineLayout pipeline_layout() const noexcept { return layout_; }

 private:
  void make_layout();

  std::shared_ptr<const Instance> instance_;  // null when adopted
  VkPhysicalDevice physical_ = VK_NULL_HANDLE;
  InstanceFunctions instance_functions_;
  PhysicalDeviceFacts facts_;
  DevicePlan plan_;
  VkDevice device_ = VK_NULL_HANDLE;
  DeviceFunctions functions_;
  std::vector<std::unique_ptr<Queue>> queues_;
  mutable std::atomic<std::uint32_t> next_{0};
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
};

}  // namespace kdart::vulkan
