// Modules and their kernels.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backends/common/argument.h"
#include "backends/common/launched.h"
#include "core/runtime/fail.h"
#include "core/runtime/messages.h"
#include "kdart/kernel_set.h"

namespace kdart::common {

template <class Api>
class DriverModule;

template <class Api>
class DriverKernel {
 public:
  using Native = typename Api::Function;

  // Throws what Api::check throws.
  DriverKernel(DriverModule<Api>& module, Native function, const std::string* name)
      : module_(&module), function_(function), name_(name) {
    static_shared_ = attribute(Api::function_static_shared);
    max_threads_ = attribute(Api::function_max_threads);
    allowed_ = Api::shared_without_optin - std::min(Api::shared_without_optin, static_shared_);
  }

  [[nodiscard]] Native function() const noexcept { return function_; }
  [[nodiscard]] const std::string* name() const noexcept { return name_; }
  [[nodiscard]] DriverModule<Api>& module() const noexcept { return *module_; }
  [[nodiscard]] std::uint32_t static_shared_bytes() const noexcept { return static_shared_; }
  [[nodiscard]] std::uint32_t max_threads() const noexcept { return max_threads_; }

  // Lets launches have so much dynamic shared memory, from now on; never less than before. A driver call only when the
  // mark rises. Any thread. Throws what Api::check throws.
  void allow_shared(std::uint32_t dynamic_bytes) {
    if (dynamic_bytes > allowed_.load(std::memory_order_acquire)) [[unlikely]]
      raise_shared(dynamic_bytes);
  }

 private:
  [[nodiscard]] std::uint32_t attribute(int which) const {
    int value = 0;
    const auto result = module_->context().driver().func_get_attribute(&value, which, function_);
    if (result != Api::success) Api::fail(result, detail::format("kernel '{}': asking for its attributes", *name_));
    return static_cast<std::uint32_t>(std::max(0, value));
  }
  void raise_shared(std::uint32_t dynamic_bytes) {
    const std::lock_guard lock(mutex_);
    if (dynamic_bytes <= allowed_.load(std::memory_order_relaxed)) return;
    const auto result = Api::allow_shared(module_->context().driver(), function_, dynamic_bytes);
    if (result != Api::success) {
      Api::fail(result,
                detail::format("kernel '{}': asking for {} bytes of dynamic shared memory", *name_, dynamic_bytes));
    }
    allowed_.store(dynamic_bytes, std::memory_order_release);
  }

  DriverModule<Api>* module_;
  Native function_;
  const std::string* name_;
  std::uint32_t static_shared_ = 0;
  std::uint32_t max_threads_ = 0;
  std::mutex mutex_;                       // of raising
  std::atomic<std::uint32_t> allowed_{0};  // dynamic bytes
};

// What a vendor makes of an image's bytes, after a look at them: the driver believes what it reads.
template <class Api>
struct LoadedImage {
  typename Api::Module module = nullptr;
  std::unordered_map<std::string, std::vector<KernelArgument>> stated;  // by symbol, as the image has them
};

// One image on one device. The context must be current in every call that says so.
template <class Api>
class DriverModule : public std::enable_shared_from_this<DriverModule<Api>> {
 public:
  using Context = typename Api::Context;

  // Current. Throws Error: corrupt_image, invalid_image, no_matching_image (it is not for this GPU), driver_too_old, what
  // Api::check throws.
  DriverModule(const Context& context, const typename Api::Snapshot& device, Names& names, const ManifestImage& image,
               std::span<const std::byte> bytes)
      : context_(&context), names_(&names), file_(image.file), image_(Api::load(context, device, image, bytes)) {}
  ~DriverModule() { static_cast<void>(context_->driver().module_unload(image_.module)); }
  DriverModule(const DriverModule&) = delete;
  DriverModule& operator=(const DriverModule&) = delete;

  [[nodiscard]] const Context& context() const noexcept { return *context_; }

  // The kernel with this symbol, looked up once. Current. Throws Error(corrupt_image) when the image has none.
  [[nodiscard]] DriverKernel<Api>& get(const std::string& name, const std::string& symbol) {
    const std::lock_guard lock(mutex_);
    if (const auto known = kernels_.find(symbol); known != kernels_.end()) return *known->second;
    typename Api::Function function = nullptr;
    const auto result = context_->driver().module_get_function(&function, image_.module, symbol.c_str());
    if (result == Api::not_found) {
      detail::fail(ErrorCode::corrupt_image, "image {}: kernel '{}': the image has no entry point {}",
                   detail::quote(file_), name, detail::quote(symbol));
    }
    if (result != Api::success) Api::fail(result, detail::format("kernel '{}': looking it up", name));
    auto kernel = std::make_unique<DriverKernel<Api>>(*this, function, names_->keep(name));
    return *kernels_.emplace(symbol, std::move(kernel)).first->second;
  }
  // The arguments as the image states them, or else the driver; empty where neither does. Current.
  [[nodiscard]] std::vector<KernelArgument> arguments(const DriverKernel<Api>& kernel,
                                                      const std::string& symbol) const {
    if (const auto stated = image_.stated.find(symbol); stated != image_.stated.end()) return stated->second;
    return Api::arguments(context_->driver(), kernel.function(), *kernel.name());
  }

 private:
  const Context* context_;
  Names* names_;
  std::string file_;
  LoadedImage<Api> image_;
  std::mutex mutex_;
  std::unordered_map<std::string, std::unique_ptr<DriverKernel<Api>>> kernels_;  // by symbol
};

}  // namespace kdart::common
