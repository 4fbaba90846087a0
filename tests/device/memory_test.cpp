// Memory: what fills and copies of every size and offset touch, and what running out of it leaves behind.
#include <unistd.h>
#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstring>
#include <fstream>

#include "tests/support/error_of.h"
#include "tests/support/random_values.h"
#include "tests/support/test_device.h"

namespace kdart::test {
namespace {

using Bytes = std::vector<std::byte>;

// Every test of what memory holds runs with shared blocks and with a buffer for each allocation.
OpenOptions memory_options() {
  OpenOptions options = device_options();
  options.dedicated_buffers = GENERATE(false, true);
  return options;
}

Bytes random_bytes(std::size_t count, std::uint64_t seed) {
  Random random(seed);
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; i += 8) {
    const std::uint64_t word = random.bits();
    std::memcpy(bytes.data() + i, &word, std::min<std::size_t>(8, count - i));
  }
  return bytes;
}

// Device memory and what it should hold.
class Shadowed {
 public:
  Shadowed(const TestDevice& device, std::size_t bytes, std::uint64_t seed)
      : device_(&device), memory_(device.gpu, bytes), expected_(random_bytes(bytes, seed)) {
    device.gpu->copy_h2d(memory_.get(), expected_.data(), bytes);
  }

  [[nodiscard]] DevicePtr at(std::size_t offset) const { return memory_.get().offset(offset); }
  [[nodiscard]] Bytes& expected() { return expected_; }
  [[nodiscard]] std::size_t bytes() const { return expected_.size(); }
  // The first byte that is not what it should be; bytes() when all are.
  [[nodiscard]] std::size_t first_difference() const {
    Bytes found(expected_.size());
    device_->gpu->copy_d2h(found.data(), memory_.get(), found.size());
    const auto at = std::mismatch(expected_.begin(), expected_.end(), found.begin()).first;
    return static_cast<std::size_t>(at - expected_.begin());
  }

 private:
  const TestDevice* device_;
  Buffer memory_;
  Bytes expected_;
};

void expect_copy(Bytes& dst, std::size_t to, const Bytes& src, std::size_t from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(dst.data() + to, src.data() + from, bytes);
}

// 9 MiB and 3 bytes pass through more than two pieces of staging memory.
constexpr std::size_t many_chunks = (std::size_t{9} << 20) + 3;
constexpr std::array<std::size_t, 15> copy_sizes{0,    1,    3,     4,     255,   256,   257,        4095,
                                                 4096, 4097, 65535, 65536, 65537, 99999, many_chunks};
// (destination, source) offsets: each residue against each other.
constexpr std::array<std::pair<std::size_t, std::size_t>, 8> copy_offsets{
    {{0, 0}, {1, 1}, {1, 0}, {0, 3}, {2, 3}, {3, 2}, {7, 5}, {256, 4}}};

// Resident bytes of this process.
std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t size = 0, resident = 0;
  file >> size >> resident;
  REQUIRE(file.good());
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

// What grows when memory is lost: the device's used memory where it has its own, else this process.
std::uint64_t used_bytes(const TestDevice& device) {
  if (device.shares_host_memory()) return resident_bytes();
  const MemoryInfo memory = device.gpu->memory_info();
  return memory.total - memory.free;
}

// Takes all of the device's memory but for less than 64 MiB, in pieces of a quarter of what is free and then of halves of
// that. Each refusal says what was asked for and what is live. Nothing is written to the memory.
std::vector<Buffer> fill_memory(const TestDevice& device, std::vector<std::uint64_t>& sizes) {
  std::vector<Buffer> buffers;
  sizes.clear();
  const std::uint64_t largest = std::min(device.gpu->memory_info().free / 4, device.gpu->info().limits.allocation);
  for (std::uint64_t piece = largest; piece >= std::uint64_t{64} << 20; piece /= 2) {
    const Error error = error_of([&] {
      for (int i = 0; i < 1000; ++i) {
        buffers.emplace_back(device.gpu, piece);
        sizes.push_back(piece);
      }
    });
    INFO(error.what());
    CHECK(error.code() == ErrorCode::out_of_device_memory);
    const std::string message = error.what();
    CHECK(message.find(std::to_string(piece) + " bytes on " + device.gpu->info().id) != std::string::npos);
    CHECK(message.find(std::to_string(device.gpu->memory_info().live) + " are live") != std::string::npos);
  }
  return buffers;
}

}  // namespace

