#include "backends/vulkan/memory.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "backends/vulkan/errors.h"
#include "core/runtime/fail.h"

namespace kdart::vulkan {
namespace {

constexpr std::uint64_t guard_bytes = 4096;   // behind a dedicated buffer
constexpr std::size_t kept_empty_blocks = 1;  // so that freeing and allocating in turn does not go to the driver
constexpr std::size_t max_spare_chunks = 16;

constexpr std::uint64_t align_up(std::uint64_t x, std::uint64_t alignment) noexcept {
  return (x + alignment - 1) / alignment * alignment;
}

}  // namespace

// --- one buffer -------------------------------------------------------------------------------------------------------

VkBuffer MemoryBuffer::make_buffer(std::uint64_t bytes) const {
  VkBufferCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  info.size = bytes;
  info.usage =
      VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
  VkBuffer buffer = VK_NULL_HANDLE;
  check_vk(device_->fn().vkCreateBuffer(device_->get(), &info, nullptr, &buffer), "creating a buffer");
  return buffer;
}

MemoryBuffer::MemoryBuffer(const LogicalDevice& device, std::uint64_t bytes, const std::vector<std::uint32_t>& types,
                           bool map, std::uint64_t slack)
    : device_(&device), bytes_(bytes) {
  const DeviceFunctions& fn = device.fn();
  try {
    buffer_ = make_buffer(bytes);
    VkMemoryRequirements needed{};
    fn.vkGetBufferMemoryRequirements(device.get(), buffer_, &needed);

    VkMemoryAllocateFlagsInfo flags{};
    flags.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO;
    flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
    VkMemoryAllocateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
    info.pNext = &flags;
    info.allocationSize = needed.size + slack;
    VkResult result = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    for (const std::uint32_t type : types) {
      if ((needed.memoryTypeBits >> type & 1U) == 0) continue;
      info.memoryTypeIndex = type;
      result = fn.vkAllocateMemory(device.get(), &info, nullptr, &memory_);
      if (result == VK_SUCCESS) {
        coherent_ = (device.facts().memory_types[type].flags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT) != 0;
        break;
      }
      memory_ = VK_NULL_HANDLE;
      if (code_of(result) != ErrorCode::out_of_device_memory && code_of(result) != ErrorCode::out_of_host_memory) break;
    }
    if (result != VK_SUCCESS) {
      const std::string text = detail::format("allocating {} bytes", bytes);
      // Whatever the driver calls it: there is no room for this allocation.
      if (result == VK_ERROR_OUT_OF_HOST_MEMORY) result = VK_ERROR_OUT_OF_DEVICE_MEMORY;
      fail_vk(result, text);
    }
    check_vk(fn.vkBindBufferMemory(device.get(), buffer_, memory_, 0), "binding a buffer to its memory");
    VkBufferDeviceAddressInfo address{};
    address.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO;
    address.buffer = buffer_;
    address_ = fn.vkGetBufferDeviceAddress(device.get(), &address);
    if (map) {
      void* data = nullptr;
      check_vk(fn.vkMapMemory(device.get(), memory_, 0, VK_WHOLE_SIZE, 0, &data), "mapping host-visible memory");
      data_ = static_cast<std::byte*>(data);
    }
  } catch (...) {
    reset();
    throw;
  }
}

MemoryBuffer& MemoryBuffer::operator=(MemoryBuffer&& other) noexcept {
  if (this == &other) return *this;
  reset();
  device_ = std::exchange(other.device_, nullptr);
  buffer_ = std::exchange(other.buffer_, VK_NULL_HANDLE);
  memory_ = std::exchange(other.memory_, VK_NULL_HANDLE);
  address_ = std::exchange(other.address_, 0);
  bytes_ = std::exchange(other.bytes_, 0);
  data_ = std::exchange(other.data_, nullptr);
  coherent_ = other.coherent_;
  return *this;
}

void MemoryBuffer::reset() noexcept {
  if (device_ == nullptr) return;
  const DeviceFunctions& fn = device_->fn();
  if (data_ != nullptr) fn.vkUnmapMemory(device_->get(), memory_);
  if (buffer_ != VK_NULL_HANDLE) fn.vkDestroyBuffer(device_->get(), buffer_, nullptr);
  if (memory_ != VK_NULL_HANDLE) fn.vkFreeMemory(device_->get(), memory_, nullptr);
  device_ = nullptr;
  buffer_ = VK_NULL_HANDLE;
  memory_ = VK_NULL_HANDLE;
  data_ = nullptr;
}

void MemoryBuffer::invalidate() const {
  if (coherent_) return;
  VkMappedMemoryRange range{};
  range.sType = VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE;
  range.memory = memory_;
  range.size = VK_WHOLE_SIZE;
  check_vk(device_->fn().vkInvalidateMappedMemoryRanges(device_->get(), 1, &range), "reading back memory");
}

// --- device memory ----------------------------------------------------------------------------------------------------

// Allocations of at least half a block get a block of their own: sharing it would leave holes nobody fits in.
DevicePtr DeviceMemory::allocate(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const DevicePlan& plan = device_->plan();
  if (bytes > plan.max_block_bytes) {
    detail::fail(ErrorCode::out_of_device_memory, "{} bytes are more than one allocation can have, {} bytes", bytes,
                 plan.max_block_bytes);
  }
  const std::uint64_t rounded = align_up(bytes, alignment);
  if (dedicated_) {
    // Whole words: a fill of the last bytes touches the word that they lie in.
    Block& block = add_block(align_up(bytes, 4), guard_bytes);
    block.free.clear();
    block.used = 1;
    const std::uint64_t address = align_up(block.memory.address(), alignment);
    sizes_.emplace(address, bytes);
    return DevicePtr(address);
  }
  if (rounded < plan.block_bytes / 2) {
    for (auto& [address, block] : blocks_) {
      if (const auto offset = take(*block, rounded)) {
        sizes_.emplace(address + *offset, rounded);
        return DevicePtr(address + *offset);
      }
    }
  }
  Block& block = add_block(rounded < plan.block_bytes / 2 ? plan.block_bytes : rounded, 0);
  const std::uint64_t offset = take(block, rounded).value();
  sizes_.emplace(block.memory.address() + offset, rounded);
  return DevicePtr(block.memory.address() + offset);
}

DeviceMemory::Block& DeviceMemory::add_block(std::uint64_t bytes, std::uint64_t slack) {
  const DevicePlan& plan = device_->plan();
  auto block = std::make_unique<Block>();
  // Some drivers promise more than there is, and fail when the memory is used.
  const auto make = [&](std::uint64_t size) {
    const MemoryInfo memory = device_->memory_info(reserved_);
    if (size > memory.free) {
      detail::fail(ErrorCode::out_of_device_memory, "{} bytes are asked for, and {} of {} are free", size, memory.free,
                   memory.total);
    }
    return MemoryBuffer(*device_, size, plan.device_types, false, slack);
  };
  try {
    block->memory = make(bytes);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::out_of_device_memory) throw;
    drop_empty_blocks(0);  // they may be in the way
    block->memory = make(bytes);
  }
  // Drivers align buffers to less than kdart promises. The block then begins inside its buffer.
  const std::uint64_t shift = align_up(block->memory.address(), alignment) - block->memory.address();
  if (shift != 0) {
    block->memory = MemoryBuffer();
    block->memory = make(bytes + alignment);
  }
  const std::uint64_t begin = align_up(block->memory.address(), alignment) - block->memory.address();
  block->free.emplace(begin, block->memory.bytes() - begin);
  reserved_ += block->memory.bytes();
  const std::uint64_t address = block->memory.address();
  return *blocks_.emplace(address, std::move(block)).first->second;
}

