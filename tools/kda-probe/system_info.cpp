#include "system_info.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <string_view>
#include <thread>

#include "core/runtime/format.h"
#include "kdart/version.h"

namespace kdart::probe {
namespace {

// The rest of the first line of `file` that starts with `key`, without what separates the two; "" when there is none.
std::string value_in(const char* file, std::string_view key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!std::string_view(line).starts_with(key)) continue;
    const std::size_t start = line.find_first_not_of(" \t:=\"", key.size());
    const std::size_t end = line.find_last_not_of(" \t\"");
    return start == std::string::npos ? std::string() : line.substr(start, end - start + 1);
  }
  return {};
}

std::uint64_t memory_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page) : 0;
}

std::string compiler() {
#if defined(__clang__)
  return detail::format("clang {}", __clang_version__);
#else
  return detail::format("gcc {}", __VERSION__);
#endif
}

}  // namespace

SystemInfo system_info() {
  SystemInfo info;
  info.kdart_version = version();
  info.compiler = compiler();
  info.build_type = KDART_PROBE_BUILD_TYPE;
  info.system = value_in("/etc/os-release", "PRETTY_NAME");
  if (utsname name{}; uname(&name) == 0) {
    info.kernel = detail::format("{} {}", name.sysname, name.release);
    info.architecture = name.machine;
  }
  info.processor = value_in("/proc/cpuinfo", "model name");
  info.cores = std::thread::hardware_concurrency();
  info.memory = memory_bytes();
  return info;
}

}  // namespace kdart::probe
