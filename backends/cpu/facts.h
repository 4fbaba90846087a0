// What this machine is: a snapshot of the processor, and the level of the instruction set that follows from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kdart/device_info.h"

namespace kdart::cpu {

// Raw facts as the processor and the system give them. The register fields are 0 where there is no cpuid.
struct CpuSnapshot {
  std::string vendor;               // "GenuineIntel"
  std::string brand;                // the marketing name
  std::uint32_t leaf1_ecx = 0;      // cpuid 1
  std::uint32_t leaf7_ebx = 0;      // cpuid 7, subleaf 0
  std::uint32_t extended1_ecx = 0;  // cpuid 0x80000001
  std::uint64_t xcr0 = 0;           // register sets that the system saves; 0 without OSXSAVE
  std::uint64_t total_memory = 0;   // bytes of physical memory
  std::uint32_t cores = 1;          // that this process may run on
  std::string system;               // "Linux 6.1.0"
};
[[nodiscard]] CpuSnapshot take_snapshot();

// "x86-64", "x86-64-v2", "x86-64-v3" or "x86-64-v4", as the x86-64 psABI defines them. Pure.
[[nodiscard]] std::string_view x86_level(const CpuSnapshot& snapshot) noexcept;
// The target that images for this machine are chosen by: x86_level, or the architecture's name elsewhere.
[[nodiscard]] std::string_view native_target(const CpuSnapshot& snapshot) noexcept;
// 1 to 4 for the x86 levels, nothing for any other text.
[[nodiscard]] std::optional<int> x86_level_number(std::string_view target) noexcept;

// The device as it is listed: a pure function of the snapshot and the options. `options.cpu_target` becomes the target;
// throws Error(unsupported) when this machine cannot run it, Error(invalid_argument) when there is no such target.
[[nodiscard]] DeviceInfo describe_device(const CpuSnapshot& snapshot, const OpenOptions& options);

// The engine that will run: TSan does not follow fibers, so a build with it always takes threads.
[[nodiscard]] CpuEngine engine_in_force(CpuEngine wanted) noexcept;

}  // namespace kdart::cpu
