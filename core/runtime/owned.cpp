#include "kdart/owned.h"

#include <string>

#include "kdart/error.h"

namespace kdart::detail {

void log_release(const GpuBackend& backend, std::string_view message) noexcept {
  backend.log(LogSeverity::warning, message);
}

namespace {

// A destructor cannot report: what a caller can still act on goes to the log. A finished device has said so already.
template <class Release>
void attempt(GpuBackend& backend, const char* what, const Release& release) noexcept {
  try {
    release();
  } catch (const Error& error) {
    if (is_sticky(error.code())) return;
    try {
      log_release(backend, std::string("could not release ") + what + ": " + error.what());
    } catch (...) {  // no memory for the message
    }
  } catch (...) {  // nothing but Error leaves a backend
  }
}

}  // namespace

void release(GpuBackend& backend, DevicePtr memory) noexcept {
  attempt(backend, "device memory", [&] { backend.free(memory); });
}
void release(GpuBackend& backend, void* pinned) noexcept {
  attempt(backend, "page-locked memory", [&] { backend.free_pinned(pinned); });
}
void release(GpuBackend& backend, Stream stream) noexcept {
  attempt(backend, "a stream", [&] { backend.destroy_stream(stream); });
}
void release(GpuBackend& backend, Event event) noexcept {
  attempt(backend, "an event", [&] { backend.destroy_event(event); });
}
void release(GpuBackend& backend, Graph graph) noexcept {
  attempt(backend, "a graph", [&] { backend.destroy_graph(graph); });
}

}  // namespace kdart::detail
