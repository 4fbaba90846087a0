// The backend's own kernels on a real device, each where the backend would use another way there: copies that a CPU's
// driver makes with a memcpy, and copies by bare address of memory that has a buffer.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstring>

#include "backends/vulkan/kernels.h"
#include "backends/vulkan/stream.h"
#include "tests/support/random_values.h"
#include "tests/unit/vulkan/vulkan_device.h"

namespace kdart::test {
namespace {

// As if it were a GPU of its own: then it has every kernel.
vulkan::PhysicalDeviceFacts as_discrete(vulkan::PhysicalDeviceFacts facts) {
  facts.type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
  return facts;
}

// The parts of a backend that a stream needs.
struct Parts {
  Parts()
      : device(found.instance, found.listed.handle, as_discrete(found.listed.facts), found.listed.plan),
        pipelines(vulkan::make_byte_pipelines(device, VK_NULL_HANDLE)),
        memory(device, true),
        uploads(device, device.plan().upload_types),
        readbacks(device, device.plan().readback_types),
        timestamps(device) {}
  ~Parts() { vulkan::destroy_byte_pipelines(device, pipelines); }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  FoundDevice found;
  vulkan::LogicalDevice device;
  vulkan::BytePipelines pipelines;
  vulkan::DeviceMemory memory;
  vulkan::StagingPool uploads, readbacks;
  vulkan::TimestampPool timestamps;
};

using Bytes = std::vector<std::byte>;

// Device memory, and what it should hold.
struct Shadowed {
  Shadowed(Parts& parts, vulkan::VulkanStream& stream, std::size_t bytes, std::uint64_t seed)
      : memory(parts.memory.allocate(bytes)), place(parts.memory.find(memory)), expected(bytes) {
    Random random(seed);
    for (std::byte& byte : expected) byte = static_cast<std::byte>(random.bits());
    stream.upload(side(0), expected.data(), bytes);
  }
  [[nodiscard]] vulkan::CopySide side(std::uint64_t offset) const {
    return vulkan::CopySide{memory, place}.offset(offset);
  }
  [[nodiscard]] vulkan::CopySide bare(std::uint64_t offset) const { return {memory.offset(offset), std::nullopt}; }
  [[nodiscard]] bool is_right(vulkan::VulkanStream& stream) const {
    Bytes found(expected.size());
    stream.download(found.data(), side(0), found.size());
    return found == expected;
  }

  DevicePtr memory;
  std::optional<vulkan::BufferPlace> place;
  Bytes expected;
};

struct Rows {
  std::uint64_t to, to_pitch, from, from_pitch, width, height;
};

void expect_rows(Shadowed& dst, const Shadowed& src, const Rows& r) {
  for (std::uint64_t y = 0; y < r.height; ++y)
    std::memcpy(dst.expected.data() + r.to + y * r.to_pitch, src.expected.data() + r.from + y * r.from_pitch, r.width);
}

}  // namespace

TEST_CASE("copies of whole vectors by kernel move what they are told to", "[vulkan][byte_kernels]") {
  Parts parts;
  REQUIRE(parts.pipelines.copy_vectors != VK_NULL_HANDLE);
  vulkan::VulkanStream stream(
      {parts.device, parts.memory, parts.uploads, parts.readbacks, parts.timestamps, parts.pipelines});
  constexpr std::size_t space = std::size_t{3} << 20;
  Shadowed a(parts, stream, space, 1);
  Shadowed b(parts, stream, space, 2);
  const Rows cases[]{
      {0, 16, 0, 16, 16, 1},
      {16, 16, 48, 16, 16, 1},
      {0, 4096, 0, 4096, 4096, 1},
      {32, 4112, 16, 4112, 4112, 1},
      {0, 65536, 16, 65536, 65536, 1},
      {16, 2 << 20, 0, 2 << 20, 2 << 20, 1},
      {16, 48, 32, 32, 32, 100},
      {0, 32, 16, 16, 16, 70000},
      {48, 4128, 0, 4112, 4112, 300},
      // Not whole vectors: another way.
      {1, 16, 0, 16, 16, 1},
      {0, 16, 8, 16, 16, 1},
      {0, 24, 0, 32, 16, 10},
      {0, 32, 0, 24, 16, 10},
      {0, 32, 0, 32, 17, 10},
      {3, 40, 5, 50, 33, 3000},
  };
  for (const Rows& r : cases) {
    INFO(r.height << " rows of " << r.width << " bytes from " << r.from << " (" << r.from_pitch << ") to " << r.to
                  << " (" << r.to_pitch << ")");
    stream.operate([&](vulkan::Recorder& recorder) {
      recorder.copy_rows(b.side(r.to), r.to_pitch, a.side(r.from), r.from_pitch, r.width, r.height);
    });
    expect_rows(b, a, r);
    REQUIRE(b.is_right(stream));
    // The other way around, with other contents.
    stream.operate([&](vulkan::Recorder& recorder) {
      recorder.copy_rows(a.side(r.from), r.from_pitch, b.side(r.to), r.to_pitch, r.width, r.height);
      recorder.fill(b.memory, static_cast<std::uint32_t>(r.width), 1, 4000);
    });
    expect_rows(a, b, {r.from, r.from_pitch, r.to, r.to_pitch, r.width, r.height});
    std::fill_n(b.expected.begin(), 4000, static_cast<std::byte>(r.width));
    REQUIRE(a.is_right(stream));
    REQUIRE(b.is_right(stream));
  }
}

TEST_CASE("copies by bare address move what they are told to", "[vulkan][byte_kernels]") {
  Parts parts;
  vulkan::VulkanStream stream(
      {parts.device, parts.memory, parts.uploads, parts.readbacks, parts.timestamps, parts.pipelines});
  constexpr std::size_t space = 300000;
  Shadowed a(parts, stream, space, 3);
  Shadowed b(parts, stream, space, 4);
  Random random(5);
  for (int i = 0; i < 200; ++i) {
    // Small ones in every alignment, then larger ones; one row and many.
    const std::uint64_t width = 1 + random.bits() % (i < 150 ? 40 : 3000);
    const std::uint64_t height = i % 3 == 0 ? 1 : 1 + random.bits() % 40;
    const Rows r{
        random.bits() % 16, width + random.bits() % 30, random.bits() % 16, width + random.bits() % 30, width, height};
    INFO(r.height << " rows of " << r.width << " bytes from " << r.from << " (" << r.from_pitch << ") to " << r.to
                  << " (" << r.to_pitch << ")");
    stream.operate([&](vulkan::Recorder& recorder) {
      const auto dst = i % 4 == 0 ? b.side(r.to) : b.bare(r.to);
      const auto src = i % 4 == 1 ? a.side(r.from) : a.bare(r.from);
      recorder.copy_rows(dst, r.to_pitch, src, r.from_pitch, r.width, r.height);
    });
    expect_rows(b, a, r);
    REQUIRE(b.is_right(stream));
  }
}

}  // namespace kdart::test