TEST_CASE("fills of each width touch what they are told to", "[device][memory]") {
  const TestDevice device(memory_options());
  const OwnedStream stream(device.gpu);
  constexpr std::size_t space = 4096 + 64;
  Shadowed memory(device, space, 1);
  const std::uint32_t value = 0xa1b2c3d4U;
  for (const std::uint32_t width : {1U, 2U, 4U}) {
    for (std::size_t offset = 0; offset < 8; ++offset) {
      if (offset % width != 0) {
        CHECK(error_of([&] { device.gpu->fill(memory.at(offset), value, width, 1, stream.get()); }).code() ==
              ErrorCode::invalid_argument);
        continue;
      }
      for (const std::size_t count : {0U, 1U, 2U, 3U, 4U, 5U, 7U, 8U, 13U, 63U, 64U, 65U, 255U, 256U, 257U, 1000U}) {
        // Another value each time, so that a fill that does nothing is seen.
        const auto word = static_cast<std::uint32_t>(value + offset * 0x01010101U + count * 0x11U);
        device.gpu->fill(memory.at(offset), word, width, count, stream.get());
        device.gpu->synchronize(stream.get());
        for (std::size_t i = 0; i < count; ++i)
          std::memcpy(memory.expected().data() + offset + i * width, &word, width);
        INFO("width " << width << ", offset " << offset << ", count " << count);
        REQUIRE(memory.first_difference() == memory.bytes());
      }
    }
  }
}

TEST_CASE("a large fill reaches the last byte and no further", "[device][memory]") {
  const TestDevice device(memory_options());
  const OwnedStream stream(device.gpu);
  Shadowed memory(device, (std::size_t{17} << 20) + 8, 2);  // more groups than a grid axis has
  const std::size_t count = memory.bytes() - 8;
  device.gpu->fill(memory.at(5), 0x7e, 1, count, stream.get());
  device.gpu->synchronize(stream.get());
  std::fill_n(memory.expected().begin() + 5, count, std::byte{0x7e});
  CHECK(memory.first_difference() == memory.bytes());
}

TEST_CASE("copies of each size and offset move what they are told to", "[device][memory]") {
  const TestDevice device(memory_options());
  for (const std::size_t size : copy_sizes) {
    Shadowed memory(device, size + 520, 3);
    Shadowed other(device, size + 520, 4);
    for (const auto& [to, from] : copy_offsets) {
      if (size == many_chunks && to == from) continue;  // for time's sake
      INFO(size << " bytes from offset " << from << " to offset " << to);
      const Bytes host = random_bytes(size + 8, to * 16 + from);
      device.gpu->copy_h2d(memory.at(to), host.data() + from % 8, size);
      expect_copy(memory.expected(), to, host, from % 8, size);
      REQUIRE(memory.first_difference() == memory.bytes());

      Bytes back(size + 8, std::byte{0x33});
      Bytes expected = back;
      device.gpu->copy_d2h(back.data() + to % 8, memory.at(from), size);
      expect_copy(expected, to % 8, memory.expected(), from, size);
      REQUIRE(back == expected);

      device.gpu->copy_d2d(other.at(to), memory.at(from), size);
      expect_copy(other.expected(), to, memory.expected(), from, size);
      REQUIRE(other.first_difference() == other.bytes());
      if (size == many_chunks) break;
    }
  }
}

TEST_CASE("copies in a stream move what they are told to", "[device][memory]") {
  const TestDevice device(memory_options());
  const OwnedStream stream(device.gpu);
  for (const std::size_t size : copy_sizes) {
    Shadowed a(device, size + 16, 5);
    Shadowed b(device, size + 16, 6);
    Bytes host = random_bytes(size, 7);
    const PinnedBuffer pinned(device.gpu, size + 16);
    auto* page_locked = static_cast<std::byte*>(pinned.get());
    std::fill_n(page_locked, size + 16, std::byte{0x44});
    Bytes back(size, std::byte{0x55});
    INFO(size << " bytes");
    device.gpu->copy_h2d_async(a.at(3), host.data(), size, stream.get());
    device.gpu->copy_d2d_async(b.at(2), a.at(3), size, stream.get());
    device.gpu->copy_d2h_async(page_locked + 1, b.at(2), size, stream.get());
    device.gpu->copy_h2d_async(a.at(9), page_locked + 1, size, stream.get());
    device.gpu->copy_d2h_async(back.data(), a.at(9), size, stream.get());
    device.gpu->synchronize(stream.get());
    expect_copy(a.expected(), 3, host, 0, size);
    expect_copy(a.expected(), 9, host, 0, size);
    expect_copy(b.expected(), 2, host, 0, size);
    REQUIRE(back == host);
    REQUIRE(a.first_difference() == a.bytes());
    REQUIRE(b.first_difference() == b.bytes());
    CHECK(page_locked[0] == std::byte{0x44});
    CHECK(std::equal(host.begin(), host.end(), page_locked + 1));
    CHECK(page_locked[size + 1] == std::byte{0x44});
  }
}

