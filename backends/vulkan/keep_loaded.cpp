#include "backends/vulkan/keep_loaded.h"

#include <dlfcn.h>
#include <link.h>

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

}  // namespace kdart::vulkan
