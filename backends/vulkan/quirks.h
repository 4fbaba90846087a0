// Workarounds for named drivers, in one table. Each says when it applies, why, and how long it is meant to stay.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/vulkan/facts.h"
#include "kdart/device_info.h"

namespace kdart::vulkan {

struct Quirk {
  std::string_view name;  // "no_timestamps": what DeviceInfo::quirks and OpenOptions::quirk_overrides say
  bool (*applies)(const PhysicalDeviceFacts& facts);
  std::string_view reason;  // one sentence
  std::string_view link;    // where it is documented
  std::string_view test;    // the test that shows it, by file
  std::string_view until;   // "2027-06": when to look whether it is still needed
};

// Sorted by name.
[[nodiscard]] std::span<const Quirk> quirk_table() noexcept;

// The names in force for a device, sorted: those that apply, changed by the overrides in their order ("name" forces one
// on, "-name" off). Throws Error(invalid_argument) for an override that names no quirk, listing those there are.
[[nodiscard]] std::vector<std::string> quirks_in_force(const PhysicalDeviceFacts& facts, const OpenOptions& options);

}  // namespace kdart::vulkan
