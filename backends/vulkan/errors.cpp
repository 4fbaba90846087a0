#include "backends/vulkan/errors.h"

#include "core/runtime/format.h"

namespace kdart::vulkan {

std::string result_name(VkResult result) {
  switch (result) {
#define KDART_VK_RESULT(name) \
  case name:                  \
    return #name;
    KDART_VK_RESULT(VK_SUCCESS)
    KDART_VK_RESULT(VK_NOT_READY)
    KDART_VK_RESULT(VK_TIMEOUT)
    KDART_VK_RESULT(VK_INCOMPLETE)
    KDART_VK_RESULT(VK_ERROR_OUT_OF_HOST_MEMORY)
    KDART_VK_RESULT(VK_ERROR_OUT_OF_DEVICE_MEMORY)
    KDART_VK_RESULT(VK_ERROR_INITIALIZATION_FAILED)
    KDART_VK_RESULT(VK_ERROR_DEVICE_LOST)
    KDART_VK_RESULT(VK_ERROR_MEMORY_MAP_FAILED)
    KDART_VK_RESULT(VK_ERROR_LAYER_NOT_PRESENT)
    KDART_VK_RESULT(VK_ERROR_EXTENSION_NOT_PRESENT)
    KDART_VK_RESULT(VK_ERROR_FEATURE_NOT_PRESENT)
    KDART_VK_RESULT(VK_ERROR_INCOMPATIBLE_DRIVER)
    KDART_VK_RESULT(VK_ERROR_TOO_MANY_OBJECTS)
    KDART_VK_RESULT(VK_ERROR_FRAGMENTED_POOL)
    KDART_VK_RESULT(VK_ERROR_UNKNOWN)
    KDART_VK_RESULT(VK_ERROR_OUT_OF_POOL_MEMORY)
    KDART_VK_RESULT(VK_ERROR_INVALID_EXTERNAL_HANDLE)
    KDART_VK_RESULT(VK_ERROR_FRAGMENTATION)
    KDART_VK_RESULT(VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS)
    KDART_VK_RESULT(VK_ERROR_NOT_PERMITTED_KHR)
#undef KDART_VK_RESULT
    default:
      return detail::format("VkResult {}", static_cast<int>(result));
  }
}

ErrorCode code_of(VkResult result) noexcept {
  switch (result) {
    case VK_ERROR_OUT_OF_HOST_MEMORY:
      return ErrorCode::out_of_host_memory;
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_TOO_MANY_OBJECTS:  // allocations are objects, and there are only so many
    case VK_ERROR_OUT_OF_POOL_MEMORY:
    case VK_ERROR_FRAGMENTATION:
    case VK_ERROR_MEMORY_MAP_FAILED:
      return ErrorCode::out_of_device_memory;
    case VK_ERROR_DEVICE_LOST:
      return ErrorCode::device_lost;
    case VK_ERROR_INCOMPATIBLE_DRIVER:
      return ErrorCode::driver_missing;
    case VK_ERROR_EXTENSION_NOT_PRESENT:
    case VK_ERROR_FEATURE_NOT_PRESENT:
    case VK_ERROR_LAYER_NOT_PRESENT:
      return ErrorCode::unsupported;
    case VK_TIMEOUT:
      return ErrorCode::timeout;
    default:
      return ErrorCode::driver_error;
  }
}

Error vk_error(VkResult result, std::string_view doing) {
  const std::string name = result_name(result);
  const std::string text = result == VK_ERROR_DEVICE_LOST
                               ? detail::format(
                                     "{}: the device is lost ({}): a kernel ran wild or too long, or the "
                                     "driver reset the device; open it anew",
                                     doing, name)
                               : detail::format("{}: the driver answered {}", doing, name);
  return Error(code_of(result), text, static_cast<int>(result), name);
}

void fail_vk(VkResult result, std::string_view doing) {
  throw vk_error(result, doing);
}

}  // namespace kdart::vulkan
