#include "backends/cpu/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "backends/cpu/addresses.h"
#include "backends/cpu/device.h"
#include "backends/cpu/errors.h"
#include "backends/cpu/stream.h"
#include "core/runtime/format.h"

namespace kdart::cpu {
namespace {

constexpr std::uint64_t small_alignment = 256;
// Large blocks are aligned to huge pages and ask for them: weights are streamed, and 4 KiB pages would spend the time
// on translation misses.
constexpr std::uint64_t huge_page = std::uint64_t{2} << 20;

// Unpinned sources up to this size are copied aside; larger ones are waited for.
constexpr std::uint64_t max_staged_bytes = std::uint64_t{4} << 20;

void* allocate_aligned(std::uint64_t bytes) noexcept {
  const std::uint64_t alignment = bytes >= 2 * huge_page ? huge_page : small_alignment;
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, bytes) != 0) return nullptr;
  if (alignment == huge_page) madvise(memory, bytes, MADV_HUGEPAGE);  // advice: a refusal costs speed alone
  return memory;
}

// MemAvailable of /proc/meminfo in bytes; the largest number when the system does not say.
std::uint64_t system_available() noexcept {
  std::uint64_t kib = 0;
  bool found = false;
  if (std::FILE* file = std::fopen("/proc/meminfo", "re")) {
    char line[128];
    while (!found && std::fgets(line, sizeof line, file) != nullptr) {
      constexpr std::string_view key = "MemAvailable:";
      if (std::strncmp(line, key.data(), key.size()) != 0) continue;
      kib = std::strtoull(line + key.size(), nullptr, 10);
      found = true;
    }
    std::fclose(file);
  }
  return found ? kib * 1024 : ~std::uint64_t{0};
}

}  // namespace

Memory::~Memory() {
  for (const auto& [memory, bytes] : sizes_) std::free(memory);
}

void* Memory::allocate(std::uint64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  if (bytes > total_ - std::min(total_, live_)) return nullptr;
  void* memory = allocate_aligned(bytes);
  if (memory == nullptr) return nullptr;
  try {
    sizes_.emplace(memory, bytes);
  } catch (const std::bad_alloc&) {
    std::free(memory);
    return nullptr;
  }
  live_ += bytes;
  return memory;
}

void Memory::release(void* memory) noexcept {
  const std::lock_guard lock(mutex_);
  const auto entry = sizes_.find(memory);
  if (entry == sizes_.end()) return;
  live_ -= entry->second;
  sizes_.erase(entry);
  std::free(memory);
}

std::uint64_t Memory::live() const noexcept {
  const std::lock_guard lock(mutex_);
  return live_;
}

std::uint64_t Memory::available() const noexcept {
  const std::uint64_t live = this->live();
  return std::min(total_ - std::min(total_, live), system_available());
}

// --- the backend's memory group ---------------------------------------------------------------------------------------

DevicePtr CpuBackend::do_alloc(std::uint64_t bytes) {
  void* memory = parts_->memory.allocate(bytes);
  if (memory == nullptr) {
    wait_for_all();  // memory given to free_async comes back when its stream gets there
    memory = parts_->memory.allocate(bytes);
  }
  if (memory == nullptr) {
    throw Error(ErrorCode::out_of_device_memory,
                detail::format("cpu:0 cannot allocate {} bytes: {} bytes are live and the limit is {} bytes of memory",
                               bytes, parts_->memory.live(), parts_->memory.total()));
  }
  return address_of(memory);
}

void CpuBackend::do_free(DevicePtr memory) {
  wait_for_all();
  parts_->memory.release(pointer_to(memory));
}

DevicePtr CpuBackend::do_alloc_async(std::uint64_t bytes, Native) {
  return do_alloc(bytes);
}

void CpuBackend::do_free_async(DevicePtr memory, Native stream) {
  stream_of(stream).submit(FreeOperation{pointer_to(memory)});
}

void CpuBackend::do_fill(DevicePtr dst, std::uint32_t value, std::uint32_t width, std::uint64_t count, Native stream) {
  enqueue(stream_of(stream), FillOperation{pointer_to(dst), value, width, count});
}

// Blocking copies are ordered with no stream, so the caller's thread does them.
void CpuBackend::do_copy_h2d(DevicePtr dst, const void* src, std::uint64_t bytes) {
  std::memcpy(pointer_to(dst), src, bytes);
}
void CpuBackend::do_copy_d2h(void* dst, DevicePtr src, std::uint64_t bytes) {
  std::memcpy(dst, pointer_to(src), bytes);
}
void CpuBackend::do_copy_d2d(DevicePtr dst, DevicePtr src, std::uint64_t bytes) {
  std::memcpy(pointer_to(dst), pointer_to(src), bytes);
}

void CpuBackend::do_copy_h2d_async(DevicePtr dst, const void* src, std::uint64_t bytes, bool pinned, Native stream) {
  CpuStream& queue = stream_of(stream);
  if (pinned) {
    queue.submit(CopyOperation{pointer_to(dst), src, bytes});
    return;
  }
  if (queue.idle()) {  // nothing to be ordered after: read the source now
    std::memcpy(pointer_to(dst), src, bytes);
    return;
  }
  if (bytes <= max_staged_bytes) {
    if (std::unique_ptr<std::byte[]> staged{new (std::nothrow) std::byte[bytes]}) {
      std::memcpy(staged.get(), src, bytes);
      queue.submit(StagedCopyOperation{pointer_to(dst), std::move(staged), bytes});
      return;
    }
  }
  queue.wait(queue.submit(CopyOperation{pointer_to(dst), src, bytes}), {});
}

void CpuBackend::do_copy_d2h_async(void* dst, DevicePtr src, std::uint64_t bytes, bool, Native stream) {
  stream_of(stream).submit(CopyOperation{dst, pointer_to(src), bytes});
}

void CpuBackend::do_copy_d2d_async(DevicePtr dst, DevicePtr src, std::uint64_t bytes, Native stream) {
  enqueue(stream_of(stream), CopyOperation{pointer_to(dst), pointer_to(src), bytes});
}

void CpuBackend::do_copy_2d_d2d_async(DevicePtr dst, std::uint64_t dst_pitch, DevicePtr src, std::uint64_t src_pitch,
                                      std::uint64_t width, std::uint64_t height, Native stream) {
  enqueue(stream_of(stream), Copy2dOperation{static_cast<std::byte*>(pointer_to(dst)), dst_pitch,
                                             static_cast<const std::byte*>(pointer_to(src)), src_pitch, width, height});
}

void* CpuBackend::do_alloc_pinned(std::uint64_t bytes) {
  void* memory = bytes <= parts_->memory.total() ? allocate_aligned(bytes) : nullptr;
  if (memory == nullptr) {
    throw Error(ErrorCode::out_of_host_memory, detail::format("cannot allocate {} bytes of pinned host memory", bytes));
  }
  return memory;
}

void CpuBackend::do_free_pinned(void* memory) {
  wait_for_all();
  std::free(memory);
}

MemoryInfo CpuBackend::do_memory_info() {
  return MemoryInfo{.free = parts_->memory.available(), .total = parts_->memory.total(), .live = parts_->memory.live()};
}

}  // namespace kdart::cpu
