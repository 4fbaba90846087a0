// Captures and graphs.
#include "tests/fake_cuda/driver.h"

namespace kdart::fake_cuda {
namespace {

// Whether everything in the capture comes before what its origin would be given next.
bool is_joined(const Capture& capture) {
  std::set<std::size_t> seen = capture.origin->frontier;
  std::vector<std::size_t> next(seen.begin(), seen.end());
  while (!next.empty()) {
    const std::size_t node = next.back();
    next.pop_back();
    for (const std::size_t before : capture.before[node]) {
      if (seen.insert(before).second) next.push_back(before);
    }
  }
  return seen.size() == capture.operations.size();
}

void leave(Stream& stream, const std::shared_ptr<Capture>& capture) {
  if (stream.capture != capture) return;
  stream.capture.reset();
  stream.frontier.clear();
}

void end(Driver& driver, const std::shared_ptr<Capture> capture) {
  capture->over = true;
  for (const auto& [handle, stream] : driver.streams.alive) leave(*stream, capture);
  for (const auto& [handle, context] : driver.contexts.alive) {
    leave(*context->legacy, capture);
    for (const auto& [thread, stream] : context->per_thread) leave(*stream, capture);
  }
}

}  // namespace

CUresult entry::stream_is_capturing(CUstream stream, int* status) {
  KDART_FAKE_CALL(stream_is_capturing);
  CUresult result = CUDA_SUCCESS;
  const auto queue = call.stream(stream, result);
  if (queue == nullptr) return result;
  *status = queue->capture == nullptr ? CU_STREAM_CAPTURE_STATUS_NONE : queue->capture->invalid ? 2 : 1;
  return CUDA_SUCCESS;
}

CUresult entry::stream_begin_capture(CUstream stream, int mode) {
  KDART_FAKE_CALL(stream_begin_capture);
  CUresult result = CUDA_SUCCESS;
  const auto queue = call.stream(stream, result);
  if (queue == nullptr) return result;
  if (queue == call.context().legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (queue->capture != nullptr) {
    queue->capture->invalid = true;
    return CUDA_ERROR_INVALID_VALUE;
  }
  queue->capture = std::make_shared<Capture>();
  queue->capture->origin = queue.get();
  queue->capture->relaxed = mode == CU_STREAM_CAPTURE_MODE_RELAXED;
  queue->frontier.clear();
  return CUDA_SUCCESS;
}

CUresult entry::stream_end_capture(CUstream stream, CUgraph* graph) {
  Call call(Function::stream_end_capture, stream);  // a fault ends captures, too
  Driver& driver = call.driver();
  *graph = nullptr;
  if (call.refused()) {
    // The driver's own failures end the capture.
    if (const auto queue = driver.streams.find(stream); queue != nullptr && queue->capture != nullptr)
      end(driver, queue->capture);
    driver.excused.erase(stream);
    return call.result();
  }
  CUresult result = CUDA_SUCCESS;
  const auto queue = call.stream(stream, result);
  if (queue == nullptr) return result;
  const std::shared_ptr<Capture> capture = queue->capture;
  if (capture == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (capture->origin != queue.get()) {
    capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  const bool joined = is_joined(*capture);
  end(driver, capture);
  if (call.finish() != CUDA_SUCCESS) return call.finish();
  if (capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!joined) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  const auto made = driver.graphs.make();
  made->operations = std::make_shared<const Operations>(std::move(capture->operations));
  *graph = reinterpret_cast<CUgraph>(made.get());
  return CUDA_SUCCESS;
}

CUresult entry::graph_instantiate(CUgraphExec* executable, CUgraph graph, unsigned long long) {
  KDART_FAKE_CALL(graph_instantiate);
  const auto source = driver.graphs.find(graph);
  if (source == nullptr) return call.violation(CUDA_ERROR_INVALID_VALUE, "of a graph that is not alive");
  const auto made = driver.executables.make();
  made->operations = source->operations;
  *executable = reinterpret_cast<CUgraphExec>(made.get());
  return CUDA_SUCCESS;
}

CUresult entry::graph_launch(CUgraphExec executable, CUstream stream) {
  KDART_FAKE_CALL(graph_launch);
  const auto source = driver.executables.find(executable);
  if (source == nullptr) return call.violation(CUDA_ERROR_INVALID_VALUE, "of a graph that is not alive");
  CUresult result = CUDA_SUCCESS;
  const auto queue = call.stream(stream, result);
  if (queue == nullptr) return result;
  const auto run = [operations = source->operations, &context = call.context()](Driver& d) {
    for (const Operation& operation : *operations) {
      if (context.fault != CUDA_SUCCESS) return;
      if (operation.run) operation.run(d);
    }
  };
  return driver.give(*queue, {.run = run, .graph = source->operations});
}

CUresult entry::graph_exec_destroy(CUgraphExec executable) {
  KDART_FAKE_RELEASE(graph_exec_destroy, executable);
  const auto found = driver.executables.find(executable);
  if (found == nullptr) return call.violation(CUDA_ERROR_INVALID_VALUE, "of a graph that is not alive");
  driver.executables.end(found);
  return call.finish();
}

CUresult entry::graph_destroy(CUgraph graph) {
  KDART_FAKE_RELEASE(graph_destroy, graph);
  const auto found = driver.graphs.find(graph);
  if (found == nullptr) return call.violation(CUDA_ERROR_INVALID_VALUE, "of a graph that is not alive");
  driver.graphs.end(found);
  return call.finish();
}

}  // namespace kdart::fake_cuda
