#include "backends/vulkan/driver_life.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace kdart::vulkan {
namespace {

bool is_nvidia(std::string_view path) {
  const std::string_view file = path.substr(path.find_last_of('/') + 1);
  return file.starts_with("libGLX_nvidia.") || file.starts_with("libEGL_nvidia.") || file.starts_with("libnvidia-");
}

int add_if_nvidia(dl_phdr_info* info, std::size_t, void* list) {
  if (info->dlpi_name != nullptr && is_nvidia(info->dlpi_name)) {
    static_cast<std::vector<std::string>*>(list)->emplace_back(info->dlpi_name);
  }
  return 0;
}

std::atomic<bool> gone{false};

}  // namespace

void keep_nvidia_driver_loaded() noexcept {
  try {
    std::vector<std::string> files;
    dl_iterate_phdr(add_if_nvidia, &files);  // the loader is locked in there: nothing is opened until it is done
    for (const std::string& file : files) {
      void* handle = dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD | RTLD_NODELETE);
      if (handle != nullptr) dlclose(handle);
    }
  } catch (...) {  // no memory for the names: the driver stays as it is
  }
}

// Handlers run in the reverse order of their registration, so this one has to come after the driver's own, which it
// registers while it makes its first device. Each driver counts alone.
void note_driver_in_use(VkDriverId driver) noexcept {
  static std::mutex mutex;
  static std::vector<VkDriverId>* known = nullptr;  // never destroyed: exit() may be running in another thread
  const std::lock_guard lock(mutex);
  try {
    if (known == nullptr) known = new std::vector<VkDriverId>;
    if (std::find(known->begin(), known->end(), driver) != known->end()) return;
    known->push_back(driver);
  } catch (...) {  // no memory to remember it: registered once more another time
  }
  std::atexit([] { gone.store(true, std::memory_order_release); });
}

bool driver_is_gone() noexcept {
  return gone.load(std::memory_order_acquire);
}

}  // namespace kdart::vulkan
