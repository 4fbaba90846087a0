// What the driver's results mean to a caller.
#include "backends/vulkan/errors.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "tests/support/error_of.h"

namespace kdart::test {

TEST_CASE("each result of the driver has a code and a name", "[vulkan][errors]") {
  struct Row {
    VkResult result;
    ErrorCode code;
    const char* name;
  };
  const Row rows[]{
      {VK_ERROR_OUT_OF_HOST_MEMORY, ErrorCode::out_of_host_memory, "VK_ERROR_OUT_OF_HOST_MEMORY"},
      {VK_ERROR_OUT_OF_DEVICE_MEMORY, ErrorCode::out_of_device_memory, "VK_ERROR_OUT_OF_DEVICE_MEMORY"},
      {VK_ERROR_TOO_MANY_OBJECTS, ErrorCode::out_of_device_memory, "VK_ERROR_TOO_MANY_OBJECTS"},
      {VK_ERROR_OUT_OF_POOL_MEMORY, ErrorCode::out_of_device_memory, "VK_ERROR_OUT_OF_POOL_MEMORY"},
      {VK_ERROR_FRAGMENTATION, ErrorCode::out_of_device_memory, "VK_ERROR_FRAGMENTATION"},
      {VK_ERROR_MEMORY_MAP_FAILED, ErrorCode::out_of_device_memory, "VK_ERROR_MEMORY_MAP_FAILED"},
      {VK_ERROR_DEVICE_LOST, ErrorCode::device_lost, "VK_ERROR_DEVICE_LOST"},
      {VK_ERROR_INCOMPATIBLE_DRIVER, ErrorCode::driver_missing, "VK_ERROR_INCOMPATIBLE_DRIVER"},
      {VK_ERROR_EXTENSION_NOT_PRESENT, ErrorCode::unsupported, "VK_ERROR_EXTENSION_NOT_PRESENT"},
      {VK_ERROR_FEATURE_NOT_PRESENT, ErrorCode::unsupported, "VK_ERROR_FEATURE_NOT_PRESENT"},
      {VK_ERROR_LAYER_NOT_PRESENT, ErrorCode::unsupported, "VK_ERROR_LAYER_NOT_PRESENT"},
      {VK_TIMEOUT, ErrorCode::timeout, "VK_TIMEOUT"},
      {VK_ERROR_INITIALIZATION_FAILED, ErrorCode::driver_error, "VK_ERROR_INITIALIZATION_FAILED"},
      {VK_ERROR_UNKNOWN, ErrorCode::driver_error, "VK_ERROR_UNKNOWN"},
      {VK_ERROR_INVALID_EXTERNAL_HANDLE, ErrorCode::driver_error, "VK_ERROR_INVALID_EXTERNAL_HANDLE"},
      {static_cast<VkResult>(-123456), ErrorCode::driver_error, "VkResult -123456"},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    CHECK(vulkan::code_of(row.result) == row.code);
    CHECK(vulkan::result_name(row.result) == row.name);
    const Error error = error_of([&] { vulkan::check_vk(row.result, "doing something"); });
    CHECK(error.code() == row.code);
    CHECK(error.native_code() == static_cast<int>(row.result));
    CHECK(error.native_text() == row.name);
    const std::string message = error.what();
    CHECK(message.find("doing something") != std::string::npos);
    CHECK(message.find(row.name) != std::string::npos);
  }
  vulkan::check_vk(VK_SUCCESS, "doing something");
}

TEST_CASE("a lost device is sticky, and says what to do", "[vulkan][errors]") {
  CHECK(is_sticky(vulkan::code_of(VK_ERROR_DEVICE_LOST)));
  const std::string message = vulkan::vk_error(VK_ERROR_DEVICE_LOST, "submitting work").what();
  CHECK(message.find("open it anew") != std::string::npos);
}

}  // namespace kdart::test
