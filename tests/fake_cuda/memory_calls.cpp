// Device and host memory, fills and copies. Device memory is the host's, so what is copied there and back is the same.
#include <cstdlib>
#include <cstring>

#include "tests/fake_cuda/driver.h"

namespace kdart::fake_cuda {
namespace {

constexpr std::size_t alignment = 512;

std::byte* host(CUdeviceptr address) {
  return reinterpret_cast<std::byte*>(address);
}

std::byte* host_block(std::size_t bytes) {
  return static_cast<std::byte*>(std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment));
}

// What a wild address does when it is reached.
void fault(Driver& driver, Context& context, const char* what) {
  driver.violation(what);
  context.fault = CUDA_ERROR_ILLEGAL_ADDRESS;
}

// Takes `bytes` of the device's, out of the pool's reserve if it can.
bool take(Driver& driver, Device& device, Pool* pool, std::size_t bytes) {
  if (pool != nullptr) {
    const auto block = driver.exact_pools ? pool->free_blocks.find(bytes) : pool->free_blocks.lower_bound(bytes);
    if (block != pool->free_blocks.end()) {
      const std::size_t rest = *block - bytes;
      pool->free_blocks.erase(block);
      if (rest != 0) pool->free_blocks.insert(rest);
      pool->used += bytes;
      return true;
    }
  }
  if (bytes > device.total - device.used) return false;
  device.used += bytes;
  if (pool != nullptr) {
    pool->reserved += bytes;
    pool->used += bytes;
  }
  return true;
}

// `ordered_in`: what that stream has freed by then can be taken.
CUresult allocate(Call& call, CUdeviceptr* address, std::size_t bytes, const std::shared_ptr<Pool>& pool,
                  Stream* ordered_in) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  Driver& driver = call.driver();
  if (!take(driver, call.device(), pool.get(), bytes) &&
      !(ordered_in != nullptr && driver.run(*ordered_in) && take(driver, call.device(), pool.get(), bytes)))
    return CUDA_ERROR_OUT_OF_MEMORY;
  std::byte* block = host_block(bytes);
  if (block == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  std::memset(block, 0xcd, bytes);  // never what was there before
  *address = reinterpret_cast<CUdeviceptr>(block);
  call.driver().memory[*address] = {&call.context(), bytes, pool, false};
  return CUDA_SUCCESS;
}

// Some calls would spoil a capture in one of the modes that forbid them to everyone.
CUresult spoil_captures(Driver& driver) {
  CUresult result = CUDA_SUCCESS;
  for (const auto& [handle, stream] : driver.streams.alive) {
    if (stream->capture == nullptr || stream->capture->relaxed) continue;
    stream->capture->invalid = true;
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}

}  // namespace

CUresult entry::mem_get_info(std::size_t* free, std::size_t* total) {
  KDART_FAKE_CALL(mem_get_info);
  *free = call.device().total - call.device().used;
  *total = call.device().total;
  return CUDA_SUCCESS;
}

CUresult entry::mem_alloc(CUdeviceptr* address, std::size_t bytes) {
  KDART_FAKE_CALL(mem_alloc);
  if (const CUresult result = spoil_captures(driver); result != CUDA_SUCCESS) return result;
  return allocate(call, address, bytes, nullptr, nullptr);
}

CUresult entry::mem_free(CUdeviceptr address) {
  KDART_FAKE_RELEASE(mem_free, address);
  if (const CUresult result = spoil_captures(driver); result != CUDA_SUCCESS) return result;
  const auto found = driver.memory.find(address);
  if (found == driver.memory.end() || found->second.freed)
    return call.violation(CUDA_ERROR_INVALID_VALUE, "of memory that is not allocated");
  driver.release(address);  // at once: what has yet to run there runs into the wild
  return call.finish();
}

// --- pools ------------------------------------------------------------------------------------------------------------

CUresult entry::mem_pool_create(CUmemoryPool* pool, const CUmemPoolProps* props) {
  KDART_FAKE_CALL(mem_pool_create);
  const auto& attributes = call.device().attributes;
  const auto supported = attributes.find(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
  if (supported == attributes.end() || supported->second == 0) return CUDA_ERROR_NOT_SUPPORTED;
  if (props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED || props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  const auto made = driver.pools.make();
  made->device = props->location.id;
  *pool = reinterpret_cast<CUmemoryPool>(made.get());
  return CUDA_SUCCESS;
}

CUresult entry::mem_pool_destroy(CUmemoryPool pool) {
  KDART_FAKE_RELEASE(mem_pool_destroy, pool);
  const auto found = driver.pools.find(pool);
  if (found == nullptr) return call.violation(CUDA_ERROR_INVALID_VALUE, "of a pool that is not alive");
  driver.run_everything();
  for (const auto& [address, block] : driver.memory) {
    if (block.pool == found && !block.freed && !driver.excused.contains(host(address)))
      driver.violation("a memory pool was destroyed with memory in use");
  }
  Driver::trim(driver.devices[static_cast<std::size_t>(found->device)], *found, 0);
  driver.pools.end(found);
  return call.finish();
}

CUresult entry::mem_pool_get_attribute(CUmemoryPool pool, int attribute, void* value) {
  KDART_FAKE_CALL(mem_pool_get_attribute);
  const auto found = driver.pools.find(pool);
  if (found == nullptr) return call.violation(CUDA_ERROR_INVALID_VALUE, "of a pool that is not alive");
  auto& number = *static_cast<std::uint64_t*>(value);
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      number = found->threshold;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      number = found->reserved;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      number = found->used;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult entry::mem_pool_set_attribute(CUmemoryPool pool, int attribute, void* value) {
  KDART_FAKE_CALL(mem_pool_set_attribute);
  const auto found = driver.pools.find(pool);
  if (found == nullptr) return call.violation(CUDA_ERROR_INVALID_VALUE, "of a pool that is not alive");
  if (attribute != CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) return CUDA_ERROR_INVALID_VALUE;
  found->threshold = *static_cast<std::uint64_t*>(value);
  return CUDA_SUCCESS;
}

CUresult entry::mem_pool_trim_to(CUmemoryPool pool, std::size_t keep) {
  KDART_FAKE_CALL(mem_pool_trim_to);
  const auto found = driver.pools.find(pool);
  if (found == nullptr) return call.violation(CUDA_ERROR_INVALID_VALUE, "of a pool that is not alive");
  Driver::trim(call.device(), *found, keep);
  return CUDA_SUCCESS;
}

CUresult entry::mem_alloc_from_pool_async(CUdeviceptr* address, std::size_t bytes, CUmemoryPool pool, CUstream stream) {
  KDART_FAKE_CALL(mem_alloc_from_pool_async);
  const auto found = driver.pools.find(pool);
  if (found == nullptr) return call.violation(CUDA_ERROR_INVALID_VALUE, "of a pool that is not alive");
  CUresult result = CUDA_SUCCESS;
  const auto queue = call.stream(stream, result);
  if (queue == nullptr) return result;
  if (queue->capture != nullptr) {
    queue->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return allocate(call, address, bytes, found, queue.get());
}

CUresult entry::mem_free_async(CUdeviceptr address, CUstream stream) {
  KDART_FAKE_RELEASE(mem_free_async, address);
  const auto found = driver.memory.find(address);
  if (found == driver.memory.end() || found->second.freed)
    return call.violation(CUDA_ERROR_INVALID_VALUE, "of memory that is not allocated");
  CUresult result = CUDA_SUCCESS;
  const auto queue = call.stream(stream, result);
  if (queue == nullptr) return result;
  found->second.freed = true;
  queue->pending.push_back({.run = [address](Driver& d) { d.release(address); }, .books_only = true});
  return call.finish();
}

// --- host memory ------------------------------------------------------------------------------------------------------

CUresult entry::mem_host_alloc(void** memory, std::size_t bytes, unsigned int) {
  KDART_FAKE_CALL(mem_host_alloc);
  if (const CUresult result = spoil_captures(driver); result != CUDA_SUCCESS) return result;
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  std::byte* block = bytes > (std::size_t{1} << 40) ? nullptr : host_block(bytes);
  if (block == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  driver.pinned[block] = bytes;
  *memory = block;
  return CUDA_SUCCESS;
}

CUresult entry::mem_free_host(void* memory) {
  KDART_FAKE_RELEASE(mem_free_host, memory);
  const auto found = driver.pinned.find(static_cast<std::byte*>(memory));
  if (found == driver.pinned.end()) return call.violation(CUDA_ERROR_INVALID_VALUE, "of memory that is not allocated");
  driver.each_pending([&](const Operation& operation) {
    if (needs(operation, found->first, found->second)) driver.violation("page-locked memory was freed under a copy");
  });
  std::free(memory);
  driver.pinned.erase(found);
  return call.finish();
}

CUresult entry::pointer_get_attribute(void* value, int attribute, CUdeviceptr address) {
  KDART_FAKE_CALL(pointer_get_attribute);
  if (attribute != CU_POINTER_ATTRIBUTE_MEMORY_TYPE) return CUDA_ERROR_INVALID_VALUE;
  auto& type = *static_cast<unsigned int*>(value);
  if (driver.memory_at(address, 1) != nullptr) {
    type = CU_MEMORYTYPE_DEVICE;
    return CUDA_SUCCESS;
  }
  if (!driver.is_page_locked(host(address))) return CUDA_ERROR_INVALID_VALUE;
  type = 1;  // the host's
  return CUDA_SUCCESS;
}

// --- copies and fills -------------------------------------------------------------------------------------------------

CUresult entry::memcpy_htod_async(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
  KDART_FAKE_CALL(memcpy_htod_async);
  Context& context = call.context();
  const auto write = [to, bytes, &context](Driver& d, const std::byte* source) {
    if (d.memory_at(to, bytes) == nullptr) return fault(d, context, "a copy to the device runs into the wild");
    std::memcpy(host(to), source, bytes);
  };
  const auto* source = static_cast<const std::byte*>(from);
  // Page-locked memory is read when its turn comes, other memory before the call returns.
  if (driver.is_page_locked(from))
    return call.give(stream, {.run = [=](Driver& d) { write(d, source); }, .host = {source, bytes}});
  const std::vector<std::byte> staged(source, source + bytes);
  return call.give(stream, {.run = [=](Driver& d) { write(d, staged.data()); }});
}

CUresult entry::memcpy_dtoh_async(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  KDART_FAKE_CALL(memcpy_dtoh_async);
  Context& context = call.context();
  auto* target = static_cast<std::byte*>(to);
  const auto read = [=, &context](Driver& d) {
    if (d.memory_at(from, bytes) == nullptr) return fault(d, context, "a copy to the host comes from the wild");
    std::memcpy(target, host(from), bytes);
  };
  return call.give(stream, {.run = read, .host = {target, bytes}});
}

CUresult entry::memcpy_dtod_async(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  KDART_FAKE_CALL(memcpy_dtod_async);
  Context& context = call.context();
  const auto copy = [=, &context](Driver& d) {
    if (d.memory_at(to, bytes) == nullptr || d.memory_at(from, bytes) == nullptr)
      return fault(d, context, "a copy on the device runs into the wild");
    std::memmove(host(to), host(from), bytes);
  };
  return call.give(stream, {.run = copy});
}

CUresult entry::memcpy_2d_async(const CUDA_MEMCPY2D* described, CUstream stream) {
  KDART_FAKE_CALL(memcpy_2d_async);
  const CUDA_MEMCPY2D what = *described;
  if (what.srcMemoryType != CU_MEMORYTYPE_DEVICE || what.dstMemoryType != CU_MEMORYTYPE_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  const auto limit = static_cast<std::size_t>(call.device().attributes[CU_DEVICE_ATTRIBUTE_MAX_PITCH]);
  if (what.srcPitch > limit || what.dstPitch > limit || what.srcPitch < what.WidthInBytes ||
      what.dstPitch < what.WidthInBytes)
    return CUDA_ERROR_INVALID_VALUE;
  Context& context = call.context();
  const auto copy = [=, &context](Driver& d) {
    for (std::size_t row = what.srcY; row < what.srcY + what.Height; ++row) {
      const CUdeviceptr from = what.srcDevice + row * what.srcPitch + what.srcXInBytes;
      const CUdeviceptr to = what.dstDevice + (row - what.srcY + what.dstY) * what.dstPitch + what.dstXInBytes;
      if (d.memory_at(to, what.WidthInBytes) == nullptr || d.memory_at(from, what.WidthInBytes) == nullptr)
        return fault(d, context, "a copy of rows runs into the wild");
      std::memmove(host(to), host(from), what.WidthInBytes);
    }
  };
  return call.give(stream, {.run = copy});
}

namespace {

template <class T>
CUresult fill(Call& call, CUdeviceptr to, T value, std::size_t count, CUstream stream) {
  if (to % sizeof value != 0) return CUDA_ERROR_INVALID_VALUE;
  Context& context = call.context();
  const auto write = [=, &context](Driver& d) {
    if (d.memory_at(to, count * sizeof value) == nullptr) return fault(d, context, "a fill runs into the wild");
    for (std::size_t i = 0; i < count; ++i) std::memcpy(host(to) + i * sizeof value, &value, sizeof value);
  };
  return call.give(stream, {.run = write});
}

}  // namespace

CUresult entry::memset_d8_async(CUdeviceptr to, unsigned char value, std::size_t count, CUstream stream) {
  KDART_FAKE_CALL(memset_d8_async);
  return fill(call, to, value, count, stream);
}

CUresult entry::memset_d16_async(CUdeviceptr to, unsigned short value, std::size_t count, CUstream stream) {
  KDART_FAKE_CALL(memset_d16_async);
  return fill(call, to, value, count, stream);
}

CUresult entry::memset_d32_async(CUdeviceptr to, unsigned int value, std::size_t count, CUstream stream) {
  KDART_FAKE_CALL(memset_d32_async);
  return fill(call, to, value, count, stream);
}

}  // namespace kdart::fake_cuda
