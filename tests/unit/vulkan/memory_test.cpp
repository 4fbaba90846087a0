// How device memory is shared out, on a real device with small blocks.
#include "backends/vulkan/memory.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <limits>
#include <map>

#include "tests/support/error_of.h"
#include "tests/support/random_values.h"
#include "tests/unit/vulkan/vulkan_device.h"

namespace kdart::test {
namespace {

constexpr std::uint64_t block_bytes = std::uint64_t{1} << 20;

vulkan::DevicePlan with_small_blocks(vulkan::DevicePlan plan) {
  plan.block_bytes = block_bytes;
  return plan;
}

struct SmallBlocks {
  SmallBlocks()
      : device(found.instance, found.listed.handle, found.listed.facts, with_small_blocks(found.listed.plan)) {}
  FoundDevice found;
  vulkan::LogicalDevice device;
};

// What was allocated, to compare with.
class Shadow {
 public:
  // Refuses an allocation that is not aligned or that another one holds a byte of.
  void add(std::uint64_t address, std::uint64_t bytes) {
    REQUIRE(address % vulkan::DeviceMemory::alignment == 0);
    const auto next = live_.lower_bound(address);
    if (next != live_.end()) REQUIRE(address + bytes <= next->first);
    if (next != live_.begin()) REQUIRE(std::prev(next)->first + std::prev(next)->second <= address);
    live_.emplace(address, bytes);
  }
  // Takes any one out.
  std::uint64_t take(std::uint64_t which) {
    const auto entry = std::next(live_.begin(), static_cast<std::ptrdiff_t>(which % live_.size()));
    const std::uint64_t address = entry->first;
    live_.erase(entry);
    return address;
  }
  [[nodiscard]] const std::map<std::uint64_t, std::uint64_t>& live() const { return live_; }
  [[nodiscard]] std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const auto& [address, size] : live_) sum += size;
    return sum;
  }

 private:
  std::map<std::uint64_t, std::uint64_t> live_;
};

// Each allocation lies in one buffer, at one distance from its beginning.
void check_places(const vulkan::DeviceMemory& memory, const Shadow& shadow) {
  for (const auto& [address, bytes] : shadow.live()) {
    const auto first = memory.find(DevicePtr(address));
    const auto last = memory.find(DevicePtr(address + bytes - 1));
    REQUIRE(first.has_value());
    REQUIRE(last.has_value());
    CHECK(first->buffer == last->buffer);
    CHECK(last->offset - first->offset == bytes - 1);
  }
}

}  // namespace

TEST_CASE("allocations of any sizes in any order never overlap", "[vulkan][memory]") {
  const SmallBlocks small;
  for (const bool dedicated : {false, true}) {
    vulkan::DeviceMemory memory(small.device, dedicated);
    Shadow shadow;
    Random random(dedicated ? 1 : 2);
    for (int step = 0; step < (dedicated ? 600 : 4000); ++step) {
      // The share of frees goes up and down, so that blocks fill and empty.
      const bool shrinking = step / 300 % 2 == 1;
      if (!shadow.live().empty() && random.bits() % 10 < (shrinking ? 7U : 3U)) {
        memory.release(DevicePtr(shadow.take(random.bits())));
        continue;
      }
      // Most are small, some just below and above half a block, few larger than a block.
      const std::uint64_t kind = random.bits() % 40;
      std::uint64_t bytes = 1 + random.bits() % 3000;
      if (kind == 0) bytes = block_bytes / 2 - 300 + random.bits() % 600;
      if (kind == 1) bytes = block_bytes - 300 + random.bits() % 600;
      if (kind == 2) bytes = 1 + random.bits() % (3 * block_bytes);
      shadow.add(memory.allocate(bytes).address(), bytes);
      CHECK(memory.reserved_bytes() >= shadow.bytes());
      if (step % 50 == 0) check_places(memory, shadow);
    }
    check_places(memory, shadow);
    while (!shadow.live().empty()) memory.release(DevicePtr(shadow.take(random.bits())));
    // One usual block may stay for the next allocation.
    CHECK(memory.reserved_bytes() <= (dedicated ? 0 : block_bytes));
  }
}

TEST_CASE("small allocations share a block, and what is freed is used again", "[vulkan][memory]") {
  const SmallBlocks small;
  vulkan::DeviceMemory memory(small.device, false);
  std::vector<DevicePtr> live;
  for (int i = 0; i < 4000; ++i) live.push_back(memory.allocate(256));  // 1,024,000 bytes of 1,048,576
  CHECK(memory.reserved_bytes() == block_bytes);
  // Every second one goes: holes of 256 bytes, in which nothing larger fits.
  for (std::size_t i = 0; i < live.size(); i += 2) memory.release(live[i]);
  for (int i = 0; i < 2000; ++i) static_cast<void>(memory.allocate(200));
  CHECK(memory.reserved_bytes() == block_bytes);
  static_cast<void>(memory.allocate(100000));
  CHECK(memory.reserved_bytes() == 2 * block_bytes);
}

