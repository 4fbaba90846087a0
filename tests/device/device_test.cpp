// Devices as a whole: opening and closing, several at once, handles, the optional cache.
#include <algorithm>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <string>
#include <thread>

#include "kdart/pipeline_cache.h"
#include "kdart/registry.h"
#include "tests/support/device.h"
#include "tests/support/error_of.h"
#include "tests/support/options.h"
#include "tests/support/test_device.h"

namespace kdart::test {

TEST_CASE("a device says what it is", "[device]") {
  const TestDevice device;
  const DeviceInfo& info = device.gpu->info();
  CHECK(info.id == DeviceId::parse(test_device()).to_string());
  CHECK(info.id == DeviceId{info.backend, info.index}.to_string());
  CHECK_FALSE(info.name.empty());
  CHECK_FALSE(info.vendor.empty());
  CHECK_FALSE(info.target.empty());
  CHECK(info.unusable.empty());
  CHECK(info.driver_library.empty() == device.is("cpu"));
  CHECK(std::is_sorted(info.features.begin(), info.features.end()));
  CHECK(std::is_sorted(info.quirks.begin(), info.quirks.end()));
  CHECK(info.limits.shared_memory_per_block >= 16384);
  CHECK(info.limits.threads_per_block >= 128);
  CHECK(std::min({info.limits.grid.x, info.limits.grid.y, info.limits.grid.z}) >= 65535);
  CHECK(info.limits.subgroup_min <= info.limits.subgroup_max);
  const MemoryInfo memory = device.gpu->memory_info();
  CHECK(memory.total > 0);
  CHECK(memory.free <= memory.total);
  CHECK(memory.total == info.total_memory);
  const DeviceFacts facts = device.gpu->facts();
  CHECK(facts.backend == info.backend);
  CHECK(facts.target == info.target);
}

TEST_CASE("an open device is the one that was listed", "[device]") {
  const std::shared_ptr<GpuBackend> gpu = open_test_device();
  for (const BackendStatus& status : list_backends()) {
    if (status.backend != gpu->info().backend) continue;
    CHECK_FALSE(status.error.has_value());
    REQUIRE(gpu->info().index < status.devices.size());
    const DeviceInfo& listed = status.devices[gpu->info().index];
    CHECK(listed.id == gpu->info().id);
    CHECK(listed.name == gpu->info().name);
    CHECK(listed.uuid == gpu->info().uuid);
    const std::string beyond = status.backend + ":" + std::to_string(status.devices.size());
    const Error error = error_of([&] { static_cast<void>(open_device(beyond)); });
    CHECK(error.code() == ErrorCode::no_device);
    CHECK(std::string(error.what()).find(beyond) != std::string::npos);
    return;
  }
  FAIL("the backend " << gpu->info().backend << " is not listed");
}

TEST_CASE("a device is opened and closed fifty times", "[device]") {
  for (int i = 0; i < 50; ++i) {
    const std::shared_ptr<GpuBackend> gpu = open_test_device();
    const Buffer memory(gpu, 64);
    const OwnedStream stream(gpu);
    gpu->fill(memory.get(), static_cast<std::uint32_t>(i), 4, 16, stream.get());
    gpu->synchronize(stream.get());
    std::vector<std::uint32_t> found(16);
    gpu->copy_d2h(found.data(), memory.get(), 64);
    REQUIRE(found == std::vector<std::uint32_t>(16, static_cast<std::uint32_t>(i)));
  }
}

TEST_CASE("a device may be opened twice at once", "[device][tsan]") {
  const TestDevice first;
  auto second = std::make_unique<TestDevice>();
  const OwnedStream stream(first.gpu);
  const Buffer data = first.upload(std::vector<std::uint32_t>(16, 1));
  first.spin(stream.get(), 10);
  first.affine(data, 2, 1, stream.get());
  CHECK(second->canary());
  // What belongs to one is nothing to the other.
  CHECK(error_of([&] { static_cast<void>(second->download(data)); }).code() == ErrorCode::invalid_argument);
  CHECK(error_of([&] { second->gpu->free(data.get()); }).code() == ErrorCode::invalid_handle);
  CHECK(second->canary());
  second.reset();
  first.gpu->synchronize(stream.get());
  CHECK(first.download(data) == std::vector<std::uint32_t>(16, 3));
}

TEST_CASE("a device is closed with work in flight and objects alive", "[device]") {
  for (const bool submitted : {false, true}) {
    std::shared_ptr<GpuBackend> gpu = open_test_device();
    const Stream stream = gpu->create_stream();
    const Event event = gpu->create_event();
    const DevicePtr memory = gpu->alloc(std::uint64_t{1} << 20);
    static_cast<void>(gpu->alloc_pinned(4096));
    for (std::uint32_t i = 0; i < 20; ++i) gpu->fill(memory, i, 1, std::uint64_t{1} << 20, stream);
    if (submitted) gpu->record(event, stream);
    gpu->begin_capture(stream);
    gpu->fill(memory, 1, 1, 1, stream);
    if (submitted) static_cast<void>(gpu->end_capture(stream));
    const std::weak_ptr<GpuBackend> watch = gpu;
    gpu.reset();
    CHECK(watch.expired());
  }
  CHECK(TestDevice().canary());
}

TEST_CASE("handles of what is gone are refused", "[device]") {
  const TestDevice device;
  GpuBackend& gpu = *device.gpu;
  const Stream stream = gpu.create_stream();
  const Event event = gpu.create_event();
  const Buffer data = device.upload(std::vector<std::uint32_t>(16, 1));
  gpu.begin_capture(stream);
  device.affine(data, 2, 1, stream);
  const Graph graph = gpu.end_capture(stream);
  gpu.destroy_graph(graph);
  const OwnedStream other(device.gpu);
  CHECK(error_of([&] { gpu.launch_graph(graph, other.get()); }).code() == ErrorCode::invalid_handle);
  gpu.destroy_event(event);
  gpu.destroy_stream(stream);
  const OwnedEvent in_its_place(device.gpu);
  const OwnedStream also_in_its_place(device.gpu);
  const std::function<void()> calls[]{
      [&] { gpu.synchronize(stream); },
      [&] { gpu.destroy_stream(stream); },
      [&] { gpu.fill(data.get(), 1, 4, 1, stream); },
      [&] { device.affine(data, 5, 5, stream); },
      [&] { gpu.record(in_its_place.get(), stream); },
      [&] { gpu.record(event, other.get()); },
      [&] { static_cast<void>(gpu.query(event)); },
      [&] { gpu.wait(other.get(), event); },
      [&] { gpu.synchronize(Stream{}); },
      [&] { gpu.launch_graph(Graph{}, other.get()); },
      [&] { KernelLaunch(gpu, KernelHandle{}).grid(1).block(1).launch(other.get()); },
  };
  for (const auto& call : calls) CHECK(error_of(call).code() == ErrorCode::invalid_handle);
  CHECK(device.download(data) == std::vector<std::uint32_t>(16, 1));
  CHECK(device.canary());
}

TEST_CASE("many streams and events live at once", "[device]") {
  const TestDevice device;
  std::vector<OwnedStream> streams;
  std::vector<OwnedEvent> events;
  std::vector<Buffer> data;
  constexpr std::uint32_t count = 40;
  for (std::uint32_t i = 0; i < count; ++i) {
    streams.emplace_back(device.gpu);
    data.push_back(device.upload(std::vector<std::uint32_t>(16, i)));
  }
  // Each stream waits for the one before: a chain through all of them.
  for (std::uint32_t i = 0; i < 20 * count; ++i) {
    const Stream stream = streams[i % count].get();
    if (i > 0) device.gpu->wait(stream, events[i - 1].get());
    device.gpu->copy_d2d_async(data[(i + 1) % count].get(), data[i % count].get(), 64, stream);
    device.affine(data[(i + 1) % count], 1, 1, stream);
    events.emplace_back(device.gpu);
    device.gpu->record(events.back().get(), stream);
  }
  device.gpu->wait_host(events.back().get());
  CHECK(device.download(data[0]) == std::vector<std::uint32_t>(16, 20 * count));
}

TEST_CASE("threads share one device for all it does", "[device][tsan]") {
  const TestDevice device;
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  constexpr int rounds = under_tsan ? 5 : 40;
  for (std::uint32_t t = 0; t < 6; ++t) {
    threads.emplace_back([&device, &right, t] {
      for (int i = 0; i < rounds; ++i) {
        const OwnedStream stream(device.gpu);
        const OwnedEvent event(device.gpu);
        const Buffer data = device.upload(std::vector<std::uint32_t>(100, t));
        device.gpu->begin_capture(stream.get());
        device.affine(data, 3, 1, stream.get());
        const OwnedGraph graph(device.gpu, device.gpu->end_capture(stream.get()));
        device.gpu->launch_graph(graph.get(), stream.get());
        device.gpu->record(event.get(), stream.get());
        device.gpu->wait_host(event.get());
        // Each round another block, so that kernels are compiled side by side.
        device.gpu->prepare(device["visit"], {static_cast<std::uint32_t>(1 + i % 8), 1 + t % 2, 1}, 0);
        if (device.download(data) == std::vector<std::uint32_t>(100, t * 3 + 1)) ++right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(right == 6 * rounds);
}

TEST_CASE("what the driver compiled is saved and loaded where a device has that", "[device]") {
  std::vector<std::byte> saved;
  {
    const TestDevice device;
    auto* cache = device.gpu->service<PipelineCache>();
    CHECK((cache != nullptr) == device.is("vulkan"));
    if (cache == nullptr) return;
    CHECK(device.canary());
    saved = cache->save();
    CHECK(saved.size() > 16);
  }
  const std::shared_ptr<GpuBackend> gpu = open_test_device();
  auto* cache = gpu->service<PipelineCache>();
  REQUIRE(cache != nullptr);
  CHECK_FALSE(cache->load({}));
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{16}, std::size_t{31}})
    CHECK_FALSE(cache->load(std::span(saved).first(bytes)));
  // The header names the vendor, the device and the driver's build; all three must be this one's.
  for (std::size_t at = 0; at < 32; ++at) {
    std::vector<std::byte> foreign = saved;
    foreign[at] ^= std::byte{0x40};
    INFO("byte " << at);
    CHECK_FALSE(cache->load(foreign));
  }
  CHECK(cache->load(saved));
  CHECK(cache->load(saved));  // twice does nothing more
  const TestDevice device(gpu);
  CHECK(device.canary());
  CHECK(cache->save().size() > 16);
}

}  // namespace kdart::test
