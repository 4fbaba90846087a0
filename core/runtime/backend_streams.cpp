// Streams and events.
#include <algorithm>
#include <utility>

#include "core/runtime/backend_submit.h"
#include "kdart/backend.h"

namespace kdart {

using detail::EventSlot;
using detail::fail;
using detail::StreamSlot;

namespace {

// A deadline that has passed is a wait of no time.
Timeout not_negative(Timeout timeout) {
  if (timeout && timeout->count() < 0) return std::chrono::nanoseconds(0);
  return timeout;
}

[[noreturn]] void fail_timeout(std::string_view what, std::uint32_t index, Timeout timeout) {
  const double ms = timeout ? std::chrono::duration<double, std::milli>(*timeout).count() : 0.0;
  fail(ErrorCode::timeout, "{} {} had not finished after {:.3f} ms", what, index, ms);
}

// The merge of two views of what came before.
detail::CaptureClock merged(detail::CaptureClock a, const detail::CaptureClock& b) {
  for (const auto& [stream, position] : b) {
    std::uint64_t& mine = a[stream];
    mine = std::max(mine, position);
  }
  return a;
}

}  // namespace

Stream GpuBackend::insert_stream(Native stream) {
  StreamSlot slot;
  slot.native = stream;
  return state_->streams.insert(std::move(slot));
}

GpuBackend::Native GpuBackend::native_of(Stream stream, std::string_view call) const {
  return state_->run([&] { return state_->stream(stream, call).native; });
}

GpuBackend::Native GpuBackend::native_of(KernelHandle kernel, std::string_view call) const {
  return state_->run([&] { return state_->kernel(kernel, call).native; });
}

Stream GpuBackend::create_stream() {
  return state_->run([&] {
    const Native native = do_create_stream();
    try {
      return insert_stream(native);
    } catch (...) {
      do_destroy_stream(native);
      throw;
    }
  });
}

void GpuBackend::destroy_stream(Stream stream) {
  state_->run([&] {
    const StreamSlot& slot = state_->stream(stream, "destroy_stream");
    refuse_in_capture(stream, "destroy_stream");
    do_destroy_stream(slot.native);
    state_->streams.remove(stream);
  });
}

void GpuBackend::flush(Stream stream) {
  state_->run([&] {
    const StreamSlot& slot = state_->stream(stream, "flush");
    refuse_in_capture(stream, "flush");
    do_flush(slot.native);
  });
}

void GpuBackend::synchronize(Stream stream, Timeout timeout) {
  state_->run([&] {
    const StreamSlot& slot = state_->stream(stream, "synchronize");
    refuse_in_capture(stream, "synchronize");
    timeout = not_negative(timeout);
    const bool done = do_synchronize(slot.native, timeout);
    state_->check_usable();  // a fault found by a worker while this thread waited
    if (!done) fail_timeout("synchronize: the work of stream", stream.index(), timeout);
  });
}

Event GpuBackend::create_event() {
  return state_->run([&] {
    const Native native = do_create_event();
    try {
      EventSlot slot;
      slot.native = native;
      return state_->events.insert(std::move(slot));
    } catch (...) {
      do_destroy_event(native);
      throw;
    }
  });
}

void GpuBackend::destroy_event(Event event) {
  state_->run([&] {
    const EventSlot& slot = state_->event(event, "destroy_event");
    do_destroy_event(slot.native);
    state_->events.remove(event);
  });
}

void GpuBackend::record(Event event, Stream stream) {
  submit(stream, "record", [&](Native native) {
    EventSlot& slot = state_->event(event, "record");
    const StreamSlot& source = state_->stream(stream, "record");
    detail::CaptureClock clock;
    if (source.capture != nullptr) {
      clock = source.clock;
      clock[stream.index()] = source.position;
    }
    do_record(slot.native, native);
    slot.recorded = source.capture != nullptr ? EventSlot::Recorded::capture : EventSlot::Recorded::stream;
    slot.capture = source.capture;
    slot.clock = std::move(clock);
    return false;
  });
}

void GpuBackend::wait(Stream stream, Event event) {
  submit(stream, "wait", [&](Native native) {
    const EventSlot& source = state_->event(event, "wait");
    StreamSlot& slot = state_->stream(stream, "wait");
    if (source.recorded == EventSlot::Recorded::never) return false;
    const bool event_in_capture = source.capture != nullptr && source.capture->running;
    if (slot.capture != nullptr && slot.capture != source.capture) {
      if (event_in_capture) invalidate(source.capture, "a stream of another capture waited for one of its events");
      refuse_in_capture(stream, "wait for an event from outside the capture");
    }
    if (source.recorded == EventSlot::Recorded::capture && !event_in_capture) {
      fail(ErrorCode::invalid_argument,
           "wait: event {} was last recorded in a capture that is over, and stands for nothing until it is recorded "
           "again",
           event.index());
    }
    if (!event_in_capture) {
      do_wait(native, source.native);
      return false;
    }
    detail::CaptureClock clock = merged(slot.clock, source.clock);
    const bool joins = slot.capture == nullptr;
    if (joins) source.capture->members.reserve(source.capture->members.size() + 1);
    do_wait(native, source.native);
    slot.clock = std::move(clock);
    if (joins) {
      source.capture->members.push_back(stream);
      slot.capture = source.capture;
      slot.position = 1;  // joining alone has to be joined back
    }
    return false;
  });
}

void GpuBackend::wait_host(Event event, Timeout timeout) {
  state_->run([&] {
    const EventSlot& slot = state_->event(event, "wait_host");
    if (slot.recorded == EventSlot::Recorded::never) return;
    refuse_captured(event, "wait_host");
    timeout = not_negative(timeout);
    const bool done = do_wait_host(slot.native, timeout);
    state_->check_usable();
    if (!done) fail_timeout("wait_host: the work before event", event.index(), timeout);
  });
}

bool GpuBackend::query(Event event) {
  return state_->run([&] {
    const EventSlot& slot = state_->event(event, "query");
    if (slot.recorded == EventSlot::Recorded::never) return true;
    refuse_captured(event, "query");
    const bool passed = do_query(slot.native);
    state_->check_usable();
    return passed;
  });
}

double GpuBackend::elapsed_ms(Event start, Event end) {
  return state_->run([&] {
    for (const Event event : {start, end}) {
      const EventSlot& slot = state_->event(event, "elapsed_ms");
      if (slot.recorded == EventSlot::Recorded::never) {
        fail(ErrorCode::invalid_argument, "elapsed_ms: event {} was never recorded", event.index());
      }
      refuse_captured(event, "elapsed_ms");
      if (!do_query(slot.native)) {
        fail(ErrorCode::invalid_argument, "elapsed_ms: event {} has not passed yet", event.index());
      }
    }
    return do_elapsed_ms(state_->event(start, "elapsed_ms").native, state_->event(end, "elapsed_ms").native);
  });
}

}  // namespace kdart
