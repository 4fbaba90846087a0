#include "backends/cpu/graph.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "backends/cpu/device.h"
#include "backends/cpu/errors.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/stream.h"

namespace kdart::cpu {

void Capture::add(Operation operation) {
  const std::lock_guard lock(mutex_);
  try {
    if (const auto* launch = std::get_if<LaunchOperation>(&operation)) {
      auto& modules = graph_->modules;
      auto module = std::const_pointer_cast<CpuModule>(launch->kernel->module().shared_from_this());
      if (std::find(modules.begin(), modules.end(), module) == modules.end()) modules.push_back(std::move(module));
    }
    graph_->operations.push_back(std::move(operation));
  } catch (...) {
    throw current_error("capturing an operation");
  }
}

std::shared_ptr<const CpuGraph> Capture::finish() {
  const std::lock_guard lock(mutex_);
  open_.store(false, std::memory_order_release);
  return std::exchange(graph_, nullptr);
}

void Capture::abort() noexcept {
  const std::lock_guard lock(mutex_);
  open_.store(false, std::memory_order_release);
  graph_.reset();
}

// --- the backend's graph group ----------------------------------------------------------------------------------------

void CpuBackend::enqueue(CpuStream& stream, Operation operation) {
  if (Capture* capture = detail::running(stream.capture)) {
    capture->add(std::move(operation));
  } else {
    stream.submit(std::move(operation));
  }
}

void CpuBackend::do_begin_capture(Native stream) {
  stream_of(stream).capture = std::make_shared<Capture>();
}

GpuBackend::Native CpuBackend::do_end_capture(Native stream) {
  CpuStream& queue = stream_of(stream);
  std::shared_ptr<const CpuGraph> graph = queue.capture->finish();
  queue.capture.reset();
  return parts_->graphs.insert(std::move(graph));
}

void CpuBackend::do_abort_capture(Native stream) {
  CpuStream& queue = stream_of(stream);
  if (queue.capture == nullptr) return;
  queue.capture->abort();
  queue.capture.reset();
}

void CpuBackend::do_launch_graph(Native graph, Native stream) {
  stream_of(stream).submit(GraphOperation{parts_->graphs.get(graph)});
}

// A launch that is still queued keeps the graph until it has run.
void CpuBackend::do_destroy_graph(Native graph) {
  parts_->graphs.remove(graph);
}

}  // namespace kdart::cpu
