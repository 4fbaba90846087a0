// What a device's numbers are called in text: its vendor, versions, UUID and PCI address.
#pragma once

#include <string>

#include "backends/vulkan/facts.h"

namespace kdart::vulkan {

// "NVIDIA"; "0x1234" for one that is not known here.
[[nodiscard]] std::string vendor_name(std::uint32_t vendor_id);
// As the vendor writes it, with what the driver says of itself: "580.65.06", "22.3.6 (Mesa 22.3.6)" as "Mesa 22.3.6".
[[nodiscard]] std::string driver_version_text(const PhysicalDeviceFacts& facts);
// 32 lower-case hexadecimal digits; "" for one of all zeros, which names nothing.
[[nodiscard]] std::string uuid_text(const std::array<std::uint8_t, VK_UUID_SIZE>& uuid);
// "0000:01:00.0"
[[nodiscard]] std::string pci_text(const PciAddress& address);
// "1.2"
[[nodiscard]] std::string api_version_text(std::uint32_t version);

}  // namespace kdart::vulkan
