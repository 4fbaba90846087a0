// How a device will be used: queues, features, extensions, memory types, limits and quirks. A pure function of the facts
// and the options, so that it is tested on a table of recorded devices.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/vulkan/facts.h"
#include "kdart/device_info.h"
#include "kdart/kernel_set.h"

namespace kdart::vulkan {

// The argument block that goes into push constants, on every device: what Vulkan guarantees.
inline constexpr std::uint32_t push_constant_bytes = 128;

struct DevicePlan {
  // What the device lacks of what this backend needs, by Vulkan's own names ("bufferDeviceAddress", "Vulkan 1.2 (it has
  // 1.1)", "a queue family with compute", "a host-visible, coherent memory type"). Empty: usable. The rest is filled as
  // far as it goes.
  std::vector<std::string> missing;

  DeviceInfo info;    // all but id, index and driver_library
  DeviceFacts facts;  // for image selection

  // In use, by Vulkan's names, sorted: to be enabled, or enabled by the caller of an adopted device. Nothing else is.
  std::vector<std::string> extensions, features;

  std::uint32_t queue_family = 0;
  std::uint32_t queue_count = 1;
  bool timestamps = false;
  double timestamp_period = 0;       // nanoseconds per tick
  std::uint64_t timestamp_mask = 0;  // valid bits of a tick

  // Memory types, best first; creation takes the first that the buffer's requirements allow.
  std::vector<std::uint32_t> device_types;    // kernels' memory
  std::vector<std::uint32_t> upload_types;    // host-visible and coherent
  std::vector<std::uint32_t> readback_types;  // host-visible and cached before uncached
  std::vector<std::uint32_t> pinned_types;    // host-visible and coherent, cached before uncached
  std::uint64_t max_block_bytes = 0;          // the largest VkDeviceMemory and VkBuffer to ask for
  std::uint64_t block_bytes = 0;              // the usual size of a block that allocations share, at least 1 MiB
  std::uint64_t non_coherent_atom = 1;

  std::uint64_t submission_groups = 0;  // workgroups after which a submission is closed (watchdogs); 0: no limit
};

// `adopted`: the device exists already with exactly these extensions and features enabled and this queue family; then
// only they count. Throws what quirks_in_force throws.
struct AdoptedDevice {
  std::uint32_t api_version = 0;
  std::vector<std::string> extensions, features;
  std::uint32_t queue_family = 0;
};
[[nodiscard]] DevicePlan plan_device(const PhysicalDeviceFacts& facts, const OpenOptions& options,
                                     const std::optional<AdoptedDevice>& adopted = std::nullopt);

// The order in which devices are listed: discrete, integrated, virtual, of no stated kind, CPU, else as the driver has
// them; usable devices before unusable ones of the same kind. One GPU that two drivers offer (equal PCI address, or equal
// UUID where one states no address) stays once: the usable one, else the driver that its vendor maintains before others
// and those before translations to another API, else the first; and `shadowed` says which was left out and why. Indices
// into the input.
struct DeviceOrder {
  struct Entry {
    std::size_t device;
    std::string shadowed;  // "", or a sentence for the listing
  };
  std::vector<Entry> entries;
};
[[nodiscard]] DeviceOrder order_devices(const std::vector<PhysicalDeviceFacts>& facts,
                                        const std::vector<DevicePlan>& plans);

}  // namespace kdart::vulkan
