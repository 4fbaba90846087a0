#include "backends/cuda/graph.h"

#include <algorithm>
#include <utility>

#include "backends/cuda/device.h"

namespace kdart::cuda {

CudaGraph::CudaGraph(const Context& context, CUgraphExec graph, std::vector<std::shared_ptr<CudaModule>> modules,
                     std::vector<const std::string*> kernels) noexcept
    : context_(&context), graph_(graph), modules_(std::move(modules)), kernels_(std::move(kernels)) {}

// A launch that is still pending completes.
CudaGraph::~CudaGraph() {
  static_cast<void>(context_->cu().graph_exec_destroy(graph_));
}

bool CudaGraph::keeps_unloaded(const detail::ObjectTable<CudaModule>& loaded) const {
  return std::any_of(modules_.begin(), modules_.end(), [&](const std::shared_ptr<CudaModule>& module) {
    return loaded.get(detail::native_of(module.get())) == nullptr;
  });
}

void Capture::add(const std::string* name) {
  if (std::find(kernels.begin(), kernels.end(), name) == kernels.end()) kernels.push_back(name);
}

void Capture::add(const CudaKernel& kernel) {
  add(kernel.name());
  auto module = kernel.module().shared_from_this();
  if (std::find(modules.begin(), modules.end(), module) == modules.end()) modules.push_back(std::move(module));
}

// --- the backend's graph group ----------------------------------------------------------------------------------------

void CudaBackend::do_begin_capture(Native stream) {
  const Current current(*context_);
  CudaStream& queue = stream_of(stream);
  auto capture = std::make_shared<Capture>();
  const std::unique_lock lock(parts_->captures);  // nobody waits for this stream now, which would end the capture
  // Relaxed: other threads go on as they like, and any thread may end it.
  check(cu().stream_begin_capture(queue.get(), CU_STREAM_CAPTURE_MODE_RELAXED), "beginning a capture");
  queue.capture = std::move(capture);
}

// Nobody may wait for one of its streams before the driver has ended it: that would invalidate it.
CudaBackend::Ended CudaBackend::end_capture_of(CudaStream& origin) {
  const std::unique_lock lock(parts_->captures);
  Ended ended;
  ended.result = cu().stream_end_capture(origin.get(), &ended.recorded);
  ended.capture = std::exchange(origin.capture, nullptr);
  if (ended.capture != nullptr) ended.capture->close();
  return ended;
}

GpuBackend::Native CudaBackend::do_end_capture(Native stream) {
  const CurrentToRelease current(*context_);  // it is over for the interface already
  const Ended ended = end_capture_of(stream_of(stream));
  if (ended.result != CUDA_SUCCESS && ended.recorded != nullptr) static_cast<void>(cu().graph_destroy(ended.recorded));
  check(ended.result, "ending a capture");
  return instantiate(*ended.capture, ended.recorded);
}

GpuBackend::Native CudaBackend::instantiate(Capture& capture, CUgraph recorded) {
  CUgraphExec graph = nullptr;
  const CUresult result = cu().graph_instantiate(&graph, recorded, 0);
  static_cast<void>(cu().graph_destroy(recorded));
  check(result, "instantiating a graph");
  return parts_->graphs.insert(
      std::make_shared<CudaGraph>(*context_, graph, std::move(capture.modules), std::move(capture.kernels)));
}

void CudaBackend::do_abort_capture(Native stream) {
  const CurrentToRelease current(*context_);
  const Ended ended = end_capture_of(stream_of(stream));
  if (ended.capture != nullptr) ended.capture->modules.clear();  // its other streams keep pointing at it
  if (ended.recorded != nullptr) static_cast<void>(cu().graph_destroy(ended.recorded));
}

void CudaBackend::do_launch_graph(Native graph, Native stream) {
  const Current current(*context_);
  const CudaGraph& launched = *detail::object_at<CudaGraph>(graph);
  CudaStream& queue = stream_of(stream);
  check(cu().graph_launch(launched.get(), queue.get()), "launching a graph");
  for (const std::string* kernel : launched.kernels()) queue.launched.add(kernel);
}

void CudaBackend::do_destroy_graph(Native graph) {
  const Current current(*context_);
  const std::shared_ptr<CudaGraph> released = parts_->graphs.remove(graph);
  // A set that was unloaded meanwhile lives on in the graph alone: its code goes with it, and must not be running.
  if (released != nullptr && released->keeps_unloaded(parts_->modules)) wait_for_all();
}

}  // namespace kdart::cuda
