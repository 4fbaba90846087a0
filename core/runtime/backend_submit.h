// GpuBackend::submit, the frame of every call that a capture may hold; and the frame of all others for services.
#pragma once

#include "core/runtime/backend_state.h"
#include "kdart/backend.h"

namespace kdart {

// A vendor may find that a call cannot stand in a capture after all (an unprepared launch, say): its capture_invalidated
// ends the capture here too. Takes no lock.
template <class Body>
void GpuBackend::submit(Stream stream, std::string_view call, const Body& body) {
  state_->run([&] {
    detail::StreamSlot& slot = state_->stream(stream, call);
    try {
      if (body(slot.native) && slot.capture != nullptr) ++slot.position;
    } catch (const Error& error) {
      if (error.code() == ErrorCode::capture_invalidated && slot.capture != nullptr) {
        invalidate(slot.capture, error.what());
      }
      throw;
    }
  });
}

template <class Body>
decltype(auto) GpuBackend::run(const Body& body) {
  return state_->run(body);
}

}  // namespace kdart
