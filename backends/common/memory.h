// Device memory, from a pool of the device's own where the driver has pools.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kdart/backend.h"

namespace kdart::common {

// With pools, every allocation is ordered in a stream, and what is freed stays with the pool for the next one; without,
// allocation is blocking. The context is current in every call.
template <class Api>
class DeviceMemory {
 public:
  using Context = typename Api::Context;
  using Result = typename Api::Result;
  using Address = typename Api::Address;
  using Stream = typename Api::Stream;

  // Throws what Api::check throws.
  DeviceMemory(const Context& context, bool pools) : context_(&context) {
    if (!pools) return;
    const auto props = Api::pool_properties(context);
    Api::check(context.driver().mem_pool_create(&pool_, &props), "creating a memory pool");
    // Without it every wait would give what lies free back to the system, and every allocation fetch it again.
    std::uint64_t keep_all = ~std::uint64_t{0};
    const Result result = context.driver().mem_pool_set_attribute(pool_, Api::pool_release_threshold, &keep_all);
    if (result == Api::success) return;
    static_cast<void>(context.driver().mem_pool_destroy(pool_));
    Api::fail(result, "setting up a memory pool");
  }
  ~DeviceMemory() {
    if (pool_ != nullptr) static_cast<void>(context_->driver().mem_pool_destroy(pool_));
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // Out of memory among the answers. `stream` orders it where there are pools.
  [[nodiscard]] Result allocate(Address& memory, std::uint64_t bytes, Stream stream) const {
    if (pool_ != nullptr) return context_->driver().mem_alloc_from_pool_async(&memory, bytes, pool_, stream);
    return context_->driver().mem_alloc(&memory, bytes);
  }
  // Work submitted to `stream` before may use it still.
  [[nodiscard]] Result release(Address memory, Stream stream) const {
    if (pool_ != nullptr) return context_->driver().mem_free_async(memory, stream);
    const Result result = context_->driver().stream_synchronize(stream);
    return result == Api::success ? context_->driver().mem_free(memory) : result;
  }
  // Gives what the pool holds in reserve back to the driver. The streams that freed it have been waited for.
  void trim() const noexcept {
    if (pool_ != nullptr) static_cast<void>(context_->driver().mem_pool_trim_to(pool_, 0));
  }
  [[nodiscard]] MemoryInfo info() const {
    std::size_t free = 0;
    std::size_t total = 0;
    Api::check(context_->driver().mem_get_info(&free, &total), "asking for free memory");
    std::uint64_t reserved = 0;
    std::uint64_t used = 0;
    if (pool_ != nullptr) {
      const auto ask = context_->driver().mem_pool_get_attribute;
      Api::check(ask(pool_, Api::pool_reserved, &reserved), "asking what a memory pool holds");
      Api::check(ask(pool_, Api::pool_used, &used), "asking what a memory pool holds");
    }
    return {.free = free + (reserved > used ? reserved - used : 0), .total = total};
  }

 private:
  const Context* context_;
  typename Api::Pool pool_ = nullptr;
};

}  // namespace kdart::common
