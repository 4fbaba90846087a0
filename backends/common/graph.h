// Graphs, captured by the driver.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/common/kernels.h"
#include "core/runtime/native_objects.h"

namespace kdart::common {

// An instantiated graph with the modules that its kernels come from.
template <class Api>
class DriverGraph {
 public:
  using Context = typename Api::Context;
  using Native = typename Api::GraphExec;

  DriverGraph(const Context& context, Native graph, std::vector<std::shared_ptr<DriverModule<Api>>> modules,
              std::vector<const std::string*> kernels) noexcept
      : context_(&context), graph_(graph), modules_(std::move(modules)), kernels_(std::move(kernels)) {}
  // A launch that is still pending completes.
  ~DriverGraph() { static_cast<void>(context_->driver().graph_exec_destroy(graph_)); }
  DriverGraph(const DriverGraph&) = delete;
  DriverGraph& operator=(const DriverGraph&) = delete;

  [[nodiscard]] Native get() const noexcept { return graph_; }
  // Whether it uses a module that is in no loaded set any more.
  [[nodiscard]] bool keeps_unloaded(const detail::ObjectTable<DriverModule<Api>>& loaded) const {
    return std::any_of(modules_.begin(), modules_.end(),
                       [&](const auto& module) { return loaded.get(detail::native_of(module.get())) == nullptr; });
  }
  // Each kernel once, in the order of their first launches.
  [[nodiscard]] const std::vector<const std::string*>& kernels() const noexcept { return kernels_; }

 private:
  const Context* context_;
  Native graph_;
  std::vector<std::shared_ptr<DriverModule<Api>>> modules_;
  std::vector<const std::string*> kernels_;
};

// A capture in progress, shared by the streams in it and the events recorded in it (native_objects.h). The driver keeps
// the operations; this keeps what they refer to.
template <class Api>
class Capture {
 public:
  [[nodiscard]] bool open() const noexcept { return open_.load(std::memory_order_acquire); }
  void close() noexcept { open_.store(false, std::memory_order_release); }
  void add(const DriverKernel<Api>& kernel) {
    add(kernel.name());
    auto module = kernel.module().shared_from_this();
    if (std::find(modules.begin(), modules.end(), module) == modules.end()) modules.push_back(std::move(module));
  }
  // Work that is no kernel of a set.
  void add(const std::string* name) {
    if (std::find(kernels.begin(), kernels.end(), name) == kernels.end()) kernels.push_back(name);
  }

  // Of a capture that is over.
  std::vector<std::shared_ptr<DriverModule<Api>>> modules;
  std::vector<const std::string*> kernels;

 private:
  std::atomic<bool> open_{true};
};

}  // namespace kdart::common
