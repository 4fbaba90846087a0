#include "backends/vulkan/names.h"

#include <algorithm>
#include <array>

#include "core/runtime/format.h"

namespace kdart::vulkan {
namespace {

struct Vendor {
  std::uint32_t id;
  std::string_view name;
};

// PCI vendor ids, and Khronos' own from 0x10000 on (VkVendorId).
constexpr std::array<Vendor, 20> vendors{
    {{0x1002, "AMD"},    {0x1010, "Imagination"}, {0x106b, "Apple"},         {0x10de, "NVIDIA"},
     {0x13b5, "Arm"},    {0x1414, "Microsoft"},   {0x144d, "Samsung"},       {0x14e4, "Broadcom"},
     {0x1ae0, "Google"}, {0x1af4, "Red Hat"},     {0x1ed5, "Moore Threads"}, {0x5143, "Qualcomm"},
     {0x8086, "Intel"},  {0x19e5, "Huawei"},      {0x10001, "Vivante"},      {0x10002, "VeriSilicon"},
     {0x10003, "Kazan"}, {0x10004, "Codeplay"},   {0x10005, "Mesa"},         {0x10006, "PoCL"}}};

constexpr std::uint32_t nvidia_id = 0x10de;

bool is_nvidia(const PhysicalDeviceFacts& facts) {
  return facts.driver_id == VK_DRIVER_ID_NVIDIA_PROPRIETARY ||
         (facts.driver_id == VkDriverId{} && facts.vendor_id == nvidia_id);
}

// The number alone, by the vendor's own packing.
std::string version_number(const PhysicalDeviceFacts& facts) {
  const std::uint32_t v = facts.driver_version;
  if (is_nvidia(facts)) {  // 10, 8, 8 and 6 bits
    const std::string text = detail::format("{}.{}.{:02}", v >> 22, v >> 14 & 0xffU, v >> 6 & 0xffU);
    return (v & 0x3fU) == 0 ? text : detail::format("{}.{}", text, v & 0x3fU);
  }
  if (facts.driver_id == VK_DRIVER_ID_INTEL_PROPRIETARY_WINDOWS)  // 18 and 14 bits
    return detail::format("{}.{}", v >> 14, v & 0x3fffU);
  if (facts.driver_id == VK_DRIVER_ID_MOLTENVK)  // decimal: 10203 is 1.2.3
    return detail::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
  return detail::format("{}.{}.{}", v >> 22, v >> 12 & 0x3ffU, v & 0xfffU);  // VK_MAKE_VERSION
}

}  // namespace

std::string vendor_name(std::uint32_t vendor_id) {
  const auto found =
      std::find_if(vendors.begin(), vendors.end(), [&](const Vendor& vendor) { return vendor.id == vendor_id; });
  return found == vendors.end() ? detail::format("{:#06x}", vendor_id) : std::string(found->name);
}

std::string driver_version_text(const PhysicalDeviceFacts& facts) {
  const std::string number = version_number(facts);
  if (facts.driver_info.empty()) return number;
  if (facts.driver_info.find(number) != std::string::npos) return facts.driver_info;
  return detail::format("{} ({})", number, facts.driver_info);
}

std::string uuid_text(const std::array<std::uint8_t, VK_UUID_SIZE>& uuid) {
  if (std::all_of(uuid.begin(), uuid.end(), [](std::uint8_t byte) { return byte == 0; })) return {};
  return detail::format("{:02x}", fmt::join(uuid, ""));
}

std::string pci_text(const PciAddress& address) {
  return detail::format("{:04x}:{:02x}:{:02x}.{:x}", address.domain, address.bus, address.device, address.function);
}

std::string api_version_text(std::uint32_t version) {
  return detail::format("{}.{}", VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version));
}

}  // namespace kdart::vulkan
