// What belongs to the caller: memory that it imports, and a device that it made.
#include "backends/vulkan/device.h"
#include "backends/vulkan/driver_life.h"
#include "core/runtime/fail.h"

namespace kdart {
namespace vulkan {

// An address is an address: kernels take it as it is, and copies and fills of it go through kernels (recorder.h).
DevicePtr VulkanBackend::do_import_memory(std::uint64_t native, std::uint64_t) {
  if (native % 4 != 0) {
    detail::fail(ErrorCode::invalid_argument, "import_memory: 0x{:x} is not a multiple of 4", native);
  }
  return DevicePtr(native);
}

// The caller may free its memory next, so nothing given to a stream may still use it.
void VulkanBackend::do_release_import(DevicePtr) {
  if (driver_is_gone()) return;
  wait_for_all();
}

}  // namespace vulkan

namespace {

void check_adopted(const VulkanDevice& device) {
  const auto require = [](bool there, std::string_view what) {
    if (!there) detail::fail(ErrorCode::invalid_argument, "adopt_vulkan_device: {} is null", what);
  };
  require(device.get_instance_proc_addr != nullptr, "get_instance_proc_addr");
  require(device.instance != nullptr, "instance");
  require(device.physical_device != nullptr, "physical_device");
  require(device.device != nullptr, "device");
  require(device.queue != nullptr, "queue");
  if (static_cast<bool>(device.lock_queue) != static_cast<bool>(device.unlock_queue)) {
    detail::fail(ErrorCode::invalid_argument, "adopt_vulkan_device: lock_queue and unlock_queue go together");
  }
}

// Where open_device would find the device, 0 when it would not.
std::uint32_t index_of(const vulkan::InstanceFunctions& functions, VkInstance instance, VkPhysicalDevice wanted,
                       std::uint32_t api_version, const OpenOptions& options) {
  const std::vector<VkPhysicalDevice> devices = vulkan::enumerate_devices(functions, instance);
  for (const vulkan::ListedDevice& listed : vulkan::list_devices(functions, api_version, devices, "", options)) {
    if (listed.handle == wanted) return listed.plan.info.index;
  }
  return 0;
}

}  // namespace

std::shared_ptr<GpuBackend> adopt_vulkan_device(const VulkanDevice& device, const OpenOptions& options) {
  check_adopted(device);
  const auto instance = static_cast<VkInstance>(device.instance);
  const auto physical = static_cast<VkPhysicalDevice>(device.physical_device);
  const auto get = reinterpret_cast<PFN_vkGetInstanceProcAddr>(device.get_instance_proc_addr);
  const vulkan::InstanceFunctions functions = vulkan::load_instance_functions(get, instance);
  const vulkan::PhysicalDeviceFacts facts = vulkan::read_facts(functions, physical, device.api_version);
  vulkan::DevicePlan plan = vulkan::plan_device(
      facts, options,
      vulkan::AdoptedDevice{device.api_version, device.extensions, device.features, device.queue_family});
  plan.info.index = index_of(functions, instance, physical, device.api_version, options);
  plan.info.id = detail::format("vulkan:{}", plan.info.index);
  return std::make_shared<vulkan::VulkanBackend>(device, facts, plan, options);
}

}  // namespace kdart
