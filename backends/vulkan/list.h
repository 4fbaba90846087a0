// The devices of an instance, read, judged and in the order in which they are listed.
#pragma once

#include <string>
#include <vector>

#include "backends/vulkan/facts.h"
#include "backends/vulkan/loader.h"
#include "backends/vulkan/plan.h"

namespace kdart::vulkan {

struct ListedDevice {
  VkPhysicalDevice handle = VK_NULL_HANDLE;
  PhysicalDeviceFacts facts;
  DevicePlan
      plan;  // its info complete: "vulkan:N" by the place in the list, why it cannot be opened, what to say of it
};

// Every device of the instance, usable or not; a GPU that several drivers offer once. One that cannot be read is listed
// with the reason and hides no other. Throws Error: what listing the handles throws, and invalid_argument for a quirk
// override that names none.
[[nodiscard]] std::vector<ListedDevice> list_devices(const Instance& instance, const OpenOptions& options);

// The same for these handles. `driver_library` is the loader's file, for the listing.
[[nodiscard]] std::vector<ListedDevice> list_devices(const InstanceFunctions& functions, std::uint32_t instance_version,
                                                     const std::vector<VkPhysicalDevice>& handles,
                                                     const std::string& driver_library, const OpenOptions& options);

}  // namespace kdart::vulkan
