// The driver's result codes as kdart errors.
#pragma once

#include <string>
#include <string_view>

#include "backends/vulkan/functions.h"
#include "kdart/error.h"

namespace kdart::vulkan {

// "VK_ERROR_DEVICE_LOST"; "VkResult" and the number for one that this build does not know.
[[nodiscard]] std::string result_name(VkResult result);
// What a result means to a caller. A code that is not known is driver_error, kept by its number.
[[nodiscard]] ErrorCode code_of(VkResult result) noexcept;
[[nodiscard]] Error vk_error(VkResult result, std::string_view doing);
[[noreturn]] void fail_vk(VkResult result, std::string_view doing);
// Throws for any result but VK_SUCCESS.
inline void check_vk(VkResult result, std::string_view doing) {
  if (result != VK_SUCCESS) fail_vk(result, doing);
}

}  // namespace kdart::vulkan
