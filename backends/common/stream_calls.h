// DriverBackend: streams, events, and waiting for them.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

#include "backends/common/device.h"

namespace kdart::common {

// Asks until the answer is no longer Api::not_ready, which it gives when the time is up first.
template <class Api, class Query>
typename Api::Result wait_until(const Query& query, std::chrono::nanoseconds timeout) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  constexpr std::chrono::nanoseconds longest_pause = std::chrono::milliseconds(1);
  for (std::chrono::nanoseconds pause(0);;) {
    const auto result = query();
    const std::chrono::nanoseconds waited = Clock::now() - start;
    if (result != Api::not_ready || waited >= timeout) return result;
    if (waited > std::chrono::microseconds(100)) pause = std::min(longest_pause, waited / 8);
    if (pause.count() != 0) std::this_thread::sleep_for(std::min(pause, timeout - waited));
  }
}

template <class Api>
bool DriverBackend<Api>::wait_for(DriverStream<Api>& stream, Timeout timeout) {
  const std::uint32_t launches = stream.launched.count();
  if (timeout) {
    const Result result = wait_until<Api>([&] { return driver().stream_query(stream.get()); }, *timeout);
    if (result == Api::not_ready) return false;
    check(result, "waiting for a stream");
  } else {
    check(driver().stream_synchronize(stream.get()), "waiting for a stream");
  }
  stream.launched.forget(launches);
  return true;
}

template <class Api>
void DriverBackend<Api>::wait_for_all() {
  for (const auto& stream : parts_->streams.all()) {
    const std::shared_lock lock(parts_->captures);
    if (stream->capture != nullptr && stream->capture->open()) continue;
    if (!is_captured_by_owner(*stream)) static_cast<void>(wait_for(*stream, std::nullopt));
  }
}

template <class Api>
bool DriverBackend<Api>::is_captured_by_owner(const DriverStream<Api>& stream) const {
  if (stream.owned()) return false;
  int status = Api::capture_none;
  const Result asked = driver().stream_is_capturing(stream.get(), &status);
  // The default stream, for which nobody may wait while a stream that it would wait for is captured.
  if (asked == Api::capture_implicit) return true;
  check(asked, "asking whether a stream is captured");
  return status != Api::capture_none;
}

template <class Api>
GpuBackend::Native DriverBackend<Api>::do_create_stream() {
  const Current current(*context_);
  return naming_culprits("creating a stream",
                         [&] { return parts_->streams.insert(std::make_shared<DriverStream<Api>>(*context_)); });
}

template <class Api>
void DriverBackend<Api>::do_destroy_stream(Native stream) {
  const Current current(*context_);
  try {
    static_cast<void>(wait_for(stream_of(stream), std::nullopt));
  } catch (const Error& error) {
    if (!is_sticky(error.code())) throw;  // on a finished device nothing runs any more
    set_sticky(error);                    // while it is known what the stream had been given
  }
  parts_->streams.remove(stream);
}

// The driver has everything as soon as it is given.
template <class Api>
void DriverBackend<Api>::do_flush(Native) {}

template <class Api>
bool DriverBackend<Api>::do_synchronize(Native stream, Timeout timeout) {
  const Current current(*context_);
  return wait_for(stream_of(stream), timeout);
}

template <class Api>
bool DriverBackend<Api>::do_is_captured_elsewhere(Native stream) {
  const Current current(*context_);
  return is_captured_by_owner(stream_of(stream));
}

template <class Api>
GpuBackend::Native DriverBackend<Api>::do_create_event() {
  const Current current(*context_);
  return naming_culprits("creating an event",
                         [&] { return parts_->events.insert(std::make_shared<DriverEvent<Api>>(*context_)); });
}

template <class Api>
void DriverBackend<Api>::do_destroy_event(Native event) {
  const Current current(*context_);
  parts_->events.remove(event);
}

template <class Api>
void DriverBackend<Api>::do_record(Native event, Native stream) {
  const Current current(*context_);
  DriverEvent<Api>& target = event_of(event);
  DriverStream<Api>& queue = stream_of(stream);
  check(driver().event_record(target.get(), queue.get()), "recording an event");
  target.capture = queue.capturing() ? queue.capture : nullptr;
}

template <class Api>
void DriverBackend<Api>::do_wait(Native stream, Native event) {
  const Current current(*context_);
  DriverEvent<Api>& waited = event_of(event);
  DriverStream<Api>& queue = stream_of(stream);
  check(driver().stream_wait_event(queue.get(), waited.get(), 0), "making a stream wait for an event");
  if (waited.capture == nullptr || !waited.capture->open() || queue.capture == waited.capture) return;
  const std::unique_lock lock(parts_->captures);
  queue.capture = waited.capture;  // the stream joins
}

template <class Api>
bool DriverBackend<Api>::do_wait_host(Native event, Timeout timeout) {
  const Current current(*context_);
  const auto waited = event_of(event).get();
  const Result result = timeout ? wait_until<Api>([&] { return driver().event_query(waited); }, *timeout)
                                : driver().event_synchronize(waited);
  if (result == Api::not_ready) return false;
  check(result, "waiting for an event");
  return true;
}

template <class Api>
bool DriverBackend<Api>::do_query(Native event) {
  const Current current(*context_);
  const Result result = driver().event_query(event_of(event).get());
  if (result == Api::not_ready) return false;
  check(result, "asking about an event");
  return true;
}

template <class Api>
double DriverBackend<Api>::do_elapsed_ms(Native start, Native end) {
  const Current current(*context_);
  float ms = 0.0F;
  check(driver().event_elapsed_time(&ms, event_of(start).get(), event_of(end).get()),
        "reading the time between two events");
  return static_cast<double>(ms);
}

template <class Api>
Stream DriverBackend<Api>::insert_adopted(typename Api::Stream stream) {
  const Native native = parts_->streams.insert(std::make_shared<DriverStream<Api>>(*context_, stream));
  try {
    return insert_stream(native);
  } catch (...) {
    parts_->streams.remove(native);
    throw;
  }
}

}  // namespace kdart::common
