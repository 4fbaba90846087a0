// Images that are not what they say, and the life of those that are.
#include <elf.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <thread>

#include "backends/cpu/image_check.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/loader.h"
#include "tests/unit/cpu/test_device.h"

namespace kdart::test {
namespace {

using Bytes = std::vector<std::byte>;

void require_refused(const Bytes& image) {
  const Error error = error_of([&] { const cpu::CpuModule module(image, "bad.so"); });
  CHECK(error.code() == ErrorCode::invalid_image);
  CHECK(std::string(error.what()).find("bad.so") != std::string::npos);
}

// The image with one field of its ELF header set.
template <class T>
Bytes with_field(Bytes image, std::size_t offset, T value) {
  std::memcpy(image.data() + offset, &value, sizeof value);
  return image;
}

}  // namespace

TEST_CASE("bytes that are no shared object are refused", "[cpu][image]") {
  require_refused({});
  require_refused(Bytes(1));
  require_refused(Bytes(63));
  require_refused(Bytes(4096));
  std::mt19937 random(7);
  Bytes noise(20000);
  for (std::byte& b : noise) b = static_cast<std::byte>(random());
  require_refused(noise);
  const std::string text(5000, 'x');
  const auto bytes = std::as_bytes(std::span(text));
  require_refused({bytes.begin(), bytes.end()});
}

TEST_CASE("an image cut short anywhere is refused", "[cpu][image]") {
  const Bytes image = good_image();
  for (std::size_t size = 0; size < image.size(); size += 64) {
    INFO("cut to " << size << " of " << image.size());
    require_refused({image.begin(), image.begin() + static_cast<std::ptrdiff_t>(size)});
  }
}

// Loading does not look at the entry address or at sections, and can do without the last program headers (notes, say).
// Every other bit matters, but for a count that leaves the last sections out: it is checked, and some counts pass.
TEST_CASE("a flipped bit in the header is refused or harmless", "[cpu][image]") {
  const Bytes image = good_image();
  const auto in_field = [](std::size_t byte, std::size_t offset, std::size_t size) {
    return byte >= offset && byte < offset + size;
  };
  for (std::size_t bit = 0; bit < std::size_t{64} * 8; ++bit) {
    const std::size_t byte = bit / 8;
    INFO("bit " << bit % 8 << " of byte " << byte);
    Bytes flipped = image;
    flipped[byte] ^= static_cast<std::byte>(1U << (bit % 8));
    const bool may_load = in_field(byte, offsetof(Elf64_Ehdr, e_entry), sizeof(Elf64_Addr)) ||
                          in_field(byte, offsetof(Elf64_Ehdr, e_phnum), sizeof(Elf64_Half)) ||
                          in_field(byte, offsetof(Elf64_Ehdr, e_shnum), sizeof(Elf64_Half));
    if (!may_load) {
      require_refused(flipped);
      continue;
    }
    try {
      const cpu::CpuModule module(flipped, "odd.so");
      CHECK(module.find("visit") != nullptr);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::invalid_image);
    }
  }
}

TEST_CASE("headers that lie are refused", "[cpu][image]") {
  const Bytes image = good_image();
  require_refused(with_field<std::uint64_t>(image, offsetof(Elf64_Ehdr, e_phoff), ~std::uint64_t{0} - 55));
  require_refused(with_field<std::uint64_t>(image, offsetof(Elf64_Ehdr, e_shoff), ~std::uint64_t{0} - 63));
  require_refused(with_field<std::uint16_t>(image, offsetof(Elf64_Ehdr, e_phnum), 0xffff));
  require_refused(with_field<std::uint16_t>(image, offsetof(Elf64_Ehdr, e_machine), EM_S390));
  require_refused(with_field<std::uint16_t>(image, offsetof(Elf64_Ehdr, e_type), ET_EXEC));

  Elf64_Ehdr header{};
  std::memcpy(&header, image.data(), sizeof header);
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    const std::size_t at = header.e_phoff + i * sizeof(Elf64_Phdr);
    Elf64_Phdr segment{};
    std::memcpy(&segment, image.data() + at, sizeof segment);
    if (segment.p_type != PT_LOAD && segment.p_type != PT_DYNAMIC) continue;
    INFO("segment " << i);
    require_refused(with_field<std::uint64_t>(image, at + offsetof(Elf64_Phdr, p_filesz), image.size() + 1));
    require_refused(with_field<std::uint64_t>(image, at + offsetof(Elf64_Phdr, p_offset), ~std::uint64_t{0}));
    require_refused(with_field<std::uint64_t>(image, at + offsetof(Elf64_Phdr, p_vaddr), std::uint64_t{1} << 40));
  }
}

