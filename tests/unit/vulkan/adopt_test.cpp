// kdart on a device that its caller made, and in memory that the caller allocated.
#include <algorithm>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>

#include "backends/vulkan/errors.h"
#include "kdart/vulkan.h"
#include "tests/support/error_of.h"
#include "tests/support/expect_error.h"
#include "tests/unit/vulkan/own_device.h"

namespace kdart::test {
namespace {

// A lock that knows whether it is used as one.
struct CountedLock {
  std::mutex mutex;
  std::atomic<int> locked{0}, unlocked{0};
  std::atomic<bool> held{false}, wrong{false};

  void lend_to(VulkanDevice& device) {
    device.lock_queue = [this] {
      mutex.lock();
      if (held.exchange(true)) wrong = true;
      ++locked;
    };
    device.unlock_queue = [this] {
      ++unlocked;
      if (!held.exchange(false)) wrong = true;
      mutex.unlock();
    };
  }
  [[nodiscard]] bool was_used_well() const { return locked > 0 && locked == unlocked && !held && !wrong; }
};

bool holds(const OwnDevice::Memory& memory, std::uint64_t bytes, std::uint32_t word) {
  for (std::uint64_t at = 0; at < bytes; at += 4) {
    if (std::memcmp(memory.data + at, &word, 4) != 0) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("an adopted device does what an opened one does, and is its caller's afterwards", "[vulkan][adopt]") {
  const OwnDevice own;
  const OwnDevice::Memory memory = own.make_memory(1024);
  CountedLock lock;
  VulkanDevice description = own.description();
  lock.lend_to(description);
  {
    const TestDevice device(adopt_vulkan_device(description));
    CHECK(device.gpu->info().id == vulkan_device_id());
    CHECK(device.gpu->info().name == own.found().listed.plan.info.name);
    CHECK(device.canary());
    const OwnedStream stream(device.gpu);
    const Buffer data = device.upload(std::vector<std::uint32_t>(100, 1));
    for (std::uint32_t i = 0; i < 500; ++i) device.affine(data, 3, i, stream.get());
    std::uint32_t expected = 1;
    for (std::uint32_t i = 0; i < 500; ++i) expected = expected * 3 + i;
    device.gpu->synchronize(stream.get());
    CHECK(device.download(data) == std::vector<std::uint32_t>(100, expected));
    // The caller uses the queue in between, under its own lock.
    {
      const std::lock_guard guard(lock.mutex);
      own.fill(memory, 0x11111111);
    }
    CHECK(device.canary());
    device.gpu->begin_capture(stream.get());
    device.affine(data, 0, 9, stream.get());
    const OwnedGraph graph(device.gpu, device.gpu->end_capture(stream.get()));
    device.gpu->launch_graph(graph.get(), stream.get());
    device.gpu->synchronize(stream.get());
    CHECK(device.download(data) == std::vector<std::uint32_t>(100, 9));
  }
  CHECK(lock.was_used_well());
  CHECK(holds(memory, 1024, 0x11111111));
  own.fill(memory, 0x22222222);
  CHECK(holds(memory, 1024, 0x22222222));
  own.release(memory);
}

TEST_CASE("a device is adopted twice, without locks and one after the other", "[vulkan][adopt]") {
  const OwnDevice own;
  for (int again = 0; again < 2; ++again) {
    const TestDevice device(adopt_vulkan_device(own.description()));
    CHECK(device.canary());
  }
}

TEST_CASE("threads on an adopted device take its queue in turn", "[vulkan][adopt]") {
  const OwnDevice own;
  CountedLock lock;
  VulkanDevice description = own.description();
  lock.lend_to(description);
  {
    const TestDevice device(adopt_vulkan_device(description));
    std::atomic<int> right{0};
    std::vector<std::thread> threads;
    for (std::uint32_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        const OwnedStream stream(device.gpu);
        const Buffer data = device.upload(std::vector<std::uint32_t>(16, t));
        for (std::uint32_t i = 0; i < 100; ++i) {
          device.affine(data, 1, 1, stream.get());
          device.gpu->flush(stream.get());
        }
        device.gpu->synchronize(stream.get());
        if (device.download(data) == std::vector<std::uint32_t>(16, t + 100)) ++right;
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(right == 4);
  }
  CHECK(lock.was_used_well());
  CHECK(lock.locked >= 400);
}

TEST_CASE("memory of the caller's is copied, filled and computed in", "[vulkan][adopt]") {
  const OwnDevice own;
  constexpr std::uint64_t bytes = 70000;
  const OwnDevice::Memory memory = own.make_memory(bytes + 8);
  std::vector<std::byte> expected(bytes + 8, std::byte{0x5a});
  std::copy(expected.begin(), expected.end(), memory.data);
  {
    const TestDevice device(adopt_vulkan_device(own.description()));
    GpuBackend& gpu = *device.gpu;
    // A part of the buffer; what lies before and after is not kdart's.
    const DevicePtr imported = gpu.import_memory(memory.address + 4, bytes);
    CHECK(imported.address() == memory.address + 4);
    CHECK(gpu.contains(imported, bytes));
    std::byte* const shadow = expected.data() + 4;
    const auto unchanged = [&] { return std::equal(expected.begin(), expected.end(), memory.data); };

    const OwnedStream stream(device.gpu);
    for (std::uint64_t offset = 0; offset < 6; ++offset) {
      for (const std::uint64_t size : {1U, 2U, 3U, 4U, 5U, 7U, 8U, 63U, 257U, 4099U, 65537U}) {
        INFO(size << " bytes at offset " << offset);
        // From the host and back, and once around through an allocation.
        std::vector<std::byte> host(size);
        for (std::uint64_t i = 0; i < size; ++i) host[i] = static_cast<std::byte>(i * 7 + size + offset);
        gpu.copy_h2d(imported.offset(offset), host.data(), size);
        std::copy(host.begin(), host.end(), shadow + offset);
        REQUIRE(unchanged());
        std::vector<std::byte> back(size);
        gpu.copy_d2h(back.data(), imported.offset(offset), size);
        REQUIRE(back == host);
        const Buffer around(device.gpu, size + 3);
        gpu.copy_d2d_async(around.get().offset(3), imported.offset(offset), size, stream.get());
        gpu.fill(imported.offset(offset), 0xC3, 1, size, stream.get());
        gpu.synchronize(stream.get());
        std::fill_n(shadow + offset, size, std::byte{0xC3});
        REQUIRE(unchanged());
        gpu.copy_d2d(imported.offset(offset + 1), around.get().offset(3), size);
        std::copy(host.begin(), host.end(), shadow + offset + 1);
        REQUIRE(unchanged());
      }
    }
    // Within the import, through page-locked memory, in rows.
    gpu.copy_d2d(imported.offset(60001), imported.offset(3), 5000);
    std::memmove(shadow + 60001, shadow + 3, 5000);
    REQUIRE(unchanged());
    const PinnedBuffer pinned(device.gpu, 64);
    std::memset(pinned.get(), 0x77, 64);
    gpu.copy_h2d_async(imported.offset(9), pinned.get(), 61, stream.get());
    std::fill_n(shadow + 9, 61, std::byte{0x77});
    const Buffer rows = device.upload(std::vector<std::uint32_t>(64, 0x01020304));
    gpu.copy_2d_d2d_async(imported.offset(1001), 33, rows.get().offset(1), 16, 13, 10, stream.get());
    gpu.synchronize(stream.get());
    for (std::uint64_t y = 0; y < 10; ++y) {
      for (std::uint64_t x = 0; x < 13; ++x) shadow[1001 + y * 33 + x] = static_cast<std::byte>(4 - (1 + x) % 4);
    }
    REQUIRE(unchanged());
    // A kernel.
    gpu.fill(imported, 5, 4, 100, stream.get());
    device.affine(imported, 100, 3, 1, stream.get());
    gpu.synchronize(stream.get());
    for (std::uint64_t i = 0; i < 100; ++i) {
      const std::uint32_t word = 16;
      std::memcpy(shadow + 4 * i, &word, 4);
    }
    REQUIRE(unchanged());

    CHECK(error_of([&] { gpu.copy_d2h(expected.data(), imported.offset(8), bytes); }).code() ==
          ErrorCode::invalid_argument);
    CHECK(error_of([&] { static_cast<void>(gpu.import_memory(memory.address + 64, 64)); }).code() ==
          ErrorCode::invalid_argument);
    CHECK(error_of([&] { gpu.free(imported); }).code() == ErrorCode::invalid_handle);
    gpu.release_import(imported);
    CHECK_FALSE(gpu.contains(imported, 1));
    CHECK(error_of([&] { gpu.copy_d2h(expected.data(), imported, 4); }).code() == ErrorCode::invalid_argument);
    CHECK(error_of([&] { gpu.release_import(imported); }).code() == ErrorCode::invalid_handle);
    CHECK(device.canary());
  }
  own.fill(memory, 7);
  CHECK(holds(memory, bytes, 7));
  own.release(memory);
}

TEST_CASE("release_import waits for work in the memory", "[vulkan][adopt]") {
  const OwnDevice own;
  const OwnDevice::Memory memory = own.make_memory(4096);
  {
    const TestDevice device(adopt_vulkan_device(own.description()));
    const DevicePtr imported = device.gpu->import_memory(memory.address, 4096);
    const OwnedStream stream(device.gpu);
    device.spin(stream.get(), 30);
    device.gpu->fill(imported, 3, 4, 1024, stream.get());
    device.gpu->release_import(imported);
    CHECK(holds(memory, 4096, 3));
  }
  own.release(memory);
}

TEST_CASE("a feature that is not listed is named", "[vulkan][adopt]") {
  const OwnDevice own;
  for (const std::string& feature : needed_features()) {
    VulkanDevice description = own.description();
    std::erase(description.features, feature);
    expect_error(ErrorCode::unsupported, {feature}, [&] { static_cast<void>(adopt_vulkan_device(description)); });
  }
  VulkanDevice bare = own.description();
  bare.features.clear();
  expect_error(ErrorCode::unsupported,
               {"bufferDeviceAddress", "shaderInt64", "storageBuffer16BitAccess", "timelineSemaphore"},
               [&] { static_cast<void>(adopt_vulkan_device(bare)); });
  CHECK(TestDevice(adopt_vulkan_device(own.description())).canary());
}

TEST_CASE("a description with a null in it is refused by name", "[vulkan][adopt]") {
  const OwnDevice own;
  struct Row {
    const char* name;
    std::function<void(VulkanDevice&)> spoil;
  };
  const Row rows[]{
      {"get_instance_proc_addr", [](VulkanDevice& d) { d.get_instance_proc_addr = nullptr; }},
      {"instance", [](VulkanDevice& d) { d.instance = nullptr; }},
      {"physical_device", [](VulkanDevice& d) { d.physical_device = nullptr; }},
      {"device", [](VulkanDevice& d) { d.device = nullptr; }},
      {"queue", [](VulkanDevice& d) { d.queue = nullptr; }},
      {"unlock_queue", [](VulkanDevice& d) { d.lock_queue = [] {}; }},
      {"lock_queue", [](VulkanDevice& d) { d.unlock_queue = [] {}; }},
  };
  for (const Row& row : rows) {
    VulkanDevice description = own.description();
    row.spoil(description);
    expect_error(ErrorCode::invalid_argument, {row.name}, [&] { static_cast<void>(adopt_vulkan_device(description)); });
  }
  VulkanDevice other_family = own.description();
  other_family.queue_family = 1000;
  CHECK(error_of([&] { static_cast<void>(adopt_vulkan_device(other_family)); }).code() == ErrorCode::unsupported);
}

}  // namespace kdart::test