TEST_CASE("2-D copies move rows and leave the gaps", "[device][memory]") {
  const TestDevice device(memory_options());
  const OwnedStream stream(device.gpu);
  Random random(8);
  const auto below = [&](std::size_t limit) { return static_cast<std::size_t>(random.bits() % limit); };
  for (int i = 0; i < 40; ++i) {
    // More rows than one command of any driver's takes at once, now and then; one row; no gap at all.
    const std::size_t height = i % 8 == 0 ? 1000 + below(3000) : i % 8 == 1 ? 1 : 1 + below(40);
    const std::size_t width = 1 + below(i % 8 == 0 ? 9 : 300);
    const std::size_t to_pitch = width + (i % 5 == 0 ? 0 : below(64));
    const std::size_t from_pitch = width + (i % 7 == 0 ? 0 : below(64));
    const std::size_t to = below(9), from = below(9);
    Shadowed source(device, from + from_pitch * height, 100U + static_cast<unsigned>(i));
    Shadowed target(device, to + to_pitch * height + 5, 200U + static_cast<unsigned>(i));
    device.gpu->copy_2d_d2d_async(target.at(to), to_pitch, source.at(from), from_pitch, width, height, stream.get());
    device.gpu->synchronize(stream.get());
    for (std::size_t y = 0; y < height; ++y)
      expect_copy(target.expected(), to + y * to_pitch, source.expected(), from + y * from_pitch, width);
    INFO(height << " rows of " << width << ", pitches " << to_pitch << " and " << from_pitch << ", offsets " << to
                << " and " << from);
    REQUIRE(target.first_difference() == target.bytes());
    REQUIRE(source.first_difference() == source.bytes());
  }
}

TEST_CASE("kernels see allocations at their own addresses alone", "[device][memory]") {
  const TestDevice device(memory_options());
  const OwnedStream stream(device.gpu);
  Random random(9);
  std::vector<std::unique_ptr<Shadowed>> live;
  for (int step = 0; step < 200; ++step) {
    if (live.size() > 12) {
      const std::size_t which = random.bits() % live.size();
      REQUIRE(live[which]->first_difference() == live[which]->bytes());
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
    }
    const std::size_t words = 1 + random.bits() % (step % 20 == 0 ? 300000 : 900);
    live.push_back(std::make_unique<Shadowed>(device, 4 * words, 300U + static_cast<unsigned>(step)));
    Shadowed& memory = *live.back();
    CHECK(memory.at(0).address() % 256 == 0);
    device.affine(memory.at(0), static_cast<std::uint32_t>(words), 3, 1, stream.get());
    device.gpu->synchronize(stream.get());
    for (std::size_t i = 0; i < words; ++i) {
      std::uint32_t word = 0;
      std::memcpy(&word, memory.expected().data() + 4 * i, 4);
      word = word * 3 + 1;
      std::memcpy(memory.expected().data() + 4 * i, &word, 4);
    }
  }
  for (const auto& memory : live) CHECK(memory->first_difference() == memory->bytes());
}

TEST_CASE("memory that is in use already cannot be imported", "[device][memory]") {
  const TestDevice device(memory_options());
  const Buffer memory(device.gpu, 4096);
  const std::uint64_t address = memory.get().address();
  for (const auto& [offset, bytes] : {std::pair{0U, 4096U}, {0U, 16U}, {1024U, 16U}, {4092U, 4U}}) {
    CHECK(error_of([&] { static_cast<void>(device.gpu->import_memory(address + offset, bytes)); }).code() ==
          ErrorCode::invalid_argument);
  }
  const OwnedStream stream(device.gpu);
  device.gpu->fill(memory.get(), 3, 4, 1024, stream.get());
  device.gpu->synchronize(stream.get());
  CHECK(device.download(memory) == std::vector<std::uint32_t>(1024, 3));
  CHECK(device.canary());
}

