// A kernel set on a device: looking kernels up.
#include <algorithm>
#include <utility>

#include "core/runtime/fail.h"
#include "core/runtime/messages.h"
#include "kdart/backend.h"
#include "kdart/kernel_set.h"

namespace kdart {

using detail::fail;
using detail::quote;

namespace {

// Changes of one letter that turn one name into the other.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

bool is_near(std::string_view asked, std::string_view name) {
  if (asked.size() > 2 * name.size() + 8) return false;  // nothing that long is near, and comparing takes long
  return name.starts_with(asked) || asked.starts_with(name) || edit_distance(asked, name) <= 1 + name.size() / 4;
}

}  // namespace

LoadedSet::LoadedSet(std::shared_ptr<GpuBackend> backend, std::shared_ptr<const KernelSet> set, Selection selection)
    : backend_(std::move(backend)), set_(std::move(set)), selection_(std::move(selection)) {}

LoadedSet::~LoadedSet() {
  backend_->unload(*this);
}

KernelHandle LoadedSet::get(std::string_view kernel) const {
  if (const auto found = kernels_.find(kernel); found != kernels_.end()) return found->second;
  std::string near;
  for (const auto& [name, handle] : kernels_) {
    if (is_near(kernel, name)) near += detail::format("{}'{}'", near.empty() ? "" : ", ", name);
  }
  fail(ErrorCode::kernel_not_found, "image {} of the kernel set '{}' has no kernel {}{}{}", image().file,
       set_->manifest().set, quote(kernel), near.empty() ? "" : "; it has ", near);
}

KernelHandle LoadedSet::find(std::string_view kernel) const noexcept {
  const auto found = kernels_.find(kernel);
  return found == kernels_.end() ? KernelHandle{} : found->second;
}

std::uint32_t LoadedSet::tunable(std::string_view kernel, std::string_view name, std::uint32_t fallback) const {
  const auto& tunables = backend_->kernel_info(get(kernel)).tunables;
  const auto found = tunables.find(std::string(name));
  return found == tunables.end() ? fallback : found->second;
}

std::vector<std::string_view> LoadedSet::missing() const {
  std::vector<std::string_view> names;
  for (const ContractKernel& kernel : set_->contract().kernels) {
    if (!kernels_.contains(kernel.name)) names.push_back(kernel.name);
  }
  return names;
}

}  // namespace kdart
