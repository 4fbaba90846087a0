#include "backends/vulkan/manifests.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

namespace kdart::vulkan {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name, const char* otherwise = "") {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : value;
}

// A list as PATH is one.
std::vector<fs::path> split(std::string_view list) {
  std::vector<fs::path> parts;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(':'), list.size());
    if (end != 0) parts.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return parts;
}

// The files that a variable names: each a file, or a folder of them.
void add_named(std::vector<fs::path>& files, const fs::path& named) {
  std::error_code error;
  if (!fs::is_directory(named, error)) {
    files.push_back(named);
    return;
  }
  for (fs::directory_iterator entry(named, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() == ".json") files.push_back(entry->path());
  }
}

std::vector<fs::path> driver_files() {
  std::vector<fs::path> files;
  const std::string named = variable("VK_DRIVER_FILES", variable("VK_ICD_FILENAMES").c_str());
  for (const fs::path& file : split(named)) add_named(files, file);
  if (!named.empty()) return files;

  for (const fs::path& file : split(variable("VK_ADD_DRIVER_FILES"))) add_named(files, file);
  const std::string home = variable("HOME");
  std::string roots = variable("XDG_CONFIG_HOME", (home + "/.config").c_str());
  roots += ":" + variable("XDG_CONFIG_DIRS", "/etc/xdg") + ":/usr/local/etc:/etc:";
  roots += variable("XDG_DATA_HOME", (home + "/.local/share").c_str());
  roots += ":" + variable("XDG_DATA_DIRS", "/usr/local/share:/usr/share");
  for (const fs::path& root : split(roots)) add_named(files, root / "vulkan" / "icd.d" / "");
  return files;
}

}  // namespace

std::vector<std::string> broken_driver_files() {
  std::vector<std::string> broken;
  for (const fs::path& file : driver_files()) {
    std::error_code error;
    if (!fs::is_regular_file(file, error)) continue;  // the loader passes over it
    std::ifstream stream(file);
    if (stream && !nlohmann::json::accept(stream)) broken.push_back(file);
  }
  return broken;
}

}  // namespace kdart::vulkan
