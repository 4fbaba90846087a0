// What a device is and what it can do, and the options it is opened with.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kdart/export.h"
#include "kdart/types.h"

namespace kdart {

struct DeviceLimits {
  std::uint64_t shared_memory_per_block = 0;  // bytes, static + dynamic, with the driver's opt-in where there is one
  std::uint32_t threads_per_block = 0;        // product of a block's dimensions
  Dim3 block{0, 0, 0};
  Dim3 grid{0, 0, 0};
  std::uint64_t allocation = 0;  // bytes in one allocation
  std::uint32_t subgroup_min = 0, subgroup_max = 0;
  std::uint32_t max_tokens_per_launch = 0;  // the longest prefill piece that one launch should take; 0: no limit
};

enum class DeviceType : std::uint8_t { discrete, integrated, virtual_gpu, cpu };
[[nodiscard]] KDART_API std::string_view to_string(DeviceType type) noexcept;

// A snapshot, taken when the device was listed or opened.
struct DeviceInfo {
  std::string id;       // "cuda:0": backend name and index, what open_device takes
  std::string backend;  // "cpu", "vulkan", "cuda", "hip"
  std::uint32_t index = 0;
  std::string name;  // as the driver gives it
  std::string vendor;
  DeviceType type = DeviceType::discrete;
  std::string uuid;         // lower-case hex, stable across runs; "" where the driver has none
  std::string pci_address;  // "0000:01:00.0" or ""
  std::string target;       // what images are chosen by: "sm_90", "gfx942:sramecc+:xnack-", "x86-64-v3", ..
  std::string driver_version;
  std::string driver_library;  // the file that was opened, "" for the CPU
  std::uint64_t total_memory = 0;
  DeviceLimits limits;
  std::vector<std::string> features;  // sorted
  std::vector<std::string> quirks;    // named driver workarounds in force, sorted
  std::string unusable;               // why it cannot be opened (the missing feature by name), "" when it can
  std::string note;                   // what else the listing should say: the same GPU through another driver, say
};

enum class LogSeverity : std::uint8_t { debug, info, warning, error };
using LogCallback = std::function<void(LogSeverity, std::string_view)>;

// How the CPU backend runs a block that has barriers: one fiber per thread (fast), or one operating system thread per
// thread (slow; what ThreadSanitizer can see).
enum class CpuEngine : std::uint8_t { fibers, threads };

// Have the driver's own checking layers look at every call (Vulkan: the Khronos validation layer). What they find goes to
// OpenOptions::log. Slow; for tests and for finding a fault. Refused (unsupported) where the layer is not installed;
// other backends ignore it. gpu_assisted also checks every memory access of a kernel: give each allocation its own buffer
// with it (dedicated_buffers), since it sees no overrun inside a shared one.
enum class DriverChecks : std::uint8_t { none, core, gpu_assisted };

// Every field has a default, so that {.memory_limit = n} draws no warning.
struct OpenOptions {
  // The driver library to open, and nothing else if it fails. Unset: a copy the process already has, then
  // `driver_names` if not empty, else the versioned and the bare name.
  std::optional<std::string> driver_path = {};
  std::vector<std::string> driver_names = {};
  // Bytes that live allocations may reach; beyond it alloc throws out_of_device_memory. 0: the device's own limit.
  std::uint64_t memory_limit = 0;
  // Each launch waits for its end, so that a fault is thrown by the launch that caused it, and names its kernel for certain.
  // Slow; for finding a fault. Not within a capture.
  bool synchronous_launches = false;
  // CUDA and HIP: the vendor's library behind GemmService (cuBLASLt), looked for as the driver is. "" leaves it out.
  std::optional<std::string> gemm_library = {};
  // Called from any thread, possibly during a kdart call; must not call kdart. Unset: kdart prints nothing.
  LogCallback log = {};
  // Each allocation a buffer of its own with guards (Vulkan validation). Ignored where it has no meaning.
  bool dedicated_buffers = false;
  DriverChecks driver_checks = DriverChecks::none;
  // Driver workarounds by name, as DeviceInfo::quirks lists them: "name" forces one on, "-name" off. An unknown name is
  // invalid_argument.
  std::vector<std::string> quirk_overrides = {};
  // CPU backend only. 0 threads: one per core.
  CpuEngine cpu_engine = CpuEngine::fibers;
  std::uint32_t cpu_threads = 0;
  // Load the CPU image of exactly this target ("x86-64") instead of the best; "" chooses. Refused if it cannot run here.
  std::string cpu_target = {};
};

}  // namespace kdart
