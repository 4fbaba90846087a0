// Images through the public interface: each wrong one is refused with its code, and the device works afterwards.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <functional>

#include "tests/support/error_of.h"
#include "tests/unit/vulkan/spirv_assembler.h"
#include "tests/unit/vulkan/vulkan_device.h"

namespace kdart::test {
namespace {

using Bytes = std::vector<std::byte>;

SpirvWords words_of(const Bytes& bytes) {
  SpirvWords words(bytes.size() / 4);
  std::memcpy(words.data(), bytes.data(), words.size() * 4);
  return words;
}

Bytes bytes_of(const SpirvWords& words) {
  const auto bytes = std::as_bytes(std::span(words));
  return {bytes.begin(), bytes.end()};
}

// The test kernels, changed by `change`; hash and length are right again afterwards.
TestKernels changed(const std::function<void(SpirvWords&)>& change) {
  TestKernels kernels = TestKernels::of("vulkan");
  SpirvWords words = words_of(kernels.image());
  change(words);
  kernels.set_image(bytes_of(words));
  return kernels;
}

// Index of the first instruction of this kind.
std::size_t find_op(const SpirvWords& words, std::uint32_t opcode) {
  for (std::size_t at = 5; at < words.size(); at += words[at] >> 16) {
    if ((words[at] & 0xFFFFU) == opcode) return at;
  }
  FAIL("no instruction " << opcode);
  return 0;
}

void need_capability(SpirvWords& words, std::uint32_t capability) {
  words.insert(words.begin() + 5, {2U << 16 | spirv::capability, capability});
}

ErrorCode refusal(const TestDevice& device, const TestKernels& kernels, const char* word = "") {
  const Error error = error_of([&] { static_cast<void>(device.gpu->load(kernels.make())); });
  INFO(error.what());
  CHECK(std::string(error.what()).find(word) != std::string::npos);
  CHECK(device.canary());
  return error.code();
}

}  // namespace

TEST_CASE("SPIR-V that is none is refused although its hash is right", "[vulkan][image]") {
  const TestDevice device = open_vulkan();
  const auto resized = [](std::size_t bytes) {
    TestKernels kernels = TestKernels::of("vulkan");
    Bytes image = kernels.image();
    image.resize(bytes);
    kernels.set_image(image);
    return kernels;
  };
  const std::size_t size = TestKernels::of("vulkan").image().size();
  CHECK(refusal(device, resized(0)) == ErrorCode::invalid_image);
  CHECK(refusal(device, resized(size - 4)) == ErrorCode::invalid_image);
  CHECK(refusal(device, resized(size - 1), "words of 4") == ErrorCode::invalid_image);
  CHECK(refusal(device, resized(size / 8 * 4)) == ErrorCode::invalid_image);
  CHECK(refusal(device, changed([](SpirvWords& w) { w[0] = 0x464c457f; })) == ErrorCode::invalid_image);
  CHECK(refusal(device, changed([](SpirvWords& w) { w[5] = 0; })) == ErrorCode::invalid_image);
  CHECK(refusal(device, changed([](SpirvWords& w) {
                  const SpirvWords again = w;
                  w.insert(w.end(), again.begin(), again.end());
                }),
                "two entry points") == ErrorCode::invalid_image);
}

TEST_CASE("an image with another hash than stated is corrupt", "[vulkan][image]") {
  const TestDevice device = open_vulkan();
  TestKernels kernels = TestKernels::of("vulkan");
  kernels.files.begin()->second.back() ^= std::byte{1};
  CHECK(refusal(device, kernels, "SHA-256") == ErrorCode::corrupt_image);
}

TEST_CASE("a capability that the device lacks is refused, stated or not", "[vulkan][image]") {
  const TestDevice device = open_vulkan();
  // 6 is Kernel: OpenCL's, which no Vulkan device has.
  for (const auto& [number, name] : {std::pair<std::uint32_t, const char*>{spirv::kernel, "capability 6"},
                                     {spirv::cooperative_matrix, "CooperativeMatrixKHR"}}) {
    const auto& has = device.gpu->facts().capabilities;
    if (std::find(has.begin(), has.end(), name) != has.end()) continue;
    TestKernels kernels = changed([which = number](SpirvWords& words) { need_capability(words, which); });
    CHECK(refusal(device, kernels, name) == ErrorCode::invalid_image);
    kernels.manifest.images[0].capabilities.emplace_back(name);
    CHECK(refusal(device, kernels, name) == ErrorCode::no_matching_image);
  }
}

TEST_CASE("a newer SPIR-V than the device takes is refused, stated or not", "[vulkan][image]") {
  const TestDevice device = open_vulkan();
  TestKernels kernels = changed([](SpirvWords& words) { words[1] = 0x00010900; });
  CHECK(refusal(device, kernels, "1.9") == ErrorCode::invalid_image);
  kernels.manifest.images[0].target = "spv1.9";
  CHECK(refusal(device, kernels, "spv1.9") == ErrorCode::no_matching_image);
}

TEST_CASE("an image that lacks a stated kernel is corrupt", "[vulkan][image]") {
  const TestDevice device = open_vulkan();
  TestKernels kernels = TestKernels::of("vulkan");
  kernels.manifest.images[0].kernels[1].symbol = "kdart_rotato";
  CHECK(refusal(device, kernels, "kdart_rotato") == ErrorCode::corrupt_image);
}

TEST_CASE("an image whose arguments lie elsewhere than the contract says is corrupt", "[vulkan][image]") {
  const TestDevice device = open_vulkan();
  const TestKernels kernels = changed([](SpirvWords& words) {
    // The last offset of the first kernel's block.
    std::size_t last = 0;
    for (std::size_t at = 5; at < words.size() && words[at] != spirv::magic; at += words[at] >> 16) {
      const bool offset = (words[at] & 0xFFFFU) == spirv::member_decorate && words[at + 3] == spirv::offset;
      if (offset && words[at + 4] == 16) last = at + 4;
    }
    REQUIRE(last != 0);
    words[last] = 20;
  });
  CHECK(refusal(device, kernels, "affine") == ErrorCode::corrupt_image);
}

TEST_CASE("a module with a fixed block takes launches of that block alone", "[vulkan][image]") {
  const TestDevice device = open_vulkan();
  // visit with its size as a plain constant: OpSpecConstant becomes OpConstant, and the decorations go.
  const TestKernels kernels = changed([](SpirvWords& words) {
    const std::size_t first = find_op(words, spirv::spec_constant);
    SpirvWords kept(words.begin(), words.begin() + 5);
    std::vector<std::uint32_t> sizes;
    bool in_first = true;
    for (std::size_t at = 5; at < words.size(); at += words[at] == spirv::magic ? 5 : words[at] >> 16) {
      if (words[at] == spirv::magic) {
        in_first = false;
        kept.insert(kept.end(), words.begin() + static_cast<std::ptrdiff_t>(at),
                    words.begin() + static_cast<std::ptrdiff_t>(at) + 5);
        continue;
      }
      const std::size_t count = words[at] >> 16;
      const bool spec_id = (words[at] & 0xFFFFU) == spirv::decorate && count == 4 && words[at + 2] == 1;
      if (in_first && spec_id) continue;
      kept.insert(kept.end(), words.begin() + static_cast<std::ptrdiff_t>(at),
                  words.begin() + static_cast<std::ptrdiff_t>(at + count));
      const std::uint32_t op = words[at] & 0xFFFFU;
      if (in_first && at >= first && op == spirv::spec_constant) {
        kept[kept.size() - count] = static_cast<std::uint32_t>(count) << 16 | spirv::constant;
        kept.back() = sizes.empty() ? 8U : 1U;
        sizes.push_back(kept.back());
      }
      if (in_first && op == 51) kept[kept.size() - count] = static_cast<std::uint32_t>(count) << 16 | 44;  // composite
      if (in_first && op == spirv::execution_mode) kept[kept.size() - 3] = 8;
    }
    REQUIRE(sizes.size() == 3);
    words = kept;
  });
  const auto loaded = device.gpu->load(kernels.make());
  const OwnedStream stream(device.gpu);
  const Buffer data = device.upload(std::vector<std::uint32_t>(16, 1));
  const auto launch = [&](std::uint32_t block) {
    KernelLaunch(*device.gpu, loaded->get("affine"))
        .args(kernels::AffineArgs{.data = data.get(), .count = 16, .factor = 2, .term = 1})
        .grid(2)
        .block(block)
        .launch(stream.get());
  };
  launch(8);
  const Error error = error_of([&] { launch(16); });
  CHECK(error.code() == ErrorCode::invalid_launch);
  CHECK(std::string(error.what()).find("8 x 1 x 1") != std::string::npos);
  device.gpu->synchronize(stream.get());
  CHECK(device.download(data) == std::vector<std::uint32_t>(16, 3));
}

}  // namespace kdart::test
