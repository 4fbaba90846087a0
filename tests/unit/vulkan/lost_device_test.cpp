// What a driver says when it goes wrong, put in its mouth: functions that stand between the backend and the driver answer
// in its place.
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <functional>
#include <string>

#include "tests/support/error_of.h"
#include "tests/unit/vulkan/own_device.h"

namespace kdart::test {
namespace {

struct Answers {
  VkResult submit = VK_SUCCESS;  // other than success: instead of submitting
  VkResult wait = VK_SUCCESS;    // instead of waiting for a semaphore or asking it
  PFN_vkGetInstanceProcAddr get_instance = nullptr;
  PFN_vkGetDeviceProcAddr get_device = nullptr;
  PFN_vkQueueSubmit real_submit = nullptr;
  PFN_vkWaitSemaphores real_wait = nullptr;
  PFN_vkGetSemaphoreCounterValue real_ask = nullptr;
};
Answers* answers = nullptr;

VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, std::uint32_t count, const VkSubmitInfo* infos, VkFence fence) {
  return answers->submit != VK_SUCCESS ? answers->submit : answers->real_submit(queue, count, infos, fence);
}

VKAPI_ATTR VkResult VKAPI_CALL wait(VkDevice device, const VkSemaphoreWaitInfo* info, std::uint64_t timeout) {
  return answers->wait != VK_SUCCESS ? answers->wait : answers->real_wait(device, info, timeout);
}

VKAPI_ATTR VkResult VKAPI_CALL ask(VkDevice device, VkSemaphore semaphore, std::uint64_t* value) {
  return answers->wait != VK_SUCCESS ? answers->wait : answers->real_ask(device, semaphore, value);
}

PFN_vkVoidFunction VKAPI_CALL get_device_function(VkDevice device, const char* name) {
  if (std::strcmp(name, "vkQueueSubmit") == 0) return reinterpret_cast<PFN_vkVoidFunction>(submit);
  if (std::strcmp(name, "vkWaitSemaphores") == 0) return reinterpret_cast<PFN_vkVoidFunction>(wait);
  if (std::strcmp(name, "vkGetSemaphoreCounterValue") == 0) return reinterpret_cast<PFN_vkVoidFunction>(ask);
  return answers->get_device(device, name);
}

PFN_vkVoidFunction VKAPI_CALL get_instance_function(VkInstance instance, const char* name) {
  if (std::strcmp(name, "vkGetDeviceProcAddr") == 0) return reinterpret_cast<PFN_vkVoidFunction>(get_device_function);
  return answers->get_instance(instance, name);
}

// A device whose driver answers as `answers` says, while this lives.
class MoodyDevice {
 public:
  MoodyDevice() {
    answers = &answers_;
    VulkanDevice description = own_.description();
    answers_.get_instance = reinterpret_cast<PFN_vkGetInstanceProcAddr>(description.get_instance_proc_addr);
    answers_.get_device = own_.found().instance->functions().vkGetDeviceProcAddr;
    answers_.real_submit = own_.fn().vkQueueSubmit;
    answers_.real_wait = own_.fn().vkWaitSemaphores;
    answers_.real_ask = own_.fn().vkGetSemaphoreCounterValue;
    description.get_instance_proc_addr =
        reinterpret_cast<decltype(VulkanDevice::get_instance_proc_addr)>(get_instance_function);
    gpu = adopt_vulkan_device(description);
  }
  ~MoodyDevice() {
    gpu.reset();
    answers = nullptr;
  }
  MoodyDevice(const MoodyDevice&) = delete;
  MoodyDevice& operator=(const MoodyDevice&) = delete;

  [[nodiscard]] Answers& says() noexcept { return answers_; }

 private:
  OwnDevice own_;
  Answers answers_;

 public:
  std::shared_ptr<GpuBackend> gpu;
};

}  // namespace

TEST_CASE("a lost device says so once and for all", "[vulkan][lost]") {
  for (const bool at_submit : {true, false}) {
    INFO((at_submit ? "at a submission" : "at a wait"));
    MoodyDevice moody;
    {
      const TestDevice device(moody.gpu);
      const OwnedStream stream(device.gpu);
      const OwnedEvent event(device.gpu);
      const Buffer data = device.upload(std::vector<std::uint32_t>(16, 1));
      device.affine(data, 2, 1, stream.get());
      (at_submit ? moody.says().submit : moody.says().wait) = VK_ERROR_DEVICE_LOST;
      const Error first = error_of([&] {
        device.affine(data, 2, 1, stream.get());
        device.gpu->synchronize(stream.get());
      });
      CHECK(first.code() == ErrorCode::device_lost);
      CHECK(first.native_code() == VK_ERROR_DEVICE_LOST);
      CHECK(std::string(first.what()).find("the device is lost") != std::string::npos);
      // Whatever the driver would say now, each call repeats the first.
      moody.says().submit = moody.says().wait = VK_SUCCESS;
      const std::function<void()> calls[]{
          [&] { device.affine(data, 2, 1, stream.get()); },
          [&] { device.gpu->record(event.get(), stream.get()); },
          [&] { static_cast<void>(device.gpu->alloc(64)); },
          [&] { static_cast<void>(device.download(data)); },
          [&] { static_cast<void>(device.gpu->create_stream()); },
      };
      for (const auto& call : calls) {
        const Error again = error_of(call);
        CHECK(again.code() == ErrorCode::device_lost);
        CHECK(std::string(again.what()) == first.what());
      }
    }  // everything is let go of without a throw
  }
}

TEST_CASE("a submission that found no memory is made by a later call", "[vulkan][lost]") {
  MoodyDevice moody;
  const TestDevice device(moody.gpu);
  const OwnedStream stream(device.gpu);
  const Buffer data = device.upload(std::vector<std::uint32_t>(16, 1));
  for (const VkResult result :
       {VK_ERROR_OUT_OF_HOST_MEMORY, VK_ERROR_OUT_OF_DEVICE_MEMORY, static_cast<VkResult>(-77)}) {
    device.affine(data, 2, 1, stream.get());
    moody.says().submit = result;
    const Error error = error_of([&] { device.gpu->flush(stream.get()); });
    CHECK_FALSE(is_sticky(error.code()));
    CHECK(error.native_code() == result);
    moody.says().submit = VK_SUCCESS;
    device.affine(data, 3, 2, stream.get());
  }
  device.gpu->synchronize(stream.get());
  std::uint32_t expected = 1;
  for (int i = 0; i < 3; ++i) expected = (expected * 2 + 1) * 3 + 2;
  CHECK(device.download(data) == std::vector<std::uint32_t>(16, expected));
}

}  // namespace kdart::test
