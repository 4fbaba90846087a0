#include "kdart/device_info.h"

namespace kdart {

std::string_view to_string(DeviceType type) noexcept {
  switch (type) {
    case DeviceType::discrete:
      return "discrete";
    case DeviceType::integrated:
      return "integrated";
    case DeviceType::virtual_gpu:
      return "virtual";
    case DeviceType::cpu:
      return "cpu";
  }
  return "unknown";
}

}  // namespace kdart
