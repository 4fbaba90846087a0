// Which kernels are under way, so that a fault can be told by name: the driver says only that one of them ran wild.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace kdart::common {

// Names that live as long as the device: what is under way outlives the sets that it came from.
class Names {
 public:
  // Throws std::bad_alloc.
  [[nodiscard]] const std::string* keep(std::string name) {
    const std::lock_guard lock(mutex_);
    return &*names_.insert(std::move(name)).first;
  }

 private:
  std::mutex mutex_;
  std::set<std::string, std::less<>> names_;
};

// The last launches of one stream since it was last seen idle. The stream's caller adds and clears; any thread reads.
class Launched {
 public:
  static constexpr std::size_t most = 8;

  void add(const std::string* name) noexcept {
    const std::uint32_t count = count_.load(std::memory_order_relaxed);
    names_[count % most].store(name, std::memory_order_relaxed);
    count_.store(count + 1, std::memory_order_release);
  }
  // The first `count` are done. What was added after that count was read stays.
  void forget(std::uint32_t count) noexcept {
    if (count_.load(std::memory_order_relaxed) == count) count_.store(0, std::memory_order_release);
  }
  [[nodiscard]] std::uint32_t count() const noexcept { return count_.load(std::memory_order_acquire); }
  // Oldest first, at most the last `most` of them; each name once.
  [[nodiscard]] std::vector<std::string_view> names() const;

 private:
  std::array<std::atomic<const std::string*>, most> names_{};
  std::atomic<std::uint32_t> count_{0};
};

// "kernel 'a'"; "one of the kernels 'a', 'b'"; with "or of those launched before" when there were more than are kept; "" for
// none. `lists` are the streams'.
[[nodiscard]] std::string suspects(const std::vector<const Launched*>& lists);

}  // namespace kdart::common