TEST_CASE("the CPU takes host memory as its own", "[device][memory][cpu]") {
  const TestDevice device;
  if (!device.is("cpu")) SKIP("only the CPU's device memory is the host's; tests/unit/vulkan/adopt_test.cpp imports");
  const OwnedStream stream(device.gpu);
  std::vector<std::uint32_t> host(1024, 5);
  const DevicePtr memory =
      device.gpu->import_memory(reinterpret_cast<std::uintptr_t>(host.data()), host.size() * sizeof host[0]);
  device.affine(memory, 1024, 2, 1, stream.get());
  device.gpu->fill(memory.offset(401), 0xEE, 1, 7, stream.get());
  std::uint32_t word = 77;
  device.gpu->copy_h2d_async(memory.offset(8), &word, 4, stream.get());
  const Buffer copy(device.gpu, 4096);
  device.gpu->copy_d2d_async(copy.get(), memory, 4096, stream.get());
  device.gpu->synchronize(stream.get());
  std::vector<std::uint32_t> expected(1024, 11);
  expected[2] = 77;
  std::memset(reinterpret_cast<std::byte*>(expected.data()) + 401, 0xEE, 7);
  CHECK(host == expected);
  CHECK(device.download(copy) == expected);
  device.gpu->release_import(memory);
  CHECK(error_of([&] { device.gpu->copy_h2d(memory, &word, 4); }).code() == ErrorCode::invalid_argument);
  CHECK(device.canary());
}

TEST_CASE("a limit at each allocation in turn is refused there and leaves the device usable", "[device][memory]") {
  constexpr std::array<std::uint64_t, 6> sizes{100, 4096, 1, std::uint64_t{3} << 20, 65537, std::uint64_t{40} << 20};
  std::uint64_t before = 0;
  for (std::size_t refused = 0; refused < sizes.size(); ++refused) {
    OpenOptions options = device_options();
    options.dedicated_buffers = refused % 2 == 1;
    // 4 bytes are TestDevice's own; one byte is missing for the allocation.
    options.memory_limit = 4 + before + sizes[refused] - 1;
    before += sizes[refused];
    const TestDevice device(options);
    std::vector<Buffer> buffers;
    for (std::size_t i = 0; i < refused; ++i) buffers.emplace_back(device.gpu, sizes[i]);
    const std::uint64_t live = device.gpu->memory_info().live;
    for (int again = 0; again < 2; ++again) {
      const Error error = error_of([&] { buffers.emplace_back(device.gpu, sizes[refused]); });
      CHECK(error.code() == ErrorCode::out_of_device_memory);
      CHECK(std::string(error.what()).find("memory_limit") != std::string::npos);
    }
    CHECK(device.gpu->memory_info().live == live);
    buffers.clear();
    if (options.memory_limit >= 4 + 256) CHECK(device.canary());
    CHECK(device.gpu->memory_info().live == 4);
  }
}

TEST_CASE("more memory than the device has is refused and leaves the device usable", "[device][memory]") {
  const TestDevice device(memory_options());
  const OwnedStream stream(device.gpu);
  const Buffer kept = device.upload(std::vector<std::uint32_t>(1000, 6));
  const std::uint64_t total = device.gpu->memory_info().total;
  for (const std::uint64_t bytes :
       {total + 4096, total * 2, std::uint64_t{1} << 46, std::uint64_t{1} << 62, ~std::uint64_t{0}}) {
    for (int again = 0; again < 5; ++again) {
      INFO(bytes << " bytes");
      CHECK(error_of([&] { static_cast<void>(device.gpu->alloc(bytes)); }).code() == ErrorCode::out_of_device_memory);
      CHECK(error_of([&] { static_cast<void>(device.gpu->alloc_async(bytes, stream.get())); }).code() ==
            ErrorCode::out_of_device_memory);
    }
  }
  CHECK(error_of([&] { static_cast<void>(device.gpu->alloc_pinned(std::uint64_t{1} << 62)); }).code() ==
        ErrorCode::out_of_host_memory);
  CHECK(device.download(kept) == std::vector<std::uint32_t>(1000, 6));
  CHECK(device.canary());
}

