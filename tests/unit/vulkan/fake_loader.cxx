// A library that looks like Vulkan's loader and does what fake_loader.h says. Its suffix keeps it out of the test program,
// which takes every *.cpp.
#include "tests/unit/vulkan/fake_loader.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#define KDART_FAKE_EXPORT extern "C" __attribute__((visibility("default")))

using kdart::test::FakeLoader;

KDART_FAKE_EXPORT FakeLoader kdart_fake_loader;
FakeLoader kdart_fake_loader;

namespace {

VkInstance the_instance() {
  return reinterpret_cast<VkInstance>(&kdart_fake_loader);
}

VkResult VKAPI_CALL enumerate_version(std::uint32_t* version) {
  *version = kdart_fake_loader.version;
  return VK_SUCCESS;
}

// One item or none.
template <class Item, class Fill>
VkResult give(bool there, std::uint32_t* count, Item* items, const Fill& fill) {
  if (items != nullptr && there && *count > 0) fill(items[0]);
  *count = there ? 1 : 0;
  return VK_SUCCESS;
}

VkResult VKAPI_CALL enumerate_extensions(const char* layer, std::uint32_t* count, VkExtensionProperties* items) {
  const bool there = layer == nullptr ? kdart_fake_loader.has_portability : kdart_fake_loader.layer_has_features;
  return give(there, count, items, [&](VkExtensionProperties& item) {
    std::strcpy(item.extensionName, layer == nullptr ? VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME
                                                     : VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME);
  });
}

VkResult VKAPI_CALL enumerate_layers(std::uint32_t* count, VkLayerProperties* items) {
  return give(kdart_fake_loader.has_checks_layer, count, items,
              [](VkLayerProperties& item) { std::strcpy(item.layerName, "VK_LAYER_KHRONOS_validation"); });
}

void record_chain(const void* first) {
  for (const auto* next = static_cast<const VkBaseInStructure*>(first); next != nullptr; next = next->pNext) {
    if (next->sType == VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT) {
      const auto& features = *reinterpret_cast<const VkValidationFeaturesEXT*>(next);
      kdart_fake_loader.check_count = features.enabledValidationFeatureCount;
      std::copy_n(features.pEnabledValidationFeatures, features.enabledValidationFeatureCount,
                  kdart_fake_loader.checks.begin());
    }
    if (next->sType == VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT) {
      const auto& messenger = *reinterpret_cast<const VkDebugUtilsMessengerCreateInfoEXT*>(next);
      kdart_fake_loader.severities = messenger.messageSeverity;
      if (kdart_fake_loader.message_at_creation == nullptr) continue;
      VkDebugUtilsMessengerCallbackDataEXT data{};
      data.pMessage = kdart_fake_loader.message_at_creation;
      messenger.pfnUserCallback(VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT,
                                VK_DEBUG_UTILS_MESSAGE_TYPE_GENERAL_BIT_EXT, &data, messenger.pUserData);
    }
  }
}

VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo* info, const VkAllocationCallbacks*, VkInstance* out) {
  FakeLoader& loader = kdart_fake_loader;
  loader.asked_version = info->pApplicationInfo->apiVersion;
  loader.flags = info->flags;
  loader.layer_count = info->enabledLayerCount;
  loader.extension_count = info->enabledExtensionCount;
  for (std::uint32_t i = 0; i < info->enabledLayerCount; ++i)
    std::strcpy(loader.layers[i], info->ppEnabledLayerNames[i]);
  for (std::uint32_t i = 0; i < info->enabledExtensionCount; ++i)
    std::strcpy(loader.extensions[i], info->ppEnabledExtensionNames[i]);
  loader.check_count = 0;
  loader.severities = 0;
  record_chain(info->pNext);
  if (loader.create_result != VK_SUCCESS) return loader.create_result;
  ++loader.live_instances;
  *out = the_instance();
  return VK_SUCCESS;
}

void VKAPI_CALL destroy_instance(VkInstance, const VkAllocationCallbacks*) {
  --kdart_fake_loader.live_instances;
}

VkResult VKAPI_CALL create_messenger(VkInstance, const VkDebugUtilsMessengerCreateInfoEXT* info,
                                     const VkAllocationCallbacks*, VkDebugUtilsMessengerEXT* out) {
  ++kdart_fake_loader.live_messengers;
  kdart_fake_loader.callback = info->pfnUserCallback;
  kdart_fake_loader.user = info->pUserData;
  std::memset(out, 1, sizeof *out);  // any handle but null
  return VK_SUCCESS;
}

void VKAPI_CALL destroy_messenger(VkInstance, VkDebugUtilsMessengerEXT, const VkAllocationCallbacks*) {
  --kdart_fake_loader.live_messengers;
  kdart_fake_loader.callback = nullptr;
}

void VKAPI_CALL never_called() {}

template <class Function>
PFN_vkVoidFunction as_void(Function function) {
  return reinterpret_cast<PFN_vkVoidFunction>(function);
}

PFN_vkVoidFunction global_function(std::string_view name) {
  if (name == "vkCreateInstance") return as_void(create_instance);
  if (name == "vkEnumerateInstanceVersion")
    return kdart_fake_loader.version == 0 ? nullptr : as_void(enumerate_version);
  if (name == "vkEnumerateInstanceExtensionProperties") return as_void(enumerate_extensions);
  if (name == "vkEnumerateInstanceLayerProperties") return as_void(enumerate_layers);
  return nullptr;
}

}  // namespace

KDART_FAKE_EXPORT PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance, const char* name);
PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance, const char* name) {
  const std::string_view absent = kdart_fake_loader.absent;
  if (absent == "*" || absent == name) return nullptr;
  if (instance == VK_NULL_HANDLE) return global_function(name);
  const std::string_view wanted = name;
  if (wanted == "vkDestroyInstance") return as_void(destroy_instance);
  if (wanted == "vkCreateDebugUtilsMessengerEXT") return as_void(create_messenger);
  if (wanted == "vkDestroyDebugUtilsMessengerEXT") return as_void(destroy_messenger);
  return never_called;
}
