// Device and host memory: few large allocations of the driver, shared out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <vector>

#include "backends/vulkan/logical_device.h"
#include "kdart/types.h"

namespace kdart::vulkan {

// A VkBuffer over memory of its own; mapped when the memory is host-visible. Move-only.
class MemoryBuffer {
 public:
  MemoryBuffer() = default;
  // `bytes` of the first of `types` that has room and that a buffer may have; `slack` bytes more of memory than of buffer.
  // Throws Error(out_of_device_memory).
  MemoryBuffer(const LogicalDevice& device, std::uint64_t bytes, const std::vector<std::uint32_t>& types, bool map,
               std::uint64_t slack = 0);
  ~MemoryBuffer() { reset(); }
  MemoryBuffer(MemoryBuffer&& other) noexcept { *this = std::move(other); }
  MemoryBuffer& operator=(MemoryBuffer&& other) noexcept;
  MemoryBuffer(const MemoryBuffer&) = delete;
  MemoryBuffer& operator=(const MemoryBuffer&) = delete;

  [[nodiscard]] VkBuffer buffer() const noexcept { return buffer_; }
  [[nodiscard]] VkDeviceMemory memory() const noexcept { return memory_; }
  [[nodiscard]] std::uint64_t address() const noexcept { return address_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::byte* data() const noexcept { return data_; }  // null when not mapped
  // Makes what the device wrote visible to the host, where the memory is not coherent.
  void invalidate() const;

 private:
  void reset() noexcept;
  [[nodiscard]] VkBuffer make_buffer(std::uint64_t bytes) const;

  const LogicalDevice* device_ = nullptr;
  VkBuffer buffer_ = VK_NULL_HANDLE;
  VkDeviceMemory memory_ = VK_NULL_HANDLE;
  std::uint64_t address_ = 0, bytes_ = 0;
  std::byte* data_ = nullptr;
  bool coherent_ = true;
};

// Where an address or a host pointer lies in a VkBuffer.
struct BufferPlace {
  VkBuffer buffer;
  std::uint64_t offset;
};

// Device memory by address. Any thread.
class DeviceMemory {
 public:
  static constexpr std::uint64_t alignment = 256;

  // `dedicated`: a buffer for each allocation that ends with the word where it ends, with guard memory behind it.
  DeviceMemory(const LogicalDevice& device, bool dedicated) : device_(&device), dedicated_(dedicated) {}

  // Throws Error(out_of_device_memory).
  [[nodiscard]] DevicePtr allocate(std::uint64_t bytes);
  // The caller has seen to it that no work uses it.
  void release(DevicePtr memory) noexcept;
  // The buffer that `address` lies in; nothing for imports.
  [[nodiscard]] std::optional<BufferPlace> find(DevicePtr address) const;
  [[nodiscard]] std::uint64_t reserved_bytes() const;  // in the driver's allocations

 private:
  struct Block {
    MemoryBuffer memory;
    std::map<std::uint64_t, std::uint64_t> free;  // offset -> bytes, never adjacent
    std::uint64_t used = 0;                       // allocations
  };
  [[nodiscard]] std::optional<std::uint64_t> take(Block& block, std::uint64_t bytes);
  void give(Block& block, std::uint64_t offset, std::uint64_t bytes);
  Block& add_block(std::uint64_t bytes, std::uint64_t slack);
  void drop_empty_blocks(std::size_t keep) noexcept;

  const LogicalDevice* device_;
  bool dedicated_;
  mutable std::shared_mutex mutex_;
  std::map<std::uint64_t, std::unique_ptr<Block>> blocks_;  // by address
  std::map<std::uint64_t, std::uint64_t> sizes_;            // address -> bytes taken
  std::uint64_t reserved_ = 0;
};

// Page-locked host memory for the caller. Any thread.
class PinnedMemory {
 public:
  explicit PinnedMemory(const LogicalDevice& device) : device_(&device) {}
  [[nodiscard]] void* allocate(std::uint64_t bytes);  // null when there is none
  void release(void* memory) noexcept;
  // Of memory that allocate gave.
  [[nodiscard]] BufferPlace find(const void* memory) const;
  [[nodiscard]] DevicePtr device_address(const void* memory) const;

 private:
  const LogicalDevice* device_;
  mutable std::shared_mutex mutex_;
  std::map<std::uintptr_t, MemoryBuffer> buffers_;
};

// Mapped chunks through which data passes on its way to the device or back. Any thread. A chunk is given back when nothing
// uses it any more.
class StagingPool {
 public:
  static constexpr std::uint64_t chunk_bytes = std::uint64_t{4} << 20;

  StagingPool(const LogicalDevice& device, const std::vector<std::uint32_t>& types)
      : device_(&device), types_(&types) {}
  [[nodiscard]] MemoryBuffer take();
  void give(MemoryBuffer chunk) noexcept;

 private:
  const LogicalDevice* device_;
  const std::vector<std::uint32_t>* types_;
  std::mutex mutex_;
  std::vector<MemoryBuffer> spare_;
};

}  // namespace kdart::vulkan
