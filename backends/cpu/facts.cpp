#include "backends/cpu/facts.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <thread>

#include "backends/cpu/platform.h"
#include "core/runtime/format.h"
#include "kdart/error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace kdart::cpu {
namespace {

constexpr std::array<std::string_view, 4> x86_targets{"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};

constexpr bool has_all(std::uint64_t value, std::uint64_t bits) noexcept {
  return (value & bits) == bits;
}
constexpr std::uint32_t bit(int n) noexcept {
  return std::uint32_t{1} << n;
}

// Bits of cpuid that each level asks for beyond the one below.
constexpr std::uint32_t v2_leaf1 =
    bit(0) | bit(9) | bit(13) | bit(19) | bit(20) | bit(23);                         // sse3 ssse3 cx16 sse4 popcnt
constexpr std::uint32_t v2_extended1 = bit(0);                                       // lahf in 64-bit mode
constexpr std::uint32_t v3_leaf1 = bit(12) | bit(22) | bit(27) | bit(28) | bit(29);  // fma movbe osxsave avx f16c
constexpr std::uint32_t v3_leaf7 = bit(3) | bit(5) | bit(8);                         // bmi1 avx2 bmi2
constexpr std::uint32_t v3_extended1 = bit(5);                                       // lzcnt
constexpr std::uint64_t v3_xcr0 = 0x6;                                               // xmm, ymm
constexpr std::uint32_t v4_leaf7 = bit(16) | bit(17) | bit(28) | bit(30) | bit(31);  // avx512 f dq cd bw vl
constexpr std::uint64_t v4_xcr0 = 0xe6;                                              // and opmask, zmm

#if defined(__x86_64__)
std::uint64_t read_xcr0() noexcept {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (std::uint64_t{high} << 32) | low;
}

void read_processor(CpuSnapshot& snapshot) {
  std::array<std::uint32_t, 4> r{};
  const auto read = [&r](std::uint32_t leaf) { return __get_cpuid_count(leaf, 0, &r[0], &r[1], &r[2], &r[3]) != 0; };
  if (read(0)) {
    std::array<char, 12> text{};
    std::memcpy(text.data(), &r[1], 4);
    std::memcpy(text.data() + 4, &r[3], 4);
    std::memcpy(text.data() + 8, &r[2], 4);
    snapshot.vendor.assign(text.data(), text.size());
  }
  if (read(1)) snapshot.leaf1_ecx = r[2];
  if (read(7)) snapshot.leaf7_ebx = r[1];
  if (read(0x80000001U)) snapshot.extended1_ecx = r[2];
  if ((snapshot.leaf1_ecx & bit(27)) != 0) snapshot.xcr0 = read_xcr0();
  std::array<char, 48> brand{};
  for (std::uint32_t part = 0; part < 3; ++part) {
    if (read(0x80000002U + part)) std::memcpy(brand.data() + std::size_t{16} * part, r.data(), 16);
  }
  snapshot.brand.assign(brand.data(), strnlen(brand.data(), brand.size()));
  while (!snapshot.brand.empty() && snapshot.brand.back() == ' ') snapshot.brand.pop_back();
  snapshot.brand.erase(0, snapshot.brand.find_first_not_of(' '));
}
#else
void read_processor(CpuSnapshot&) {}
#endif

std::uint32_t usable_cores() noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    const int count = CPU_COUNT(&set);
    if (count > 0) return static_cast<std::uint32_t>(count);
  }
  return std::max(1U, std::thread::hardware_concurrency());
}

std::string target_in_force(const CpuSnapshot& snapshot, const OpenOptions& options) {
  const std::string_view native = native_target(snapshot);
  if (options.cpu_target.empty() || options.cpu_target == native) return std::string(native);
  const std::optional<int> wanted = x86_level_number(options.cpu_target);
  if (!wanted) {
    throw Error(ErrorCode::invalid_argument,
                detail::format("cpu_target '{}' is no target of the CPU backend; it takes {}", options.cpu_target,
                               fmt::join(x86_targets, ", ")));
  }
  const std::optional<int> own = x86_level_number(native);
  if (!own || *wanted > *own) {
    throw Error(ErrorCode::unsupported,
                detail::format("cpu_target '{}' cannot run here: this machine is {}", options.cpu_target, native));
  }
  return options.cpu_target;
}

}  // namespace

CpuSnapshot take_snapshot() {
  CpuSnapshot snapshot;
  read_processor(snapshot);
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGESIZE);
  if (pages > 0 && page > 0)
    snapshot.total_memory = static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page);
  snapshot.cores = usable_cores();
  utsname name{};
  if (uname(&name) == 0) snapshot.system = detail::format("{} {}", name.sysname, name.release);
  return snapshot;
}

std::string_view x86_level(const CpuSnapshot& s) noexcept {
  if (!has_all(s.leaf1_ecx, v2_leaf1) || !has_all(s.extended1_ecx, v2_extended1)) return x86_targets[0];
  if (!has_all(s.leaf1_ecx, v3_leaf1) || !has_all(s.leaf7_ebx, v3_leaf7) || !has_all(s.extended1_ecx, v3_extended1) ||
      !has_all(s.xcr0, v3_xcr0)) {
    return x86_targets[1];
  }
  if (!has_all(s.leaf7_ebx, v4_leaf7) || !has_all(s.xcr0, v4_xcr0)) return x86_targets[2];
  return x86_targets[3];
}

std::string_view native_target([[maybe_unused]] const CpuSnapshot& snapshot) noexcept {
#if defined(__x86_64__)
  return x86_level(snapshot);
#elif defined(__aarch64__)
  return "aarch64";
#else
#error "the CPU backend knows x86-64 and aarch64"
#endif
}

std::optional<int> x86_level_number(std::string_view target) noexcept {
  for (std::size_t i = 0; i < x86_targets.size(); ++i) {
    if (x86_targets[i] == target) return static_cast<int>(i) + 1;
  }
  return {};
}

CpuEngine engine_in_force(CpuEngine wanted) noexcept {
  return thread_sanitizer ? CpuEngine::threads : wanted;
}

DeviceInfo describe_device(const CpuSnapshot& snapshot, const OpenOptions& options) {
  DeviceInfo info;
  info.id = "cpu:0";
  info.backend = "cpu";
  info.index = 0;
  info.name = snapshot.brand.empty() ? "CPU" : snapshot.brand;
  info.vendor = snapshot.vendor;
  info.type = DeviceType::cpu;
  info.target = target_in_force(snapshot, options);
  info.driver_version = snapshot.system;
  info.total_memory = snapshot.total_memory;
  info.limits.shared_memory_per_block = 65536;
  info.limits.threads_per_block = 1024;
  info.limits.block = {1024, 1024, 1024};
  info.limits.grid = {2147483647U, 65535U, 65535U};
  info.limits.allocation = snapshot.total_memory;
  info.limits.subgroup_min = 1;
  info.limits.subgroup_max = 1;
  // No fault isolation: a kernel that stores through a wild address faults in this process and ends it.
  info.features = {"fault_isolation_none", "unified_memory"};
  if (engine_in_force(options.cpu_engine) != options.cpu_engine)
    info.quirks = {"thread_sanitizer_forces_thread_engine"};
  return info;
}

}  // namespace kdart::cpu
