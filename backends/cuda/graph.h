// Graphs, captured by the driver.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/api.h"
#include "backends/cuda/context.h"
#include "core/runtime/native_objects.h"

namespace kdart::cuda {

class CudaKernel;
class CudaModule;

// An instantiated graph with the modules that its kernels come from.
class CudaGraph {
 public:
  CudaGraph(const Context& context, CUgraphExec graph, std::vector<std::shared_ptr<CudaModule>> modules,
            std::vector<const std::string*> kernels) noexcept;
  ~CudaGraph();
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  [[nodiscard]] CUgraphExec get() const noexcept { return graph_; }
  // Whether it uses a module that is in no loaded set any more.
  [[nodiscard]] bool keeps_unloaded(const detail::ObjectTable<CudaModule>& loaded) const;
  // Each kernel once, in the order of their first launches.
  [[nodiscard]] const std::vector<const std::string*>& kernels() const noexcept { return kernels_; }

 private:
  const Context* context_;
  CUgraphExec graph_;
  std::vector<std::shared_ptr<CudaModule>> modules_;
  std::vector<const std::string*> kernels_;
};

// A capture in progress, shared by the streams in it and the events recorded in it (native_objects.h). The driver keeps
// the operations; this keeps what they refer to.
class Capture {
 public:
  [[nodiscard]] bool open() const noexcept { return open_.load(std::memory_order_acquire); }
  void close() noexcept { open_.store(false, std::memory_order_release); }
  void add(const CudaKernel& kernel);
  void add(const std::string* name);  // of work that is no kernel of a set

  // Of a capture that is over.
  std::vector<std::shared_ptr<CudaModule>> modules;
  std::vector<const std::string*> kernels;

 private:
  std::atomic<bool> open_{true};
};

}  // namespace kdart::cuda
