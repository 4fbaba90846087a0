// Host memory as device memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace kdart::cpu {

// Aligned host memory, up to `total` bytes at a time. Thread-safe.
class Memory {
 public:
  explicit Memory(std::uint64_t total) : total_(total) {}
  ~Memory();  // releases what is left
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // At least 256-byte aligned, contents undefined; null when the system or `total` says no. `bytes` is not 0.
  [[nodiscard]] void* allocate(std::uint64_t bytes) noexcept;
  void release(void* memory) noexcept;

  [[nodiscard]] std::uint64_t total() const noexcept { return total_; }
  [[nodiscard]] std::uint64_t live() const noexcept;
  // What allocate could still give: bounded by `total` and by what the system says is available.
  [[nodiscard]] std::uint64_t available() const noexcept;

 private:
  const std::uint64_t total_;
  mutable std::mutex mutex_;
  std::unordered_map<void*, std::uint64_t> sizes_;
  std::uint64_t live_ = 0;
};

}  // namespace kdart::cpu
