// Opening a vendor's library at run time.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kdart::detail {

// An open library. It is never closed: drivers leave threads and exit handlers behind.
class DriverLibrary {
 public:
  struct Search {
    std::string_view what;                  // "the Vulkan loader", for messages
    std::vector<std::string> names;         // the versioned names, best first, then the bare one
    const char* entry = nullptr;            // a symbol that every copy has: what lacks it is another library
    std::optional<std::string> path = {};   // the caller's: nothing else is tried
    std::vector<std::string> instead = {};  // the caller's names, in place of `names`; empty: none
  };

  // Opens, RTLD_LOCAL: the caller's path and nothing else; or a copy that the process has open under one of `names`; or
  // one after the other of `instead`, or of `names`. Throws Error(driver_missing) with every name tried and the system
  // loader's words.
  explicit DriverLibrary(const Search& search);

  // The file as the system loader has it.
  [[nodiscard]] const std::string& file() const noexcept { return file_; }
  // Null when the library has no such symbol.
  [[nodiscard]] void* symbol(const char* name) const noexcept;

 private:
  void* handle_ = nullptr;
  std::string file_;
};

}  // namespace kdart::detail
