// A vendor's objects behind the 64-bit natives that GpuBackend keeps for it: a native is its object's address. The base
// class lets no stale one through.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace kdart::detail {

[[nodiscard]] inline std::uint64_t native_of(const void* object) noexcept {
  return reinterpret_cast<std::uintptr_t>(object);
}

template <class T>
[[nodiscard]] T* object_at(std::uint64_t native) noexcept {
  return reinterpret_cast<T*>(static_cast<std::uintptr_t>(native));
}

// The objects of one kind that a device has. Any number of threads.
template <class T>
class ObjectTable {
 public:
  // Keeps the object and gives its native. Throws std::bad_alloc.
  std::uint64_t insert(std::shared_ptr<T> object) {
    const std::uint64_t native = native_of(object.get());
    const std::lock_guard lock(mutex_);
    objects_.emplace(native, std::move(object));
    return native;
  }
  // The object with its ownership; null when it is not there.
  [[nodiscard]] std::shared_ptr<T> get(std::uint64_t native) const {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(native);
    return found == objects_.end() ? nullptr : found->second;
  }
  // Takes it out. What the caller lets go of is destroyed outside the lock.
  std::shared_ptr<T> remove(std::uint64_t native) {
    const std::lock_guard lock(mutex_);
    auto entry = objects_.extract(native);
    return entry ? std::move(entry.mapped()) : nullptr;
  }
  [[nodiscard]] std::vector<std::shared_ptr<T>> all() const {
    std::vector<std::shared_ptr<T>> objects;
    const std::lock_guard lock(mutex_);
    objects.reserve(objects_.size());
    for (const auto& [native, object] : objects_) objects.push_back(object);
    return objects;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<T>> objects_;
};

// The capture that a stream or an event points at, as long as it runs; null when there is none. Streams and events keep
// pointing at a capture that is over, and take no notice of it; so ending one touches no stream of another thread.
template <class Capture>
[[nodiscard]] Capture* running(std::shared_ptr<Capture>& capture) noexcept {
  if (capture != nullptr && !capture->open()) capture.reset();
  return capture.get();
}

}  // namespace kdart::detail
