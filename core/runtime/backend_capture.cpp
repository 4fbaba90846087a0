// Graphs: what a capture may hold, and how it ends.
#include <utility>

#include "core/runtime/backend_submit.h"
#include "kdart/backend.h"

namespace kdart {

using detail::Capture;
using detail::EventSlot;
using detail::fail;
using detail::StreamSlot;

namespace {

// The streams leave the capture; only its origin remembers why it ended early.
void release_members(const detail::BackendState& state, Capture& capture, const std::string* reason) noexcept {
  capture.running = false;
  for (const Stream member : capture.members) {
    StreamSlot* slot = state.streams.find(member);
    if (slot == nullptr) continue;
    slot->capture.reset();
    slot->position = 0;
    slot->clock.clear();
    if (reason == nullptr || member != capture.origin) continue;
    try {
      slot->invalidated = *reason;
    } catch (...) {  // no memory for the reason: end_capture says that no capture runs
    }
  }
}

}  // namespace

void GpuBackend::invalidate(const std::shared_ptr<Capture>& capture, const std::string& reason) noexcept {
  // The argument may be a slot's own, which the slot lets go of.
  const std::shared_ptr<Capture> kept = capture->shared_from_this();
  const StreamSlot* origin = state_->streams.find(kept->origin);
  release_members(*state_, *kept, &reason);
  if (origin == nullptr) return;
  try {
    do_abort_capture(origin->native);
  } catch (const Error& error) {
    if (is_sticky(error.code())) state_->set_sticky(error);
  } catch (...) {  // the capture is over for kdart in any case
  }
}

void GpuBackend::abort_capture(Stream stream) noexcept {
  const StreamSlot* slot = state_->streams.find(stream);
  if (slot == nullptr || slot->capture == nullptr) return;
  invalidate(slot->capture, "the capture was aborted");
}

void GpuBackend::refuse_in_capture(Stream stream, std::string_view call) {
  const std::shared_ptr<Capture> capture = state_->stream(stream, call).capture;
  if (capture == nullptr) return;
  const std::string reason = detail::format(
      "{}: stream {} is being captured, and a capture holds only launches, async d2d copies, fills, records and "
      "waits among its streams",
      call, stream.index());
  invalidate(capture, reason);
  fail(ErrorCode::capture_invalidated, "{}; the capture is over", reason);
}

void GpuBackend::refuse_captured(Event event, std::string_view call) {
  const EventSlot& slot = state_->event(event, call);
  if (slot.recorded != EventSlot::Recorded::capture) return;
  const std::shared_ptr<Capture> capture = slot.capture;
  if (!capture->running) {
    fail(ErrorCode::invalid_argument,
         "{}: event {} was last recorded in a capture that is over, and stands for nothing until it is recorded again",
         call, event.index());
  }
  const std::string reason = detail::format(
      "{}: event {} was recorded in a running capture, where the host cannot ask about it", call, event.index());
  invalidate(capture, reason);
  fail(ErrorCode::capture_invalidated, "{}; the capture is over", reason);
}

void GpuBackend::begin_capture(Stream stream) {
  state_->run([&] {
    StreamSlot& slot = state_->stream(stream, "begin_capture");
    refuse_in_capture(stream, "begin_capture");
    auto capture = std::make_shared<Capture>();
    capture->origin = stream;
    capture->members = {stream};
    do_begin_capture(slot.native);
    slot.capture = std::move(capture);
    slot.position = 0;
    slot.clock.clear();
    slot.invalidated.clear();
  });
}

Graph GpuBackend::end_capture(Stream stream) {
  return state_->run([&] {
    StreamSlot& slot = state_->stream(stream, "end_capture");
    const std::shared_ptr<Capture> capture = slot.capture;
    if (capture == nullptr) {
      const std::string reason = std::exchange(slot.invalidated, {});
      if (reason.empty())
        fail(ErrorCode::invalid_argument, "end_capture: no capture runs on stream {}", stream.index());
      fail(ErrorCode::capture_invalidated, "end_capture: the capture on stream {} had ended: {}", stream.index(),
           reason);
    }
    if (capture->origin != stream) refuse_in_capture(stream, "end_capture on a stream that joined");
    for (const Stream member : capture->members) {
      if (member == stream) continue;
      const auto seen = slot.clock.find(member.index());
      if (seen != slot.clock.end() && seen->second >= state_->stream(member, "end_capture").position) continue;
      const std::string reason = detail::format(
          "end_capture: stream {} joined the capture, and stream {} has not waited for the last of its work",
          member.index(), stream.index());
      invalidate(capture, reason);
      slot.invalidated.clear();  // reported here
      fail(ErrorCode::capture_invalidated, "{}; the capture is over", reason);
    }
    const Native native = slot.native;
    release_members(*state_, *capture, nullptr);
    const Native graph = do_end_capture(native);
    try {
      return state_->graphs.insert({graph});
    } catch (...) {
      do_destroy_graph(graph);
      throw;
    }
  });
}

void GpuBackend::launch_graph(Graph graph, Stream stream) {
  state_->run([&] {
    const StreamSlot& slot = state_->stream(stream, "launch_graph");
    const detail::GraphSlot& source = state_->graph(graph, "launch_graph");
    refuse_in_capture(stream, "launch_graph");
    do_launch_graph(source.native, slot.native);
  });
}

void GpuBackend::destroy_graph(Graph graph) {
  state_->run([&] {
    const detail::GraphSlot& slot = state_->graph(graph, "destroy_graph");
    do_destroy_graph(slot.native);
    state_->graphs.remove(graph);
  });
}

}  // namespace kdart