std::optional<std::uint64_t> DeviceMemory::take(Block& block, std::uint64_t bytes) {
  for (auto hole = block.free.begin(); hole != block.free.end(); ++hole) {
    if (hole->second < bytes) continue;
    const std::uint64_t offset = hole->first;
    const std::uint64_t left = hole->second - bytes;
    block.free.erase(hole);
    if (left > 0) block.free.emplace(offset + bytes, left);
    ++block.used;
    return offset;
  }
  return std::nullopt;
}

void DeviceMemory::give(Block& block, std::uint64_t offset, std::uint64_t bytes) {
  auto next = block.free.lower_bound(offset);
  if (next != block.free.end() && next->first == offset + bytes) {
    bytes += next->second;
    next = block.free.erase(next);
  }
  if (next != block.free.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  block.free.emplace(offset, bytes);
}

void DeviceMemory::release(DevicePtr memory) noexcept {
  const std::lock_guard lock(mutex_);
  const auto size = sizes_.find(memory.address());
  if (size == sizes_.end()) return;
  const auto entry = std::prev(blocks_.upper_bound(memory.address()));
  Block& block = *entry->second;
  if (!dedicated_) give(block, memory.address() - entry->first, size->second);
  sizes_.erase(size);
  if (--block.used == 0) drop_empty_blocks(dedicated_ ? 0 : kept_empty_blocks);
}

void DeviceMemory::drop_empty_blocks(std::size_t keep) noexcept {
  for (auto entry = blocks_.begin(); entry != blocks_.end();) {
    const Block& block = *entry->second;
    const bool usual = block.memory.bytes() == device_->plan().block_bytes;
    if (block.used > 0 || (usual && keep > 0)) {
      if (block.used == 0) --keep;
      ++entry;
      continue;
    }
    reserved_ -= block.memory.bytes();
    entry = blocks_.erase(entry);
  }
}

std::optional<BufferPlace> DeviceMemory::find(DevicePtr address) const {
  const std::shared_lock lock(mutex_);
  auto entry = blocks_.upper_bound(address.address());
  if (entry == blocks_.begin()) return std::nullopt;
  --entry;
  const std::uint64_t offset = address.address() - entry->first;
  if (offset >= entry->second->memory.bytes()) return std::nullopt;
  return BufferPlace{entry->second->memory.buffer(), offset};
}

std::uint64_t DeviceMemory::reserved_bytes() const {
  const std::shared_lock lock(mutex_);
  return reserved_;
}

// --- host memory ------------------------------------------------------------------------------------------------------

void* PinnedMemory::allocate(std::uint64_t bytes) {
  MemoryBuffer buffer;
  try {
    buffer = MemoryBuffer(*device_, bytes, device_->plan().pinned_types, true);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::out_of_device_memory) throw;
    return nullptr;
  }
  void* data = buffer.data();
  const std::lock_guard lock(mutex_);
  buffers_.emplace(reinterpret_cast<std::uintptr_t>(data), std::move(buffer));
  return data;
}

void PinnedMemory::release(void* memory) noexcept {
  const std::lock_guard lock(mutex_);
  buffers_.erase(reinterpret_cast<std::uintptr_t>(memory));
}

BufferPlace PinnedMemory::find(const void* memory) const {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const std::shared_lock lock(mutex_);
  const auto& [begin, buffer] = *std::prev(buffers_.upper_bound(address));
  return {buffer.buffer(), address - begin};
}

DevicePtr PinnedMemory::device_address(const void* memory) const {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const std::shared_lock lock(mutex_);
  const auto& [begin, buffer] = *std::prev(buffers_.upper_bound(address));
  return DevicePtr(buffer.address() + (address - begin));
}

MemoryBuffer StagingPool::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!spare_.empty()) {
      MemoryBuffer chunk = std::move(spare_.back());
      spare_.pop_back();
      return chunk;
    }
  }
  return {*device_, chunk_bytes, *types_, true};
}

void StagingPool::give(MemoryBuffer chunk) noexcept {
  const std::lock_guard lock(mutex_);
  if (spare_.size() >= max_spare_chunks) return;
  try {
    spare_.push_back(std::move(chunk));
  } catch (...) {  // the chunk goes back to the driver
  }
}

}  // namespace kdart::vulkan
