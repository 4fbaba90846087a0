// Move-only owners of what a GpuBackend gives out. Each keeps its backend alive and releases in its destructor, which
// never throws (a failure to release goes to the log callback). A moved-from owner is empty.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "kdart/backend.h"
#include "kdart/export.h"
#include "kdart/types.h"

namespace kdart {

namespace detail {
KDART_API void release(GpuBackend& backend, DevicePtr memory) noexcept;
KDART_API void release(GpuBackend& backend, void* pinned) noexcept;
KDART_API void release(GpuBackend& backend, Stream stream) noexcept;
KDART_API void release(GpuBackend& backend, Event event) noexcept;
KDART_API void release(GpuBackend& backend, Graph graph) noexcept;

template <class T>
class Owner {
 public:
  Owner() = default;
  Owner(std::shared_ptr<GpuBackend> backend, T value) noexcept : backend_(std::move(backend)), value_(value) {}
  Owner(Owner&& other) noexcept : backend_(std::move(other.backend_)), value_(std::exchange(other.value_, T{})) {}
  Owner& operator=(Owner&& other) noexcept {
    if (this != &other) {
      reset();
      backend_ = std::move(other.backend_);
      value_ = std::exchange(other.value_, T{});
    }
    return *this;
  }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
  ~Owner() { reset(); }

  [[nodiscard]] T get() const noexcept { return value_; }
  [[nodiscard]] explicit operator bool() const noexcept { return backend_ != nullptr; }
  [[nodiscard]] const std::shared_ptr<GpuBackend>& backend() const noexcept { return backend_; }
  // Gives the value up: the caller now releases it through the backend.
  [[nodiscard]] T release() noexcept {
    backend_.reset();
    return std::exchange(value_, T{});
  }
  void reset() noexcept {
    if (backend_ != nullptr && value_ != T{}) detail::release(*backend_, value_);
    value_ = T{};
    backend_.reset();
  }

 private:
  std::shared_ptr<GpuBackend> backend_;
  T value_{};
};
}  // namespace detail

// Device memory of a known size.
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::shared_ptr<GpuBackend> backend, std::uint64_t bytes)
      : owner_(backend, backend->alloc(bytes)), bytes_(bytes) {}
  [[nodiscard]] DevicePtr get() const noexcept { return owner_.get(); }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return owner_ ? bytes_ : 0; }
  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(owner_); }

 private:
  detail::Owner<DevicePtr> owner_;
  std::uint64_t bytes_ = 0;
};

class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  PinnedBuffer(std::shared_ptr<GpuBackend> backend, std::uint64_t bytes)
      : owner_(backend, backend->alloc_pinned(bytes)), bytes_(bytes) {}
  [[nodiscard]] void* get() const noexcept { return owner_.get(); }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return owner_ ? bytes_ : 0; }

 private:
  detail::Owner<void*> owner_;
  std::uint64_t bytes_ = 0;
};

class OwnedStream : public detail::Owner<Stream> {
 public:
  OwnedStream() = default;
  explicit OwnedStream(std::shared_ptr<GpuBackend> backend) : Owner(backend, backend->create_stream()) {}
};

class OwnedEvent : public detail::Owner<Event> {
 public:
  OwnedEvent() = default;
  explicit OwnedEvent(std::shared_ptr<GpuBackend> backend) : Owner(backend, backend->create_event()) {}
};

class OwnedGraph : public detail::Owner<Graph> {
 public:
  OwnedGraph() = default;
  OwnedGraph(std::shared_ptr<GpuBackend> backend, Graph graph) noexcept : Owner(std::move(backend), graph) {}
};

}  // namespace kdart
