#include "backends/common/launched.h"

#include <algorithm>

#include "core/runtime/format.h"
#include "core/runtime/messages.h"

namespace kdart::common {
namespace {

void add_once(std::vector<std::string_view>& names, std::string_view name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

}  // namespace

std::vector<std::string_view> Launched::names() const {
  std::vector<std::string_view> found;
  const std::uint32_t end = count();
  for (std::uint32_t i = end - std::min<std::uint32_t>(end, most); i != end; ++i) {
    if (const std::string* name = names_[i % most].load(std::memory_order_relaxed)) add_once(found, *name);
  }
  return found;
}

std::string suspects(const std::vector<const Launched*>& lists) {
  std::vector<std::string_view> names;
  std::uint32_t launches = 0;
  for (const Launched* list : lists) {
    launches = std::max(launches, list->count());
    for (const std::string_view name : list->names()) add_once(names, name);
  }
  if (names.empty()) return {};
  const bool forgotten = launches > Launched::most;
  if (names.size() == 1) {
    return detail::format("kernel {}{}", detail::quote(names.front()),
                          forgotten ? " or one of those launched before it" : "");
  }
  std::vector<std::string> quoted;
  for (const std::string_view name : names) quoted.push_back(detail::quote(name));
  return detail::format("one of the kernels {}{}", fmt::join(quoted, ", "),
                        forgotten ? " or of those launched before them" : "");
}

}  // namespace kdart::common
