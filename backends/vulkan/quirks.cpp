#include "backends/vulkan/quirks.h"

#include <algorithm>
#include <array>

#include "core/runtime/fail.h"
#include "core/runtime/messages.h"

namespace kdart::vulkan {
namespace {

bool is_gpu(const PhysicalDeviceFacts& facts) {
  return facts.type != VK_PHYSICAL_DEVICE_TYPE_CPU;
}

bool has_short_job_timeout(const PhysicalDeviceFacts& facts) {
  switch (facts.driver_id) {
    case VK_DRIVER_ID_MESA_RADV:
    case VK_DRIVER_ID_AMD_OPEN_SOURCE:
    case VK_DRIVER_ID_AMD_PROPRIETARY:
    case VK_DRIVER_ID_INTEL_OPEN_SOURCE_MESA:
    case VK_DRIVER_ID_INTEL_PROPRIETARY_WINDOWS:
      return is_gpu(facts);
    default:
      return false;
  }
}

bool is_integrated(const PhysicalDeviceFacts& facts) {
  return facts.type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
}

bool is_moltenvk(const PhysicalDeviceFacts& facts) {
  return facts.driver_id == VK_DRIVER_ID_MOLTENVK;
}

bool is_nvidia(const PhysicalDeviceFacts& facts) {
  return facts.driver_id == VK_DRIVER_ID_NVIDIA_PROPRIETARY;
}

bool is_lavapipe(const PhysicalDeviceFacts& facts) {
  return facts.driver_id == VK_DRIVER_ID_MESA_LLVMPIPE;
}

// Sorted by name. What each changes is in plan.cpp, apply_quirks, and in list.cpp.
constexpr std::array<Quirk, 5> table{{
    {"bounded_submissions", has_short_job_timeout,
     "AMD's and Intel's kernel drivers reset the GPU when one submission runs for a few seconds (amdgpu: 2 s by "
     "default), and all that was submitted together counts.",
     "https://github.com/ggml-org/llama.cpp/issues/21724", "tests/unit/vulkan/quirks_test.cpp", "2027-06"},
    {"driver_stays_loaded", is_nvidia,
     "NVIDIA's driver leaves something behind each time it is unloaded, and after some 30 instances in one process it "
     "no longer starts (seen with 580.159.04); so it is kept loaded.",
     "https://github.com/NVIDIA/egl-wayland/issues/97", "tests/device/device_test.cpp", "2027-06"},
    {"loops_end_early", is_lavapipe,
     "llvmpipe ends an invocation's loops, without a word, after 65,535 turns in all; a prefill launch's turns grow "
     "with "
     "its tokens.",
     "https://gitlab.freedesktop.org/mesa/mesa/-/blob/mesa-22.3.6/src/gallium/auxiliary/gallivm/lp_bld_limits.h",
     "tests/unit/vulkan/quirks_test.cpp", "2027-06"},
    {"no_timestamps", is_moltenvk,
     "MoltenVK's timestamps are taken while earlier work still runs, and some queries come back as 0.",
     "https://github.com/KhronosGroup/MoltenVK/issues/2378", "tests/unit/vulkan/quirks_test.cpp", "2027-06"},
    {"short_launches", is_integrated,
     "An integrated GPU needs several times as long for one dispatch as a discrete one, under the same watchdog: long "
     "prompts in large pieces lose the device, in smaller ones they do not.",
     "https://github.com/ollama/ollama/issues/17870", "tests/unit/vulkan/quirks_test.cpp", "2027-06"},
}};

const Quirk* find(std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const Quirk& quirk) { return quirk.name == name; });
  return found == table.end() ? nullptr : &*found;
}

}  // namespace

std::span<const Quirk> quirk_table() noexcept {
  return table;
}

std::vector<std::string> quirks_in_force(const PhysicalDeviceFacts& facts, const OpenOptions& options) {
  std::vector<std::string> names;
  for (const Quirk& quirk : table) {
    if (quirk.applies(facts)) names.emplace_back(quirk.name);
  }
  for (const std::string& override : options.quirk_overrides) {
    const bool on = !override.starts_with('-');
    const Quirk* quirk = find(std::string_view(override).substr(on ? 0 : 1));
    if (quirk == nullptr) {
      std::vector<std::string_view> known;
      for (const Quirk& each : table) known.push_back(each.name);
      detail::fail(ErrorCode::invalid_argument, "quirk_overrides: {} is no quirk of the Vulkan backend; it has {}",
                   detail::quote(override), fmt::join(known, ", "));
    }
    std::erase(names, quirk->name);
    if (on) names.emplace_back(quirk->name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace kdart::vulkan
