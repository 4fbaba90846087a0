// What a HIP device says of itself, and what kdart makes of it.
#pragma once

#include <cstdint>
#include <string>

#include "backends/hip/loader.h"
#include "kdart/device_info.h"
#include "kdart/kernel_set.h"

namespace kdart::hip {

// As the runtime has it. A plain value: tests make them from a table.
struct HipSnapshot {
  std::uint32_t index = 0;
  std::string name, uuid, pci_address;
  std::string target;  // "gfx942:sramecc+:xnack-"
  std::uint64_t total_memory = 0;
  int version = 0;  // of the runtime, as Library::version
  std::string library, stands_in;
  std::uint32_t threads_per_block = 0;
  Dim3 block{0, 0, 0}, grid{0, 0, 0};
  std::uint32_t shared_memory = 0;  // per block, bytes
  std::uint32_t wave = 0, multiprocessors = 0;
  std::uint64_t max_pitch = 0;
  bool integrated = false, prohibited = false, pools = false;
};

// Throws what check_hip throws.
[[nodiscard]] HipSnapshot read_snapshot(const Library& library, std::uint32_t index);
[[nodiscard]] std::uint32_t device_count(const Library& library);

// Pure. `unusable` is set for a device whose compute mode forbids contexts, and for one without a target.
[[nodiscard]] DeviceInfo describe_device(const HipSnapshot& snapshot);
[[nodiscard]] DeviceFacts selection_facts(const HipSnapshot& snapshot);

// The variables that hide devices, as a listing should say it: "HIP_VISIBLE_DEVICES is ''"; "" when none is set.
[[nodiscard]] std::string visibility_note();

}  // namespace kdart::hip
