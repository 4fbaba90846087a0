// Many threads on one device.
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <future>
#include <vector>

#include "kdart/launch.h"
#include "kdart/owned.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/sample_set.h"

namespace kdart::test {

TEST_CASE("cuda: threads share a device", "[cuda][no-device][tsan]") {
  constexpr int threads = 8;
  constexpr int rounds = 20;
  const FakeCuda fake;
  auto gpu = fake.open();
  auto set = gpu->load(fake_cuda_set());
  std::atomic<int> wrong{0};
  const auto work = [&](int thread) {
    const OwnedStream stream(gpu);
    const OwnedEvent event(gpu);
    for (int i = 0; i < rounds; ++i) {
      const Buffer memory(gpu, 1024);
      const auto value = static_cast<std::uint32_t>(thread * rounds + i);
      gpu->fill(memory.get(), value, 4, 256, stream.get());
      launch_scale(*gpu, *set, memory.get(), memory.get().offset(512), stream.get());
      KernelLaunch(gpu, set->get("extra"))
          .grid(1)
          .block(1)
          .shared_mem((48U << 10) + static_cast<std::uint32_t>(i * 1024))
          .launch(stream.get());
      gpu->record(event.get(), stream.get());
      if (i % 5 == 0) {
        gpu->begin_capture(stream.get());
        launch_scale(*gpu, *set, memory.get(), memory.get().offset(512), stream.get());
        const OwnedGraph graph(gpu, gpu->end_capture(stream.get()));
        gpu->launch_graph(graph.get(), stream.get());
        gpu->synchronize(stream.get());
      }
      if (i % 3 == 0) gpu->wait_host(event.get());
      gpu->synchronize(stream.get());
      std::uint32_t found = 0;
      gpu->copy_d2h(&found, memory.get().offset(1020), 4);
      if (found != value) ++wrong;
    }
    if (fake->depth() != 0) ++wrong;
  };
  std::vector<std::future<void>> all;
  for (int i = 0; i < threads; ++i) all.push_back(std::async(std::launch::async, work, i));
  for (std::future<void>& thread : all) thread.get();
  CHECK(wrong == 0);
  std::uint64_t runs = 0;
  for (const fake_cuda::Launch& launch : fake.launches()) runs += launch.runs;
  CHECK(runs == threads * (rounds * 2 + rounds / 5));
  set.reset();
  gpu.reset();
  KDART_CHECK_CLEAN(fake);
}

}  // namespace kdart::test
