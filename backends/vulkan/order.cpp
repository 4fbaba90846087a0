// The order of the list of devices, and one entry for a GPU that several drivers offer.
#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "backends/vulkan/plan.h"
#include "core/runtime/format.h"

namespace kdart::vulkan {
namespace {

int kind_rank(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      return 0;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return 1;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
      return 2;
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
      return 4;
    default:
      return 3;
  }
}

// Among drivers for one GPU: the one that its vendor maintains (AMD: RADV, since it gave up AMDVLK in 2025), then
// others, then those that translate to another API.
int driver_rank(VkDriverId driver) {
  switch (driver) {
    case VK_DRIVER_ID_NVIDIA_PROPRIETARY:
    case VK_DRIVER_ID_MESA_RADV:
    case VK_DRIVER_ID_INTEL_OPEN_SOURCE_MESA:
    case VK_DRIVER_ID_INTEL_PROPRIETARY_WINDOWS:
    case VK_DRIVER_ID_QUALCOMM_PROPRIETARY:
    case VK_DRIVER_ID_ARM_PROPRIETARY:
    case VK_DRIVER_ID_IMAGINATION_PROPRIETARY:
    case VK_DRIVER_ID_SAMSUNG_PROPRIETARY:
      return 0;
    case VK_DRIVER_ID_MOLTENVK:
    case VK_DRIVER_ID_MESA_DOZEN:
      return 2;
    default:
      return 1;
  }
}

bool same_gpu(const PhysicalDeviceFacts& a, const PhysicalDeviceFacts& b) {
  // An address of zeros names no place, as drivers without a card give it.
  const auto has_place = [](const PhysicalDeviceFacts& facts) { return facts.pci && *facts.pci != PciAddress{}; };
  // Two cards can have one UUID by a driver's mistake; they cannot sit in one slot.
  if (has_place(a) && has_place(b)) return a.pci == b.pci;
  return a.device_uuid == b.device_uuid && a.device_uuid != std::array<std::uint8_t, VK_UUID_SIZE>{};
}

const std::string& driver_of(const PhysicalDeviceFacts& facts) {
  return facts.driver_name.empty() ? facts.name : facts.driver_name;
}

// One GPU: the driver that it is used through, and the others.
struct Offer {
  std::size_t first;  // of its devices in the drivers' order
  std::size_t kept;
  std::vector<std::size_t> others;
};

class Orderer {
 public:
  Orderer(const std::vector<PhysicalDeviceFacts>& facts, const std::vector<DevicePlan>& plans)
      : facts_(facts), plans_(plans) {}

  [[nodiscard]] DeviceOrder order() {
    for (std::size_t i = 0; i < facts_.size(); ++i) add(i);
    std::sort(offers_.begin(), offers_.end(), [&](const Offer& a, const Offer& b) {
      const auto rank = [&](const Offer& offer) {
        return std::tuple(kind_rank(facts_[offer.kept].type), plans_[offer.kept].missing.empty() ? 0 : 1, offer.first);
      };
      return rank(a) < rank(b);
    });
    DeviceOrder order;
    for (const Offer& offer : offers_) order.entries.push_back({offer.kept, sentence(offer)});
    return order;
  }

 private:
  void add(std::size_t device) {
    for (Offer& offer : offers_) {
      if (!same_gpu(facts_[offer.kept], facts_[device])) continue;
      if (better(device, offer.kept)) std::swap(device, offer.kept);
      offer.others.push_back(device);
      return;
    }
    offers_.push_back({device, device, {}});
  }

  [[nodiscard]] bool better(std::size_t a, std::size_t b) const {
    const auto rank = [&](std::size_t i) {
      return std::pair(plans_[i].missing.empty() ? 0 : 1, driver_rank(facts_[i].driver_id));
    };
    return rank(a) < rank(b);
  }

  [[nodiscard]] std::string sentence(const Offer& offer) const {
    std::string text;
    for (const std::size_t other : offer.others) {
      const std::vector<std::string>& missing = plans_[other].missing;
      text += detail::format("{}the driver {} offers this GPU too and is left out: {}", text.empty() ? "" : "; ",
                             driver_of(facts_[other]),
                             missing.empty() ? detail::format("{} comes first", driver_of(facts_[offer.kept]))
                                             : detail::format("it lacks {}", fmt::join(missing, ", ")));
    }
    return text;
  }

  const std::vector<PhysicalDeviceFacts>& facts_;
  const std::vector<DevicePlan>& plans_;
  std::vector<Offer> offers_;
};

}  // namespace

DeviceOrder order_devices(const std::vector<PhysicalDeviceFacts>& facts, const std::vector<DevicePlan>& plans) {
  return Orderer(facts, plans).order();
}

}  // namespace kdart::vulkan
