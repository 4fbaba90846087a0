// What the test and the fake Vulkan loader library share: how it is to behave, and what it was asked.
#pragma once

#include <array>
#include <cstdint>

#ifndef VK_NO_PROTOTYPES
#define VK_NO_PROTOTYPES
#endif
#include <vulkan/vulkan.h>

namespace kdart::test {

struct FakeLoader {
  // behaviour
  std::uint32_t version = VK_API_VERSION_1_3;  // 0: a loader without vkEnumerateInstanceVersion
  VkResult create_result = VK_SUCCESS;
  const char* absent = "";                    // a function that it does not give; "*": it gives none
  bool has_portability = true;                // VK_KHR_portability_enumeration
  bool has_checks_layer = true;               // VK_LAYER_KHRONOS_validation
  bool layer_has_features = true;             // its VK_EXT_validation_features
  const char* message_at_creation = nullptr;  // to the messenger that stands in VkInstanceCreateInfo

  // record
  int live_instances = 0, live_messengers = 0;
  std::uint32_t asked_version = 0;
  VkInstanceCreateFlags flags = 0;
  std::array<char[VK_MAX_EXTENSION_NAME_SIZE], 4> layers{}, extensions{};
  std::uint32_t layer_count = 0, extension_count = 0;
  std::array<VkValidationFeatureEnableEXT, 4> checks{};
  std::uint32_t check_count = 0;
  VkDebugUtilsMessageSeverityFlagsEXT severities = 0;
  PFN_vkDebugUtilsMessengerCallbackEXT callback = nullptr;  // of the living messenger
  void* user = nullptr;
};

// The exported symbol of the library.
inline constexpr const char* fake_loader_symbol = "kdart_fake_loader";

}  // namespace kdart::test
