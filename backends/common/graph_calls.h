// DriverBackend: graphs.
#pragma once

#include <utility>

#include "backends/common/device.h"

namespace kdart::common {

template <class Api>
void DriverBackend<Api>::do_begin_capture(Native stream) {
  const Current current(*context_);
  DriverStream<Api>& queue = stream_of(stream);
  auto capture = std::make_shared<Capture<Api>>();
  const std::unique_lock lock(parts_->captures);  // nobody waits for this stream now, which would end the capture
  // Relaxed: other threads go on as they like, and any thread may end it.
  check(driver().stream_begin_capture(queue.get(), Api::capture_relaxed), "beginning a capture");
  queue.capture = std::move(capture);
}

// Nobody may wait for one of its streams before the driver has ended it: that would invalidate it.
template <class Api>
typename DriverBackend<Api>::Ended DriverBackend<Api>::end_capture_of(DriverStream<Api>& origin) {
  const std::unique_lock lock(parts_->captures);
  Ended ended;
  ended.result = driver().stream_end_capture(origin.get(), &ended.recorded);
  ended.capture = std::exchange(origin.capture, nullptr);
  if (ended.capture != nullptr) ended.capture->close();
  return ended;
}

template <class Api>
GpuBackend::Native DriverBackend<Api>::do_end_capture(Native stream) {
  const CurrentToRelease current(*context_);  // it is over for the interface already
  const Ended ended = end_capture_of(stream_of(stream));
  if (ended.result != Api::success && ended.recorded != nullptr)
    static_cast<void>(driver().graph_destroy(ended.recorded));
  check(ended.result, "ending a capture");
  return instantiate(*ended.capture, ended.recorded);
}

template <class Api>
GpuBackend::Native DriverBackend<Api>::instantiate(Capture<Api>& capture, typename Api::Graph recorded) {
  typename Api::GraphExec graph = nullptr;
  const Result result = Api::instantiate(driver(), &graph, recorded);
  static_cast<void>(driver().graph_destroy(recorded));
  check(result, "instantiating a graph");
  return parts_->graphs.insert(
      std::make_shared<DriverGraph<Api>>(*context_, graph, std::move(capture.modules), std::move(capture.kernels)));
}

template <class Api>
void DriverBackend<Api>::do_abort_capture(Native stream) {
  const CurrentToRelease current(*context_);
  const Ended ended = end_capture_of(stream_of(stream));
  if (ended.capture != nullptr) ended.capture->modules.clear();  // its other streams keep pointing at it
  if (ended.recorded != nullptr) static_cast<void>(driver().graph_destroy(ended.recorded));
}

template <class Api>
void DriverBackend<Api>::do_launch_graph(Native graph, Native stream) {
  const Current current(*context_);
  const DriverGraph<Api>& launched = *detail::object_at<DriverGraph<Api>>(graph);
  DriverStream<Api>& queue = stream_of(stream);
  check(driver().graph_launch(launched.get(), queue.get()), "launching a graph");
  for (const std::string* kernel : launched.kernels()) queue.launched.add(kernel);
}

template <class Api>
void DriverBackend<Api>::do_destroy_graph(Native graph) {
  const Current current(*context_);
  const std::shared_ptr<DriverGraph<Api>> released = parts_->graphs.remove(graph);
  // A set that was unloaded meanwhile lives on in the graph alone: its code goes with it, and must not be running.
  if (released != nullptr && released->keeps_unloaded(parts_->modules)) wait_for_all();
}

}  // namespace kdart::common