TEST_CASE("neighbouring holes become one", "[vulkan][memory]") {
  const SmallBlocks small;
  for (const auto& order : {std::array{0, 1, 2, 3}, {3, 2, 1, 0}, {0, 2, 1, 3}, {1, 3, 0, 2}}) {
    vulkan::DeviceMemory memory(small.device, false);
    std::array<DevicePtr, 4> quarters;
    for (DevicePtr& quarter : quarters) quarter = memory.allocate(block_bytes / 4);
    REQUIRE(memory.reserved_bytes() == block_bytes);
    const DevicePtr first = *std::min_element(quarters.begin(), quarters.end());
    for (const int which : order) memory.release(quarters[static_cast<std::size_t>(which)]);
    // Less than half a block, so it goes where there is room; and again behind it.
    const std::uint64_t most = block_bytes / 2 - 256;
    CHECK(memory.allocate(most) == first);
    CHECK(memory.allocate(most) == first.offset(most));
    CHECK(memory.reserved_bytes() == block_bytes);
  }
}

TEST_CASE("an address outside what was allocated lies in no buffer", "[vulkan][memory]") {
  const SmallBlocks small;
  vulkan::DeviceMemory memory(small.device, true);
  CHECK_FALSE(memory.find(DevicePtr(0x1000)).has_value());
  const DevicePtr only = memory.allocate(1000);
  CHECK_FALSE(memory.find(DevicePtr(only.address() - 4096)).has_value());
  CHECK(memory.find(only)->offset == only.address() % 256);
  CHECK(memory.find(only.offset(999)).has_value());
  CHECK_FALSE(memory.find(only.offset(1000 + 4096)).has_value());
  memory.release(only);
  CHECK_FALSE(memory.find(only).has_value());
}

TEST_CASE("memory that is not there is refused, and empty blocks make room", "[vulkan][memory]") {
  const SmallBlocks small;
  vulkan::DeviceMemory memory(small.device, false);
  const std::uint64_t total = small.device.memory_info(0).total;
  for (const std::uint64_t bytes : {small.found.listed.plan.max_block_bytes + 1, std::uint64_t{1} << 60,
                                    std::numeric_limits<std::uint64_t>::max() - 100}) {
    INFO(bytes << " of " << total << " bytes");
    CHECK(error_of([&] { static_cast<void>(memory.allocate(bytes)); }).code() == ErrorCode::out_of_device_memory);
    CHECK(memory.reserved_bytes() == 0);
  }
  const DevicePtr after = memory.allocate(100);
  CHECK(memory.find(after).has_value());
  memory.release(after);
  memory.release(after);  // twice does nothing more
  CHECK(memory.reserved_bytes() == block_bytes);
}

TEST_CASE("page-locked memory is found by any address in it", "[vulkan][memory]") {
  const SmallBlocks small;
  vulkan::PinnedMemory pinned(small.device);
  std::vector<std::byte*> all;
  for (std::size_t i = 1; i <= 20; ++i) all.push_back(static_cast<std::byte*>(pinned.allocate(i * 1000)));
  std::vector<VkBuffer> buffers;
  for (std::size_t i = 0; i < all.size(); ++i) {
    REQUIRE(all[i] != nullptr);
    const std::size_t bytes = (i + 1) * 1000;
    std::fill_n(all[i], bytes, static_cast<std::byte>(i));
    const vulkan::BufferPlace first = pinned.find(all[i]);
    CHECK(first.offset == 0);
    CHECK(pinned.find(all[i] + bytes - 1).buffer == first.buffer);
    CHECK(pinned.find(all[i] + bytes - 1).offset == bytes - 1);
    buffers.push_back(first.buffer);
  }
  std::sort(buffers.begin(), buffers.end());
  CHECK(std::adjacent_find(buffers.begin(), buffers.end()) == buffers.end());
  for (std::byte* memory : all) pinned.release(memory);
}

TEST_CASE("staging memory is kept for the next copy, but not all of it", "[vulkan][memory]") {
  const SmallBlocks small;
  vulkan::StagingPool pool(small.device, small.device.plan().upload_types);
  std::vector<vulkan::MemoryBuffer> chunks;
  for (int i = 0; i < 40; ++i) chunks.push_back(pool.take());
  std::vector<std::uint64_t> addresses;
  for (const vulkan::MemoryBuffer& chunk : chunks) {
    REQUIRE(chunk.data() != nullptr);
    CHECK(chunk.bytes() == vulkan::StagingPool::chunk_bytes);
    CHECK(chunk.address() != 0);
    addresses.push_back(chunk.address());
  }
  std::sort(addresses.begin(), addresses.end());
  CHECK(std::adjacent_find(addresses.begin(), addresses.end()) == addresses.end());
  const VkBuffer last = chunks.back().buffer();
  pool.give(std::move(chunks.back()));
  CHECK(pool.take().buffer() == last);
}

}  // namespace kdart::test
