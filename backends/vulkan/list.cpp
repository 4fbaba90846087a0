#include "backends/vulkan/list.h"

#include <algorithm>
#include <utility>

#include "backends/vulkan/driver_life.h"
#include "core/runtime/format.h"
#include "kdart/error.h"

namespace kdart::vulkan {
namespace {

ListedDevice read_device(const InstanceFunctions& functions, std::uint32_t instance_version, VkPhysicalDevice handle,
                         const OpenOptions& options) {
  ListedDevice device;
  device.handle = handle;
  std::string failure;
  try {
    device.facts = read_facts(functions, handle, instance_version);
  } catch (const Error& error) {
    failure = error.what();
    VkPhysicalDeviceProperties basic{};  // what cannot fail
    functions.vkGetPhysicalDeviceProperties(handle, &basic);
    device.facts = {};
    device.facts.name = basic.deviceName;
    device.facts.type = basic.deviceType;
  }
  device.plan = plan_device(device.facts, options);
  if (!failure.empty()) device.plan.missing = {detail::format("properties that can be read ({})", failure)};
  return device;
}

}  // namespace

std::vector<ListedDevice> list_devices(const InstanceFunctions& functions, std::uint32_t instance_version,
                                       const std::vector<VkPhysicalDevice>& handles, const std::string& driver_library,
                                       const OpenOptions& options) {
  std::vector<ListedDevice> devices;
  std::vector<PhysicalDeviceFacts> facts;
  std::vector<DevicePlan> plans;
  for (VkPhysicalDevice handle : handles) {
    devices.push_back(read_device(functions, instance_version, handle, options));
    facts.push_back(devices.back().facts);
    plans.push_back(devices.back().plan);
  }
  for (const DevicePlan& plan : plans) {
    const std::vector<std::string>& quirks = plan.info.quirks;
    if (std::find(quirks.begin(), quirks.end(), "driver_stays_loaded") != quirks.end()) keep_nvidia_driver_loaded();
  }
  std::vector<ListedDevice> listed;
  for (const DeviceOrder::Entry& entry : order_devices(facts, plans).entries) {
    ListedDevice device = std::move(devices[entry.device]);
    DeviceInfo& info = device.plan.info;
    info.index = static_cast<std::uint32_t>(listed.size());
    info.id = detail::format("vulkan:{}", info.index);
    info.driver_library = driver_library;
    if (!device.plan.missing.empty())
      info.unusable = detail::format("it lacks {}", fmt::join(device.plan.missing, ", "));
    info.note = entry.shadowed;
    listed.push_back(std::move(device));
  }
  return listed;
}

std::vector<ListedDevice> list_devices(const Instance& instance, const OpenOptions& options) {
  return list_devices(instance.functions(), instance.api_version(), instance.physical_devices(),
                      instance.library().file(), options);
}

}  // namespace kdart::vulkan
