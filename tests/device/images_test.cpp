// Images that a device should not run: each is refused by its code, and the device goes on.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "tests/support/error_of.h"
#include "tests/support/random_values.h"
#include "tests/support/test_device.h"

namespace kdart::test {
namespace {

using Bytes = std::vector<std::byte>;

Bytes random_bytes(std::size_t count) {
  Random random(77);
  Bytes bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.bits());
  return bytes;
}

Bytes text(std::string_view words) {
  Bytes bytes;
  for (const char c : words) bytes.push_back(static_cast<std::byte>(c));
  return bytes;
}

TestKernels kernels_of(const TestDevice& device) {
  return TestKernels::of(device.gpu->info().backend);
}

Error refusal(const TestDevice& device, const TestKernels& kernels) {
  const auto set = kernels.make();
  return error_of([&] { static_cast<void>(device.gpu->load(set)); });
}

}  // namespace

TEST_CASE("bytes that are no image are refused though their hash is right", "[device][images]") {
  const TestDevice device;
  for (const Bytes& bytes : {random_bytes(1000), random_bytes(7),
                             text("\x7f"
                                  "ELF and nothing more"),
                             text("// no code"), Bytes(4096, std::byte{0}), Bytes(1, std::byte{0x7f})}) {
    TestKernels kernels = kernels_of(device);
    for (std::size_t i = 0; i < kernels.manifest.images.size(); ++i) kernels.set_image(bytes, i);
    const Error error = refusal(device, kernels);
    INFO(bytes.size() << " bytes: " << error.what());
    CHECK(error.code() == ErrorCode::invalid_image);
    CHECK(device.canary());
  }
}

TEST_CASE("an image that was cut off is refused though its hash is right", "[device][images]") {
  const TestDevice device;
  for (const std::size_t part : {2U, 3U, 16U}) {
    TestKernels kernels = kernels_of(device);
    for (std::size_t i = 0; i < kernels.manifest.images.size(); ++i) {
      Bytes bytes = kernels.files.at(kernels.manifest.images[i].file);
      bytes.resize(bytes.size() / part / 4 * 4);
      kernels.set_image(bytes, i);
    }
    const Error error = refusal(device, kernels);
    INFO("1/" << part << ": " << error.what());
    CHECK(error.code() == ErrorCode::invalid_image);
    CHECK(device.canary());
  }
}

TEST_CASE("an image that is not the one stated is refused before the driver sees it", "[device][images]") {
  const TestDevice device;
  for (const bool shorter : {false, true}) {
    TestKernels kernels = kernels_of(device);
    for (auto& [file, bytes] : kernels.files) {
      if (shorter) {
        bytes.pop_back();
      } else {
        bytes[bytes.size() / 2] ^= std::byte{1};
      }
    }
    CHECK(refusal(device, kernels).code() == ErrorCode::corrupt_image);
  }
  CHECK(device.canary());
}

TEST_CASE("an image without the entry point that is stated is refused", "[device][images]") {
  const TestDevice device;
  TestKernels kernels = kernels_of(device);
  for (ManifestImage& image : kernels.manifest.images) {
    for (ImageKernel& kernel : image.kernels) {
      if (kernel.name == "visit") kernel.symbol += "_of_another_image";
    }
  }
  const Error error = refusal(device, kernels);
  INFO(error.what());
  CHECK(error.code() == ErrorCode::corrupt_image);
  CHECK(std::string(error.what()).find("visit") != std::string::npos);
  CHECK(device.canary());
}

TEST_CASE("a set of images for other devices alone is refused with a reason for each", "[device][images]") {
  const TestDevice device;
  TestKernels kernels = kernels_of(device);
  const std::vector<std::pair<std::string, std::string>> others{
      {"cpu", "riscv64"}, {"cuda", "sm_10"}, {"vulkan", "spv9.9"}, {"hip", "gfx000"}};
  const auto other = std::find_if(others.begin(), others.end(),
                                  [&](const auto& entry) { return entry.first == device.gpu->info().backend; });
  REQUIRE(other != others.end());
  kernels.manifest.images.resize(1);
  kernels.manifest.images[0].target = other->second;
  const Error error = refusal(device, kernels);
  INFO(error.what());
  CHECK(error.code() == ErrorCode::no_matching_image);
  CHECK(std::string(error.what()).find(other->second) != std::string::npos);
  kernels.manifest.images.clear();
  CHECK(refusal(device, kernels).code() == ErrorCode::no_matching_image);
  CHECK(device.canary());
}

}  // namespace kdart::test
