#include "backends/vulkan/logical_device.h"

#include <algorithm>

#include "backends/vulkan/errors.h"
#include "backends/vulkan/features.h"

namespace kdart::vulkan {
void Queue::submit(const DeviceFunctions& functions, const VkSubmitInfo& info) {
  const std::lock_guard lock(mutex_);
  if (lock_) lock_();
  const VkResult result = functions.vkQueueSubmit(queue_, 1, &info, VK_NULL_HANDLE);
  if (unlock_) unlock_();
  check_vk(result, "submitting work");
}

LogicalDevice::LogicalDevice(std::shared_ptr<const Instance> instance, VkPhysicalDevice physical,
                             PhysicalDeviceFacts facts, DevicePlan plan)
    : instance_(std::move(instance)),
      physical_(physical),
      instance_functions_(instance_->functions()),
      facts_(std::move(facts)),
      plan_(std::move(plan)) {
  const FeatureChain features(plan_.features);
  std::vector<const char*> extensions;
  for (const std::string& extension : plan_.extensions) extensions.push_back(extension.c_str());
  const std::vector<float> priorities(plan_.queue_count, 1.0F);

  VkDeviceQueueCreateInfo queues{};
  queues.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
  queues.queueFamilyIndex = plan_.queue_family;
  queues.queueCount = plan_.queue_count;
  queues.pQueuePriorities = priorities.data();
  VkDeviceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  info.pNext = &features.head();
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queues;
  info.enabledExtensionCount = static_cast<std::uint32_t>(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();
  check_vk(instance_functions_.vkCreateDevice(physical, &info, nullptr, &device_), "creating the device");
  try {
    functions_ = load_device_functions(instance_functions_.vkGetDeviceProcAddr, device_);
    for (std::uint32_t i = 0; i < plan_.queue_count; ++i) {
      VkQueue queue = VK_NULL_HANDLE;
      functions_.vkGetDeviceQueue(device_, plan_.queue_family, i, &queue);
      queues_.push_back(std::make_unique<Queue>(queue, nullptr, nullptr));
    }
    make_layout();
  } catch (...) {
    const auto destroy =
        reinterpret_cast<PFN_vkDestroyDevice>(instance_functions_.vkGetDeviceProcAddr(device_, "vkDestroyDevice"));
    if (destroy != nullptr) destroy(device_, nullptr);
    throw;
  }
}

LogicalDevice::LogicalDevice(const VulkanDevice& adopted, PhysicalDeviceFacts facts, DevicePlan plan)
    : physical_(static_cast<VkPhysicalDevice>(adopted.physical_device)),
      instance_functions_(
          load_instance_functions(reinterpret_cast<PFN_vkGetInstanceProcAddr>(adopted.get_instance_proc_addr),
                                  static_cast<VkInstance>(adopted.instance))),
      facts_(std::move(facts)),
      plan_(std::move(plan)),
      device_(static_cast<VkDevice>(adopted.device)),
      functions_(load_device_functions(instance_functions_.vkGetDeviceProcAddr, device_)) {
  queues_.push_back(
      std::make_unique<Queue>(static_cast<VkQueue>(adopted.queue), adopted.lock_queue, adopted.unlock_queue));
  make_layout();
}

MemoryInfo LogicalDevice::memory_info(std::uint64_t reserved) const {
  const std::uint32_t heap = facts_.memory_types[plan_.device_types.front()].heap;
  MemoryInfo info;
  info.total = facts_.memory_heaps[heap].bytes;
  info.free = info.total - std::min(info.total, reserved);
  const std::vector<HeapBudget> budgets = read_budgets(instance_functions_, physical_, facts_);
  if (heap < budgets.size()) info.free = budgets[heap].budget - budgets[heap].usage;
  return info;
}

Commands LogicalDevice::make_commands(VkCommandPoolCreateFlags flags) const {
  Commands commands;
  VkCommandPoolCreateInfo pool{};
  pool.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  pool.flags = flags;
  pool.queueFamilyIndex = plan_.queue_family;
  check_vk(functions_.vkCreateCommandPool(device_, &pool, nullptr, &commands.pool), "creating a command pool");
  VkCommandBufferAllocateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
  info.commandPool = commands.pool;
  info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  info.commandBufferCount = 1;
  if (const VkResult result = functions_.vkAllocateCommandBuffers(device_, &info, &commands.buffer);
      result != VK_SUCCESS) {
    functions_.vkDestroyCommandPool(device_, commands.pool, nullptr);
    fail_vk(result, "allocating a command buffer");
  }
  return commands;
}

void LogicalDevice::make_layout() {
  VkPushConstantRange range{};
  range.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT;
  range.size = push_constant_bytes;
  VkPipelineLayoutCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
  info.pushConstantRangeCount = 1;
  info.pPushConstantRanges = &range;
  check_vk(functions_.vkCreatePipelineLayout(device_, &info, nullptr, &layout_), "creating the pipeline layout");
}

LogicalDevice::~LogicalDevice() {
  if (layout_ != VK_NULL_HANDLE) functions_.vkDestroyPipelineLayout(device_, layout_, nullptr);
  if (instance_ != nullptr) functions_.vkDestroyDevice(device_, nullptr);
}

Queue& LogicalDevice::next_queue() const noexcept {
  return *queues_[next_.fetch_add(1, std::memory_order_relaxed) % queues_.size()];
}

}  // namespace kdart::vulkan
