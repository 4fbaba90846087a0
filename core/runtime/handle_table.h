// Slots behind generation-checked handles.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "core/runtime/fail.h"

namespace kdart::detail {

// Objects of type T named by handles of type H. Looking a handle up takes no lock and never touches a value whose handle
// is stale; slots keep their address. The caller's contract (design: calls that name the same object do not overlap)
// excludes that a value is used while its own handle is removed.
//
// A generation is the table's tag and a count. The tag differs between backends, so that a handle of one is refused by
// another; a slot whose count is used up is never given out again.
template <class T, class H>
class HandleTable {
 public:
  static constexpr unsigned count_bits = 20;
  static constexpr std::uint32_t max_count = (1U << count_bits) - 1;
  static constexpr std::uint32_t max_tag = (1U << (32 - count_bits)) - 1;

  // `tag` is 1 .. max_tag.
  explicit HandleTable(std::uint32_t tag) noexcept : tag_(tag << count_bits) {}
  HandleTable(const HandleTable&) = delete;
  HandleTable& operator=(const HandleTable&) = delete;
  ~HandleTable() {
    for (std::atomic<Slot*>& chunk : chunks_) delete[] chunk.load(std::memory_order_relaxed);
  }

  // Throws out_of_host_memory, std::bad_alloc.
  H insert(T value) {
    const std::lock_guard lock(mutex_);
    const std::uint32_t index = free_.empty() ? grow() : free_.back();
    if (!free_.empty()) free_.pop_back();
    Slot& slot = used_slot(index);
    slot.value = std::move(value);
    const std::uint32_t generation = tag_ | ++slot.count;
    slot.generation.store(generation, std::memory_order_release);
    return H(index, generation);
  }

  // Null when the handle is empty, stale or from elsewhere.
  [[nodiscard]] T* find(H handle) const noexcept {
    const Place place = place_of(handle.index());
    if (!handle || place.chunk >= chunk_count) return nullptr;
    Slot* slots = chunks_[place.chunk].load(std::memory_order_acquire);
    if (slots == nullptr) return nullptr;
    Slot& slot = slots[place.offset];
    return slot.generation.load(std::memory_order_acquire) == handle.generation() ? &slot.value : nullptr;
  }

  // Takes the value out; the handle is stale from then on. Nothing when it already was.
  std::optional<T> remove(H handle) noexcept {
    const std::lock_guard lock(mutex_);
    if (find(handle) == nullptr) return std::nullopt;
    Slot& slot = used_slot(handle.index());
    slot.generation.store(0, std::memory_order_release);
    std::optional<T> value(std::move(slot.value));
    slot.value = T{};
    if (slot.count < max_count) free_.push_back(handle.index());  // grow() has reserved
    return value;
  }

  [[nodiscard]] std::vector<H> handles() const {
    const std::lock_guard lock(mutex_);
    std::vector<H> result;
    for (std::uint32_t index = 0; index < used_; ++index) {
      const std::uint32_t generation = used_slot(index).generation.load(std::memory_order_relaxed);
      if (generation != 0) result.emplace_back(index, generation);
    }
    return result;
  }

 private:
  struct Slot {
    std::atomic<std::uint32_t> generation{0};  // 0: free
    std::uint32_t count = 0;                   // generations given out so far
    T value{};
  };
  static constexpr std::uint32_t first_chunk = 32;  // chunk k holds first_chunk << k slots
  static constexpr std::size_t chunk_count = 22;

  struct Place {
    std::size_t chunk;
    std::uint32_t offset;
  };
  [[nodiscard]] static constexpr Place place_of(std::uint32_t index) noexcept {
    const auto chunk = static_cast<std::size_t>(std::bit_width(index / first_chunk + 1) - 1);
    return {chunk, index - first_chunk * ((1U << chunk) - 1)};
  }
  // Of an index below used_.
  [[nodiscard]] Slot& used_slot(std::uint32_t index) const noexcept {
    const Place place = place_of(index);
    return chunks_[place.chunk].load(std::memory_order_acquire)[place.offset];
  }

  std::uint32_t grow() {
    const std::uint32_t index = used_;
    const std::size_t chunk = place_of(index).chunk;
    if (chunk >= chunk_count) {
      fail(ErrorCode::out_of_host_memory, "{} handles of one kind are the most there can be", index);
    }
    if (chunks_[chunk].load(std::memory_order_relaxed) == nullptr) {
      free_.reserve(index + (std::size_t{first_chunk} << chunk));
      chunks_[chunk].store(new Slot[std::size_t{first_chunk} << chunk], std::memory_order_release);
    }
    ++used_;
    return index;
  }

  const std::uint32_t tag_;
  mutable std::mutex mutex_;  // insert and remove; find takes none
  std::array<std::atomic<Slot*>, chunk_count> chunks_{};
  std::vector<std::uint32_t> free_;
  std::uint32_t used_ = 0;
};

}  // namespace kdart::detail
