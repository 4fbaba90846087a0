// Generation that goes on: nothing grows.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "tests/support/layer_runner.h"
#include "tests/support/models.h"
#include "tools/reference/random_model.h"

namespace kdart::test {
namespace {

// Steps on a GPU; fewer where the kernels run on a CPU.
std::uint32_t steps_on(const GpuBackend& device, std::uint32_t steps) {
  return device.info().type == DeviceType::cpu ? steps / 20 : steps;
}

// Memory is flat: not a byte more is live, and none is gone from the device but for what it sets aside at the start.
class FlatMemory {
 public:
  explicit FlatMemory(GpuBackend& device) : device_(&device), start_(device.memory_info()) {}
  void check() const {
    const MemoryInfo now = device_->memory_info();
    CHECK(now.live == start_.live);
    // What other programs take of a CPU's memory is none of ours.
    if (device_->info().type != DeviceType::cpu) CHECK(now.free >= start_.free);
  }

 private:
  GpuBackend* device_;
  MemoryInfo start_;
};

}  // namespace

TEST_CASE("10000 decode steps and a prompt now and then leave memory flat", "[kda][layer][memory]") {
  const KdaConfig config = lower_bound_layer();
  constexpr std::uint32_t prompt = 17;
  LayerRunner runner(KdaDeviceWeights::upload(open_test_device(), reference::random_weights(config, 83)), prompt);
  GpuBackend& gpu = *runner.backend();
  runner.start(random_input(config, prompt, 4));
  const auto run = [&](std::uint32_t steps) {
    runner.submit({Call::prefill, prompt}, 0);
    for (std::uint32_t i = 0; i < steps; ++i) {
      runner.submit({Call::decode, 1}, 0);
      if (i % 64 == 63) gpu.synchronize(runner.stream());
    }
    gpu.synchronize(runner.stream());
  };
  run(100);
  const FlatMemory memory(gpu);
  for (int round = 0; round < 10; ++round) {
    run(steps_on(gpu, 1000));
    memory.check();
  }
  const Output output = runner.finish();
  const auto finite = [](const std::vector<float>& values) {
    return std::all_of(values.begin(), values.end(), [](float x) { return x - x == 0.0F; });
  };
  CHECK(finite(output.recurrent));
}

TEST_CASE("10000 allocations in stream order leave memory flat", "[kda][layer][memory]") {
  const auto gpu = open_test_device();
  const OwnedStream stream(gpu);
  const auto run = [&](std::uint32_t rounds) {
    for (std::uint32_t i = 0; i < rounds; ++i) {
      const std::uint64_t bytes = std::uint64_t{4096} << i % 9;
      const DevicePtr memory = gpu->alloc_async(bytes, stream.get());
      gpu->fill(memory, i, 4, bytes / 4, stream.get());
      gpu->free_async(memory, stream.get());
      if (i % 50 == 49) gpu->synchronize(stream.get());
    }
    gpu->synchronize(stream.get());
  };
  run(100);
  const FlatMemory memory(*gpu);
  for (int round = 0; round < 4; ++round) {
    run(steps_on(*gpu, 2500));
    memory.check();
  }
}

}  // namespace kdart::test
