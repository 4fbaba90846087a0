// Vulkan's entry points as this backend's own table, from one list. No global vk* symbol is defined or used, so an engine
// that links libvulkan, or a loader of its own, is not disturbed.
#pragma once

#ifndef VK_NO_PROTOTYPES
#define VK_NO_PROTOTYPES
#endif
#include <vulkan/vulkan.h>

// clang-format off
#define KDART_VK_GLOBAL_FUNCTIONS(F)        \
  F(vkCreateInstance)                       \
  F(vkEnumerateInstanceVersion)             \
  F(vkEnumerateInstanceExtensionProperties) \
  F(vkEnumerateInstanceLayerProperties)

#define KDART_VK_INSTANCE_FUNCTIONS(F)      \
  F(vkDestroyInstance)                      \
  F(vkEnumeratePhysicalDevices)             \
  F(vkGetPhysicalDeviceProperties)          \
  F(vkGetPhysicalDeviceProperties2)         \
  F(vkGetPhysicalDeviceFeatures2)           \
  F(vkGetPhysicalDeviceQueueFamilyProperties) \
  F(vkGetPhysicalDeviceMemoryProperties2)   \
  F(vkEnumerateDeviceExtensionProperties)   \
  F(vkCreateDevice)                         \
  F(vkGetDeviceProcAddr)

// Null where the instance has no VK_EXT_debug_utils.
#define KDART_VK_OPTIONAL_INSTANCE_FUNCTIONS(F) \
  F(vkCreateDebugUtilsMessengerEXT)         \
  F(vkDestroyDebugUtilsMessengerEXT)

#define KDART_VK_DEVICE_FUNCTIONS(F)        \
  F(vkDestroyDevice)                        \
  F(vkGetDeviceQueue)                       \
  F(vkQueueSubmit)                          \
  F(vkQueueWaitIdle)                        \
  F(vkAllocateMemory)                       \
  F(vkFreeMemory)                           \
  F(vkMapMemory)                            \
  F(vkUnmapMemory)                          \
  F(vkInvalidateMappedMemoryRanges)         \
  F(vkCreateBuffer)                         \
  F(vkDestroyBuffer)                        \
  F(vkGetBufferMemoryRequirements)          \
  F(vkBindBufferMemory)                     \
  F(vkGetBufferDeviceAddress)               \
  F(vkCreateSemaphore)                      \
  F(vkDestroySemaphore)                     \
  F(vkWaitSemaphores)                       \
  F(vkGetSemaphoreCounterValue)             \
  F(vkCreateCommandPool)                    \
  F(vkDestroyCommandPool)                   \
  F(vkResetCommandPool)                     \
  F(vkAllocateCommandBuffers)               \
  F(vkBeginCommandBuffer)                   \
  F(vkEndCommandBuffer)                     \
  F(vkCreateQueryPool)                      \
  F(vkDestroyQueryPool)                     \
  F(vkGetQueryPoolResults)                  \
  F(vkCreateShaderModule)                   \
  F(vkDestroyShaderModule)                  \
  F(vkCreatePipelineLayout)                 \
  F(vkDestroyPipelineLayout)                \
  F(vkCreateComputePipelines)               \
  F(vkDestroyPipeline)                      \
  F(vkCreatePipelineCache)                  \
  F(vkDestroyPipelineCache)                 \
  F(vkGetPipelineCacheData)                 \
  F(vkMergePipelineCaches)                  \
  F(vkCmdBindPipeline)                      \
  F(vkCmdPushConstants)                     \
  F(vkCmdDispatch)                          \
  F(vkCmdCopyBuffer)                        \
  F(vkCmdPipelineBarrier)                   \
  F(vkCmdResetQueryPool)                    \
  F(vkCmdWriteTimestamp)
// clang-format on

namespace kdart::vulkan {

#define KDART_VK_FIELD(name) PFN_##name name = nullptr;

struct GlobalFunctions {
  PFN_vkGetInstanceProcAddr vkGetInstanceProcAddr = nullptr;
  KDART_VK_GLOBAL_FUNCTIONS(KDART_VK_FIELD)
};

struct InstanceFunctions {
  KDART_VK_INSTANCE_FUNCTIONS(KDART_VK_FIELD)
  KDART_VK_OPTIONAL_INSTANCE_FUNCTIONS(KDART_VK_FIELD)
};

struct DeviceFunctions {
  KDART_VK_DEVICE_FUNCTIONS(KDART_VK_FIELD)
};

#undef KDART_VK_FIELD

}  // namespace kdart::vulkan
