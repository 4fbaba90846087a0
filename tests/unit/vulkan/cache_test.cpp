// The driver's pipeline cache as bytes that may come from anywhere.
#include <catch2/catch_test_macros.hpp>
#include <cstring>

#include "backends/vulkan/kernels.h"
#include "tests/unit/vulkan/vulkan_device.h"

namespace kdart::test {
namespace {

struct Cached {
  explicit Cached(const FoundDevice& found)
      : device(found.instance, found.listed.handle, found.listed.facts, found.listed.plan), cache(device) {}
  vulkan::LogicalDevice device;
  vulkan::DriverCache cache;
};

std::vector<std::byte> saved_after_compiling(const FoundDevice& found) {
  Cached cached(found);
  const vulkan::BytePipelines pipelines = vulkan::make_byte_pipelines(cached.device, cached.cache.get());
  vulkan::destroy_byte_pipelines(cached.device, pipelines);
  return cached.cache.save();
}

}  // namespace

TEST_CASE("a cache that is not this device's, or not whole, is not taken", "[vulkan][cache]") {
  const FoundDevice found;
  const std::vector<std::byte> saved = saved_after_compiling(found);
  REQUIRE(saved.size() >= sizeof(VkPipelineCacheHeaderVersionOne) + 32);
  Cached cached(found);
  for (std::size_t bytes = 0; bytes < saved.size(); bytes += bytes < 100 ? 1 : saved.size() / 50 + 1)
    CHECK_FALSE(cached.cache.load(std::span(saved).first(bytes)));
  for (std::size_t at = 0; at < saved.size(); at += at < 100 ? 1 : saved.size() / 100 + 1) {
    std::vector<std::byte> corrupt = saved;
    corrupt[at] ^= std::byte{0x04};
    INFO("byte " << at << " of " << saved.size());
    CHECK_FALSE(cached.cache.load(corrupt));
  }
  std::vector<std::byte> longer = saved;
  longer.push_back(std::byte{0});
  CHECK_FALSE(cached.cache.load(longer));
  CHECK(cached.cache.load(saved));
}

TEST_CASE("another device's or driver's cache is not taken even when it is whole", "[vulkan][cache]") {
  FoundDevice found;
  const std::vector<std::byte> saved = saved_after_compiling(found);
  for (const int part : {0, 1, 2}) {
    FoundDevice other;
    if (part == 0) other.listed.facts.vendor_id ^= 1;
    if (part == 1) other.listed.facts.device_id ^= 1;
    if (part == 2) other.listed.facts.cache_uuid[15] ^= 1;
    Cached cached(other);
    CHECK_FALSE(cached.cache.load(saved));
  }
}

TEST_CASE("what was loaded is saved again", "[vulkan][cache]") {
  const FoundDevice found;
  const std::vector<std::byte> saved = saved_after_compiling(found);
  Cached cached(found);
  const std::vector<std::byte> empty = cached.cache.save();
  CHECK(cached.cache.load(saved));
  CHECK(cached.cache.save().size() >= saved.size());
  CHECK(cached.cache.load(empty));  // adds nothing, loses nothing
  CHECK(cached.cache.save().size() >= saved.size());
}

}  // namespace kdart::test
