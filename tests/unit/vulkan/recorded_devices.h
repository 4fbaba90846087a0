// What devices that are not at hand say of themselves: read from the driver where one runs here, else put together from
// the drivers' sources and public reports ("like").
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "backends/vulkan/facts.h"

namespace kdart::test {

inline constexpr std::uint64_t recorded_mib = std::uint64_t{1} << 20;
inline constexpr std::uint64_t recorded_gib = std::uint64_t{1} << 30;

// llvmpipe of Mesa 22.3.6, as read but for extensions that nothing here looks at.
[[nodiscard]] vulkan::PhysicalDeviceFacts lavapipe();
// An H200 with NVIDIA's driver 580.
[[nodiscard]] vulkan::PhysicalDeviceFacts nvidia_h200();
// A Navi 21 with RADV of Mesa 22.3.6: 16 GiB of which the host sees a window of 256 MiB.
[[nodiscard]] vulkan::PhysicalDeviceFacts radv_navi21();
// The same with a resizable BAR: the host sees all of it.
[[nodiscard]] vulkan::PhysicalDeviceFacts radv_navi21_resizable();
// RADV_FORCE_FAMILY=navi21 with no card: no memory, and timestamps of an infinite period.
[[nodiscard]] vulkan::PhysicalDeviceFacts radv_without_card();
// An integrated Intel GPU whose last-level cache the processor shares (Tiger Lake), and one without (Alder Lake-N).
[[nodiscard]] vulkan::PhysicalDeviceFacts anv_like();
[[nodiscard]] vulkan::PhysicalDeviceFacts anv_like_without_shared_cache();
// An Adreno with a recent driver, and one of Vulkan 1.1.
[[nodiscard]] vulkan::PhysicalDeviceFacts adreno_like();
[[nodiscard]] vulkan::PhysicalDeviceFacts old_adreno_like();
// An Apple GPU through MoltenVK.
[[nodiscard]] vulkan::PhysicalDeviceFacts moltenvk_like();

struct RecordedDevice {
  std::string_view name;
  vulkan::PhysicalDeviceFacts (*facts)();
};
[[nodiscard]] const std::vector<RecordedDevice>& recorded_devices();

}  // namespace kdart::test