TEST_CASE("a device whose memory is full says so and works again afterwards", "[device][memory]") {
  const TestDevice device;
  if (device.shares_host_memory() || device.gpu->info().type == DeviceType::integrated)
    SKIP("this device's memory is the host's, which other processes need");
  const OwnedStream stream(device.gpu);
  const Buffer kept = device.upload(std::vector<std::uint32_t>(1000, 6));
  const std::uint64_t live = device.gpu->memory_info().live;
  std::vector<std::uint64_t> sizes;
  for (int again = 0; again < 3; ++again) {
    std::vector<Buffer> buffers = fill_memory(device, sizes);
    CHECK(buffers.size() >= 4);
    const std::uint64_t large = std::uint64_t{256} << 20;
    CHECK(error_of([&] { static_cast<void>(device.gpu->alloc_async(large, stream.get())); }).code() ==
          ErrorCode::out_of_device_memory);
    CHECK(device.download(kept) == std::vector<std::uint32_t>(1000, 6));
    buffers.clear();
    CHECK(device.gpu->memory_info().live == live);
    CHECK(device.canary());

    // What there was room for, there is room for again.
    for (const std::uint64_t bytes : sizes) buffers.emplace_back(device.gpu, bytes);
    CHECK(buffers.size() == sizes.size());
    buffers.clear();
    CHECK(device.canary());
  }
  CHECK(device.download(kept) == std::vector<std::uint32_t>(1000, 6));
}

TEST_CASE("a thousand allocations and frees lose nothing", "[device][memory]") {
  const TestDevice device(memory_options());
  const OwnedStream stream(device.gpu);
  constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20;
  const Buffer source(device.gpu, 2 * mebibyte);
  const auto round = [&](std::uint64_t i) {
    const std::uint64_t bytes = mebibyte + (i % 7) * 1000;
    if (i % 3 == 0) {
      const DevicePtr memory = device.gpu->alloc_async(bytes, stream.get());
      device.gpu->copy_d2d_async(memory, source.get(), bytes, stream.get());
      device.gpu->free_async(memory, stream.get());
    } else {
      const DevicePtr memory = device.gpu->alloc(bytes);
      device.gpu->copy_d2d_async(memory, source.get(), bytes, stream.get());
      device.gpu->free(memory);
    }
  };
  for (std::uint64_t i = 0; i < 50; ++i) round(i);  // what is kept for later use comes first
  device.gpu->synchronize(stream.get());
  const std::uint64_t live = device.gpu->memory_info().live;
  const std::uint64_t used = used_bytes(device);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    round(i);
    if (i % 100 == 0) device.gpu->synchronize(stream.get());
  }
  device.gpu->synchronize(stream.get());
  CHECK(device.gpu->memory_info().live == live);
  // A sanitizer keeps a quarter of a gigabyte of what was freed.
  CHECK(used_bytes(device) < used + 500 * mebibyte);
}

TEST_CASE("page-locked memory comes and goes", "[device][memory]") {
  const TestDevice device;
  const OwnedStream stream(device.gpu);
  CHECK(device.gpu->alloc_pinned(0) == nullptr);
  for (std::uint32_t i = 0; i < 100; ++i) {
    const std::size_t words = 1 + i * 997;
    const PinnedBuffer source(device.gpu, 4 * words);
    const PinnedBuffer back(device.gpu, 4 * words);
    auto* from = static_cast<std::uint32_t*>(source.get());
    auto* to = static_cast<std::uint32_t*>(back.get());
    for (std::uint32_t k = 0; k < words; ++k) from[k] = k * i;
    std::fill_n(to, words, 0U);
    const Buffer memory(device.gpu, 4 * words);
    device.gpu->copy_h2d_async(memory.get(), from, 4 * words, stream.get());
    device.affine(memory.get(), static_cast<std::uint32_t>(words), 2, 1, stream.get());
    device.gpu->copy_d2h_async(to, memory.get(), 4 * words, stream.get());
    device.gpu->synchronize(stream.get());
    bool right = true;
    for (std::uint32_t k = 0; k < words; ++k) right = right && to[k] == k * i * 2 + 1;
    CHECK(right);
  }
}

TEST_CASE("freed memory may be had again at once", "[device][memory]") {
  const TestDevice device(memory_options());
  const OwnedStream stream(device.gpu);
  // Work that is still queued on the memory of before must not reach what has it now.
  for (std::uint32_t i = 0; i < 50; ++i) {
    const DevicePtr before = device.gpu->alloc(4096);
    if (i % 10 == 0) device.spin(stream.get(), 2);
    device.affine(before, 1024, 3, 7, stream.get());
    device.gpu->free(before);
    const Buffer after = device.upload(std::vector<std::uint32_t>(1024, i));
    REQUIRE(device.download(after) == std::vector<std::uint32_t>(1024, i));
  }
}

}  // namespace kdart::test
