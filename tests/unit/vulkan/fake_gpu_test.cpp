// The host's side of a discrete AMD GPU: RADV with its real memory types and heaps, over a kernel driver that Mesa's drm-shim
// plays (tests/vulkan/with_fake_gpu). Shaders and copies do nothing there, so no result is looked at: what counts is that
// memory goes where it should and that every call goes through. Hidden: ctest runs these on the fake alone.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <numeric>
#include <vector>

#include "tests/support/layer_runner.h"
#include "tests/support/models.h"
#include "tests/unit/vulkan/vulkan_device.h"
#include "tools/reference/random_model.h"

namespace kdart::test {
namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;

}  // namespace

TEST_CASE("kernels get the large heap, transfers the host's memory", "[.fake-gpu]") {
  const FoundDevice found;
  const vulkan::PhysicalDeviceFacts& facts = found.listed.facts;
  const vulkan::DevicePlan& plan = found.listed.plan;
  REQUIRE(facts.driver_id == VK_DRIVER_ID_MESA_RADV);
  REQUIRE(facts.type == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU);
  CHECK(plan.missing.empty());

  const auto type = [&](std::uint32_t index) { return facts.memory_types[index]; };
  const auto is_local = [&](std::uint32_t index) {
    return (type(index).flags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT) != 0;
  };
  const auto heap_bytes = [&](std::uint32_t index) { return facts.memory_heaps[type(index).heap].bytes; };
  // This device is one with a small window into its memory; otherwise the case shows nothing.
  const bool window = std::any_of(plan.device_types.begin(), plan.device_types.end(),
                                  [&](std::uint32_t index) { return heap_bytes(index) <= 256 * mib; });
  REQUIRE(window);
  CHECK(heap_bytes(plan.device_types.front()) > 1024 * mib);
  CHECK((type(plan.device_types.front()).flags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT) == 0);
  CHECK_FALSE(is_local(plan.upload_types.front()));
  CHECK_FALSE(is_local(plan.readback_types.front()));
  CHECK((type(plan.readback_types.front()).flags & VK_MEMORY_PROPERTY_HOST_CACHED_BIT) != 0);
  CHECK((type(plan.pinned_types.front()).flags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT) != 0);
  CHECK(plan.info.total_memory == heap_bytes(plan.device_types.front()));
}

TEST_CASE("a budget that is used up is an error before anything is submitted", "[.fake-gpu]") {
  const TestDevice device = open_vulkan();
  GpuBackend& gpu = *device.gpu;
  const MemoryInfo before = gpu.memory_info();
  CHECK(before.free <= before.total);
  constexpr std::uint64_t piece = 1024 * mib;
  std::vector<Buffer> held;
  ErrorCode code = ErrorCode::unsupported;
  while (held.size() * piece <= before.total) {
    try {
      held.emplace_back(device.gpu, piece);
    } catch (const Error& error) {
      code = error.code();
      break;
    }
    const MemoryInfo now = gpu.memory_info();
    CHECK(now.live >= held.size() * piece);
    CHECK(now.free <= before.total - held.size() * piece);
  }
  CHECK(code == ErrorCode::out_of_device_memory);
  CHECK(held.size() >= 8);
  const std::size_t fitted = held.size();
  held.clear();
  CHECK(gpu.memory_info().free == before.free);
  for (std::size_t i = 0; i < fitted; ++i) held.emplace_back(device.gpu, piece);  // as much again
}

TEST_CASE("every kind of work goes through", "[.fake-gpu]") {
  const TestDevice device = open_vulkan();
  GpuBackend& gpu = *device.gpu;
  const OwnedStream stream(device.gpu);
  const OwnedEvent event(device.gpu);
  std::vector<std::uint32_t> host((9 * mib) / 4);  // more than two pieces of staging memory
  std::iota(host.begin(), host.end(), 0U);
  const std::uint64_t bytes = host.size() * 4;
  const Buffer a = device.upload(host);
  const Buffer b(device.gpu, bytes);
  const PinnedBuffer pinned(device.gpu, 4096);
  gpu.copy_d2d(b.get(), a.get(), bytes);
  gpu.copy_h2d_async(a.get().offset(3), host.data(), bytes - 3, stream.get());
  gpu.copy_h2d_async(a.get(), pinned.get(), 4096, stream.get());
  gpu.copy_d2h_async(pinned.get(), a.get(), 4096, stream.get());
  gpu.copy_2d_d2d_async(b.get(), 128, a.get(), 64, 32, 100, stream.get());
  gpu.fill(b.get().offset(1), 7, 1, 1001, stream.get());
  gpu.record(event.get(), stream.get());
  gpu.begin_capture(stream.get());
  device.affine(a, 3, 1, stream.get());
  const OwnedGraph graph(device.gpu, gpu.end_capture(stream.get()));
  for (int i = 0; i < 100; ++i) {
    device.affine(b, 3, 1, stream.get());
    gpu.launch_graph(graph.get(), stream.get());
  }
  gpu.synchronize(stream.get());
  gpu.wait_host(event.get());  // no query: the fake says that a wait is over, and never counts
  static_cast<void>(device.download(b));

  const KdaConfig config = softplus_layer();
  LayerRunner runner(KdaDeviceWeights::upload(device.gpu, reference::random_weights(config, 7)), 40);
  const Output output =
      runner.run(random_input(config, 40, 3), {{Call::prefill, 32}, {Call::decode, 1}, {Call::decode_k, 7}});
  CHECK(output.out.size() == std::size_t{40} * config.hidden_size);
}

}  // namespace kdart::test
