#include "tests/unit/vulkan/own_device.h"

#include <catch2/catch_test_macros.hpp>
#include <utility>

#include "backends/vulkan/errors.h"
#include "backends/vulkan/features.h"

namespace kdart::test {

using vulkan::check_vk;

std::vector<std::string> needed_features() {
  return {"bufferDeviceAddress", "shaderInt64", "storageBuffer16BitAccess", "timelineSemaphore"};
}

OwnDevice::OwnDevice(std::vector<std::string> features) : features_(std::move(features)) {
  const vulkan::FeatureChain chain(features_);
  const float priority = 1;
  VkDeviceQueueCreateInfo queue{};
  queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
  queue.queueFamilyIndex = queue_family();
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  VkDeviceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  info.pNext = &chain.head();
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  const vulkan::InstanceFunctions& instance = found_.instance->functions();
  check_vk(instance.vkCreateDevice(found_.listed.handle, &info, nullptr, &device_), "making the test's own device");
  functions_ = vulkan::load_device_functions(instance.vkGetDeviceProcAddr, device_);
  functions_.vkGetDeviceQueue(device_, queue_family(), 0, &queue_);
}

OwnDevice::~OwnDevice() {
  functions_.vkDestroyDevice(device_, nullptr);
}

VulkanDevice OwnDevice::description() const {
  VulkanDevice description;
  description.get_instance_proc_addr = reinterpret_cast<decltype(description.get_instance_proc_addr)>(
      found_.instance->library().functions().vkGetInstanceProcAddr);
  description.instance = found_.instance->get();
  description.physical_device = found_.listed.handle;
  description.device = device_;
  description.api_version = found_.instance->api_version();
  description.queue = queue_;
  description.queue_family = queue_family();
  description.features = features_;
  return description;
}

OwnDevice::Memory OwnDevice::make_memory(std::uint64_t bytes) const {
  Memory result;
  VkBufferCreateInfo buffer{};
  buffer.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  buffer.size = bytes;
  buffer.usage = VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
  check_vk(functions_.vkCreateBuffer(device_, &buffer, nullptr, &result.buffer), "making the test's own buffer");
  VkMemoryRequirements needed{};
  functions_.vkGetBufferMemoryRequirements(device_, result.buffer, &needed);
  VkMemoryAllocateFlagsInfo flags{};
  flags.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO;
  flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
  VkMemoryAllocateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
  info.pNext = &flags;
  info.allocationSize = needed.size;
  info.memoryTypeIndex = found_.listed.plan.upload_types.front();
  REQUIRE((needed.memoryTypeBits >> info.memoryTypeIndex & 1U) == 1);
  check_vk(functions_.vkAllocateMemory(device_, &info, nullptr, &result.memory), "allocating the test's own memory");
  check_vk(functions_.vkBindBufferMemory(device_, result.buffer, result.memory, 0), "binding the test's own buffer");
  VkBufferDeviceAddressInfo address{};
  address.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO;
  address.buffer = result.buffer;
  result.address = functions_.vkGetBufferDeviceAddress(device_, &address);
  void* data = nullptr;
  check_vk(functions_.vkMapMemory(device_, result.memory, 0, VK_WHOLE_SIZE, 0, &data), "mapping the test's own memory");
  result.data = static_cast<std::byte*>(data);
  return result;
}

void OwnDevice::release(const Memory& memory) const {
  functions_.vkDestroyBuffer(device_, memory.buffer, nullptr);
  functions_.vkFreeMemory(device_, memory.memory, nullptr);
}

void OwnDevice::fill(const Memory& memory, std::uint32_t word) const {
  const auto fill_buffer = reinterpret_cast<PFN_vkCmdFillBuffer>(
      found_.instance->functions().vkGetDeviceProcAddr(device_, "vkCmdFillBuffer"));
  VkCommandPoolCreateInfo pool_info{};
  pool_info.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  pool_info.queueFamilyIndex = queue_family();
  VkCommandPool pool = VK_NULL_HANDLE;
  check_vk(functions_.vkCreateCommandPool(device_, &pool_info, nullptr, &pool), "making the test's own pool");
  VkCommandBufferAllocateInfo buffer_info{};
  buffer_info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
  buffer_info.commandPool = pool;
  buffer_info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  buffer_info.commandBufferCount = 1;
  VkCommandBuffer commands = VK_NULL_HANDLE;
  check_vk(functions_.vkAllocateCommandBuffers(device_, &buffer_info, &commands), "making the test's own commands");
  VkCommandBufferBeginInfo begin{};
  begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  check_vk(functions_.vkBeginCommandBuffer(commands, &begin), "beginning the test's own commands");
  fill_buffer(commands, memory.buffer, 0, VK_WHOLE_SIZE, word);
  VkMemoryBarrier barrier{};
  barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
  barrier.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
  functions_.vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier,
                                  0, nullptr, 0, nullptr);
  check_vk(functions_.vkEndCommandBuffer(commands), "ending the test's own commands");
  VkSubmitInfo submit{};
  submit.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  submit.commandBufferCount = 1;
  submit.pCommandBuffers = &commands;
  check_vk(functions_.vkQueueSubmit(queue_, 1, &submit, VK_NULL_HANDLE), "submitting the test's own commands");
  check_vk(functions_.vkQueueWaitIdle(queue_), "waiting for the test's own commands");
  functions_.vkDestroyCommandPool(device_, pool, nullptr);
}

}  // namespace kdart::test
