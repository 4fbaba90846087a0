// Pipelines: one for each block and amount of shared memory, made once.
#include "backends/vulkan/kernels.h"

#include <catch2/catch_test_macros.hpp>
#include <set>
#include <thread>

#include "tests/support/error_of.h"
#include "tests/unit/vulkan/vulkan_device.h"

namespace kdart::test {
namespace {

struct Loaded {
  Loaded()
      : device(found.instance, found.listed.handle, found.listed.facts, found.listed.plan),
        cache(device),
        kernels(TestKernels::of("vulkan")),
        module(std::make_shared<vulkan::VulkanModule>(device, cache, kernels.manifest.images.at(0), kernels.image())) {}
  FoundDevice found;
  vulkan::LogicalDevice device;
  vulkan::DriverCache cache;
  TestKernels kernels;
  std::shared_ptr<vulkan::VulkanModule> module;
};

}  // namespace

TEST_CASE("a pipeline is found for exactly what it was prepared for", "[vulkan][kernels]") {
  const Loaded loaded;
  vulkan::VulkanKernel& rotate = *loaded.module->find("kdart_rotate");
  CHECK(rotate.find({32, 1, 1}, 128) == VK_NULL_HANDLE);
  const VkPipeline first = rotate.prepare({32, 1, 1}, 128);
  CHECK(first != VK_NULL_HANDLE);
  CHECK(rotate.find({32, 1, 1}, 128) == first);
  CHECK(rotate.prepare({32, 1, 1}, 128) == first);
  // Shared memory comes in words.
  CHECK(rotate.find({32, 1, 1}, 127) == first);
  CHECK(rotate.find({32, 1, 1}, 125) == first);
  for (const std::uint32_t shared : {0U, 4U, 124U, 129U, 256U})
    CHECK(rotate.find({32, 1, 1}, shared) == VK_NULL_HANDLE);
  for (const Dim3 block : {Dim3{31, 1, 1}, Dim3{1, 32, 1}, Dim3{32, 2, 1}, Dim3{32, 1, 2}})
    CHECK(rotate.find(block, 128) == VK_NULL_HANDLE);

  std::set<VkPipeline> pipelines{first};
  for (const std::uint32_t shared : {0U, 64U, 256U}) pipelines.insert(rotate.prepare({32, 1, 1}, shared));
  for (const Dim3 block : {Dim3{31, 1, 1}, Dim3{1, 32, 1}}) pipelines.insert(rotate.prepare(block, 128));
  CHECK(pipelines.size() == 6);
  CHECK(rotate.find({32, 1, 1}, 128) == first);
}

TEST_CASE("threads that prepare the same kernel get the same pipeline", "[vulkan][kernels]") {
  const Loaded loaded;
  vulkan::VulkanKernel& affine = *loaded.module->find("kdart_affine");
  std::array<std::array<VkPipeline, 8>, 6> found{};
  std::vector<std::thread> threads;
  for (auto& row : found) {
    threads.emplace_back([&] {
      for (std::uint32_t i = 0; i < row.size(); ++i) row[i] = affine.prepare({i + 1, 1, 1}, 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& row : found) CHECK(row == found[0]);
}

TEST_CASE("an image's kernels are found by their symbols", "[vulkan][kernels]") {
  const Loaded loaded;
  CHECK(loaded.module->find("rotate") == nullptr);
  CHECK(loaded.module->find("") == nullptr);
  const vulkan::VulkanKernel* many = loaded.module->find("kdart_many_args");
  REQUIRE(many != nullptr);
  CHECK(many->by_address());
  CHECK(many->arguments().size() == 30);
  CHECK_FALSE(loaded.module->find("kdart_affine")->by_address());
}

}  // namespace kdart::test
