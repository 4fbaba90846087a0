// GpuBackend's own life: identity, the sticky error, the end.
#include "kdart/backend.h"

#include <utility>

#include "core/runtime/backend_state.h"

namespace kdart {

using detail::BackendState;

namespace {

constexpr std::uint32_t max_tag = detail::HandleTable<detail::StreamSlot, Stream>::max_tag;

// One step of an orderly end: whatever it throws, the next step is taken.
template <class Step>
void attempt(const Step& step) noexcept {
  try {
    step();
  } catch (...) {  // the driver is gone, or the device is: nothing is left to be released there
  }
}

}  // namespace

GpuBackend::GpuBackend(DeviceInfo info, OpenOptions options)
    : info_(std::move(info)),
      options_(std::move(options)),
      state_(std::make_unique<BackendState>(detail::next_backend_tag(max_tag))) {}

GpuBackend::~GpuBackend() = default;

DeviceFacts GpuBackend::facts() const {
  return state_->run([&] { return do_facts(); });
}

void* GpuBackend::find_service(std::string_view id) {
  return state_->run([&] { return do_service(id); });
}

void* GpuBackend::do_service(std::string_view) {
  return nullptr;
}

bool GpuBackend::do_is_captured_elsewhere(Native) {
  return false;
}

void GpuBackend::log(LogSeverity severity, std::string_view message) const {
  if (!options_.log) return;
  try {
    options_.log(severity, message);
  } catch (...) {  // a caller's log must not change what a call does
  }
}

void GpuBackend::set_sticky(const Error& error) noexcept {
  state_->set_sticky(error);
}

bool GpuBackend::forked() const noexcept {
  return state_->forked();
}

void GpuBackend::shut_down() noexcept {
  // The child of a fork has neither the driver's threads nor its state: whatever is released there belongs to the parent.
  if (state_->forked()) return;
  BackendState& state = *state_;
  attempt([&] {
    for (const Stream handle : state.streams.handles()) {
      abort_capture(handle);
      if (const detail::StreamSlot* slot = state.streams.find(handle)) {
        attempt([&] { static_cast<void>(do_synchronize(slot->native, std::nullopt)); });
      }
    }
  });
  attempt([&] {
    for (const Graph handle : state.graphs.handles()) {
      if (const auto graph = state.graphs.remove(handle)) attempt([&] { do_destroy_graph(graph->native); });
    }
  });
  attempt([&] {
    for (const Event handle : state.events.handles()) {
      if (const auto event = state.events.remove(handle)) attempt([&] { do_destroy_event(event->native); });
    }
  });
  attempt([&] {
    for (const Stream handle : state.streams.handles()) {
      if (const auto stream = state.streams.remove(handle)) attempt([&] { do_destroy_stream(stream->native); });
    }
  });
  detail::RangeMap ranges;
  detail::RangeMap pinned;
  {
    const std::lock_guard lock(state.memory_mutex);
    std::swap(ranges, state.ranges);
    std::swap(pinned, state.pinned);
    state.live_bytes = 0;
  }
  for (const auto& [address, range] : ranges.all()) {
    const DevicePtr memory(address);
    attempt([&] { range.kind == detail::RangeKind::import ? do_release_import(memory) : do_free(memory); });
  }
  for (const auto& [address, range] : pinned.all()) {
    attempt([&] { do_free_pinned(reinterpret_cast<void*>(static_cast<std::uintptr_t>(address))); });
  }
}

}  // namespace kdart
