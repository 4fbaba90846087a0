#include "core/runtime/driver_library.h"

#include <dlfcn.h>
#include <link.h>

#include "core/runtime/fail.h"
#include "core/runtime/messages.h"

namespace kdart::detail {
namespace {

// Opens one name; on failure adds the name and the reason to `tried`.
void* open_name(const std::string& name, const char* entry, std::vector<std::string>& tried) {
  if (name.empty()) {  // dlopen would give the program itself
    tried.emplace_back("'': an empty name");
    return nullptr;
  }
  void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* words = dlerror();
    tried.push_back(format("{}: {}", quote(name), words == nullptr ? "no reason given" : words));
    return nullptr;
  }
  if (dlsym(handle, entry) == nullptr) {
    tried.push_back(format("{}: it is a library without {}", quote(name), entry));
    dlclose(handle);
    return nullptr;
  }
  return handle;
}

// A copy that the process has open already, so that two do not live side by side.
void* find_open_copy(const std::vector<std::string>& names, const char* entry) {
  for (const std::string& name : names) {
    void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (handle == nullptr) {
      static_cast<void>(dlerror());  // not an error
      continue;
    }
    if (dlsym(handle, entry) != nullptr) return handle;
    dlclose(handle);
  }
  return nullptr;
}

std::string file_of(void* handle, const char* entry) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, static_cast<void*>(&map)) == 0 && map->l_name != nullptr && *map->l_name != '\0')
    return map->l_name;
  Dl_info info{};  // a library that is linked into the program has no name in the map
  if (dladdr(dlsym(handle, entry), &info) != 0 && info.dli_fname != nullptr) return info.dli_fname;
  return {};
}

}  // namespace

DriverLibrary::DriverLibrary(const Search& search) {
  std::vector<std::string> tried;
  if (search.path) {
    handle_ = open_name(*search.path, search.entry, tried);
  } else {
    handle_ = find_open_copy(search.names, search.entry);
    const std::vector<std::string>& names = search.instead.empty() ? search.names : search.instead;
    for (auto name = names.begin(); handle_ == nullptr && name != names.end(); ++name)
      handle_ = open_name(*name, search.entry, tried);
  }
  if (handle_ == nullptr)
    fail(ErrorCode::driver_missing, "{} could not be opened, tried {}", search.what, fmt::join(tried, "; "));
  file_ = file_of(handle_, search.entry);
}

void* DriverLibrary::symbol(const char* name) const noexcept {
  void* found = dlsym(handle_, name);
  if (found == nullptr) static_cast<void>(dlerror());
  return found;
}

}  // namespace kdart::detail
