// Streams and events.
#pragma once

#include <memory>

#include "backends/common/graph.h"
#include "backends/common/launched.h"
#include "kdart/backend.h"

namespace kdart::common {

// Runs in order with itself alone: not with the legacy default stream.
template <class Api>
class DriverStream {
 public:
  using Context = typename Api::Context;
  using Native = typename Api::Stream;

  // Throws what Api::check throws.
  explicit DriverStream(const Context& context) : context_(&context) {
    Api::check(context.driver().stream_create(&stream_, Api::stream_non_blocking), "creating a stream");
    owned_ = true;
  }
  // The caller's.
  DriverStream(const Context& context, Native adopted) noexcept : context_(&context), stream_(adopted) {}
  ~DriverStream() {
    if (owned_) static_cast<void>(context_->driver().stream_destroy(stream_));
  }
  DriverStream(const DriverStream&) = delete;
  DriverStream& operator=(const DriverStream&) = delete;

  [[nodiscard]] Native get() const noexcept { return stream_; }

  Launched launched;
  // The capture that it takes part in, or took part in last. Changed by the stream's caller, under the device's lock.
  std::shared_ptr<Capture<Api>> capture;
  [[nodiscard]] bool capturing() const noexcept { return capture != nullptr && capture->open(); }
  [[nodiscard]] bool owned() const noexcept { return owned_; }

 private:
  const Context* context_;
  Native stream_ = nullptr;
  bool owned_ = false;
};

template <class Api>
class DriverEvent {
 public:
  using Context = typename Api::Context;
  using Native = typename Api::Event;

  // Throws what Api::check throws.
  explicit DriverEvent(const Context& context) : context_(&context) {
    Api::check(context.driver().event_create(&event_, Api::event_default), "creating an event");
  }
  ~DriverEvent() { static_cast<void>(context_->driver().event_destroy(event_)); }
  DriverEvent(const DriverEvent&) = delete;
  DriverEvent& operator=(const DriverEvent&) = delete;

  [[nodiscard]] Native get() const noexcept { return event_; }

  std::shared_ptr<Capture<Api>> capture;  // that recorded it last, if that came after its last real record

 private:
  const Context* context_;
  Native event_ = nullptr;
};

}  // namespace kdart::common