TEST_CASE("a shared object that is no image of ours is refused", "[cpu][image]") {
  const Error missing = error_of([] { const cpu::CpuModule module(image_without_table(), "bad.so"); });
  CHECK(missing.code() == ErrorCode::invalid_image);
  CHECK(std::string(missing.what()).find("kdart_cpu_image_v1") != std::string::npos);

  const Error abi = error_of([] { const cpu::CpuModule module(wrong_abi_image(), "bad.so"); });
  CHECK(abi.code() == ErrorCode::invalid_image);
  CHECK(std::string(abi.what()).find("99") != std::string::npos);
}

TEST_CASE("the device is usable after a refused image", "[cpu][image]") {
  const CpuTestDevice device;
  const Bytes image = good_image();
  const Bytes half(image.begin(), image.begin() + static_cast<std::ptrdiff_t>(image.size() / 2));
  for (const Bytes& bad : {Bytes(1), half, wrong_abi_image(), image_without_table()}) {
    CHECK(error_of([&] { static_cast<void>(device.gpu->load(test_set(bad))); }).code() == ErrorCode::invalid_image);
    CHECK(device.canary());
  }
}

TEST_CASE("an image that lacks a stated kernel is refused", "[cpu][image]") {
  const cpu::CpuModule module(good_image(), "good.so");
  CHECK(module.find("visit") != nullptr);
  CHECK(module.find("visi") == nullptr);
  CHECK(module.find("") == nullptr);
}

TEST_CASE("one image loaded twice is two images", "[cpu][image]") {
  const CpuTestDevice device;
  const auto again = device.gpu->load(test_set(good_image()));
  const cpu::CpuModule first(good_image(), "first.so");
  const cpu::CpuModule second(good_image(), "second.so");
  CHECK(first.find("visit")->block_entry() != second.find("visit")->block_entry());
  CHECK(device.canary());
}

TEST_CASE("images are unloaded with work queued, a hundred times", "[cpu][image]") {
  const CpuTestDevice device;
  const OwnedStream stream(device.gpu);
  const Bytes image = good_image();
  const Buffer counts = device.upload(std::vector<std::uint32_t>(64, 0));
  for (int i = 0; i < 100; ++i) {
    const auto set = device.gpu->load(test_set(image));
    for (int k = 0; k < 10; ++k) {
      KernelLaunch(*device.gpu, set->get("visit")).grid(8).block(8).arg(counts.get()).launch(stream.get());
    }
  }
  device.gpu->synchronize(stream.get());
  CHECK(device.download(counts) == std::vector<std::uint32_t>(64, 1000));
}

TEST_CASE("eight threads load at once", "[cpu][image][tsan]") {
  const CpuTestDevice device;
  const Bytes image = good_image();
  std::vector<std::thread> threads;
  std::atomic<int> loaded{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      const auto set = device.gpu->load(test_set(image));
      loaded += set->find("rotate") ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(loaded == 8);
}

TEST_CASE("an image file can be a temporary file", "[cpu][image]") {
  const Bytes image = good_image();
  const int descriptor = cpu::open_image_file(cpu::ImageFile::temporary);
  REQUIRE(descriptor >= 0);
  CHECK(write(descriptor, image.data(), image.size()) == static_cast<ssize_t>(image.size()));
  close(descriptor);
}

}  // namespace kdart::test
