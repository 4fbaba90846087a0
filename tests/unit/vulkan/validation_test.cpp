// Everything that the backend does, in front of the Khronos validation layer: it must have nothing to say. Each run first
// proves that the layer is alive by a fault that it has to see.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "backends/vulkan/logical_device.h"
#include "kdart/pipeline_cache.h"
#include "tests/support/layer_runner.h"
#include "tests/support/models.h"
#include "tests/unit/vulkan/vulkan_device.h"
#include "tools/reference/random_model.h"

namespace kdart::test {
namespace {

// Warnings and errors, as they come.
class Findings {
 public:
  [[nodiscard]] LogCallback callback() {
    return [this](LogSeverity severity, std::string_view text) {
      if (severity < LogSeverity::warning) return;
      const std::lock_guard lock(mutex_);
      texts_.emplace_back(text);
    };
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    texts_.clear();
  }
  // All on one line each; "" when there is none.
  [[nodiscard]] std::string text() const {
    const std::lock_guard lock(mutex_);
    std::string all;
    for (const std::string& text : texts_) all += text + "\n";
    return all;
  }
  [[nodiscard]] bool has(std::string_view words) const { return text().find(words) != std::string::npos; }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> texts_;
};

OpenOptions checked(DriverChecks checks, Findings& findings) {
  OpenOptions options;
  options.driver_checks = checks;
  options.log = findings.callback();
  options.dedicated_buffers = checks == DriverChecks::gpu_assisted;  // it sees no overrun inside a shared buffer
  return options;
}

// A buffer of no bytes.
void require_live_core_checks() {
  Findings findings;
  const OpenOptions options = checked(DriverChecks::core, findings);
  const FoundDevice found(options);
  const vulkan::LogicalDevice device(found.instance, found.listed.handle, found.listed.facts, found.listed.plan);
  findings.clear();
  VkBufferCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  info.size = 0;
  info.usage = VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  VkBuffer buffer = VK_NULL_HANDLE;
  if (device.fn().vkCreateBuffer(device.get(), &info, nullptr, &buffer) == VK_SUCCESS)
    device.fn().vkDestroyBuffer(device.get(), buffer, nullptr);
  INFO(findings.text());
  REQUIRE(findings.has("VUID-VkBufferCreateInfo-size-00912"));
}

// A kernel that writes one word past the end of its buffer, and one that reads there.
void require_live_access_checks() {
  Findings findings;
  const TestDevice device = open_vulkan(checked(DriverChecks::gpu_assisted, findings));
  const OwnedStream stream(device.gpu);
  const Buffer data = device.upload(std::vector<std::uint32_t>(16, 1));
  device.affine(data.get(), 16, 2, 1, stream.get());
  device.gpu->synchronize(stream.get());
  INFO(findings.text());
  REQUIRE(findings.text().empty());
  device.affine(data.get(), 17, 2, 1, stream.get());
  device.gpu->synchronize(stream.get());
  REQUIRE(findings.has("ut of bounds"));
}

void require_live_checks(DriverChecks checks) {
  if (checks == DriverChecks::core) {
    require_live_core_checks();
  } else {
    require_live_access_checks();
  }
}

std::vector<std::uint32_t> several(std::uint32_t count) {
  std::vector<std::uint32_t> values(count);
  for (std::uint32_t i = 0; i < count; ++i) values[i] = i;
  return values;
}

void copy_and_fill(const TestDevice& device) {
  GpuBackend& gpu = *device.gpu;
  const OwnedStream stream(device.gpu);
  const std::vector<std::uint32_t> host = several((9U << 20) / 4);  // more than two pieces of staging memory
  const std::uint64_t bytes = host.size() * 4;
  const Buffer a = device.upload(host);
  const Buffer b(device.gpu, bytes);
  gpu.copy_d2d(b.get(), a.get(), bytes);
  CHECK(device.download(b) == host);
  const PinnedBuffer pinned(device.gpu, 4096);
  gpu.copy_h2d_async(a.get().offset(1), pinned.get(), 4001, stream.get());
  gpu.copy_h2d_async(a.get().offset(3), host.data(), 4001, stream.get());
  gpu.copy_d2d_async(b.get().offset(5), a.get().offset(2), 70001, stream.get());
  gpu.copy_d2d_async(b.get().offset(32), a.get().offset(16), 65536, stream.get());
  gpu.copy_2d_d2d_async(b.get().offset(1), 100, a.get().offset(3), 70, 33, 1500, stream.get());
  gpu.copy_2d_d2d_async(b.get(), 128, a.get(), 64, 32, 100, stream.get());
  gpu.copy_d2h_async(pinned.get(), b.get().offset(7), 4096, stream.get());
  for (std::uint32_t offset = 0; offset < 8; ++offset) gpu.fill(a.get().offset(offset), 9, 1, 1001, stream.get());
  gpu.fill(a.get().offset(bytes - 6), 1, 2, 3, stream.get());
  gpu.fill(a.get(), 1, 4, 5000, stream.get());
  // The last bytes of an allocation whose size is no multiple of a word.
  const Buffer odd(device.gpu, 1001);
  gpu.fill(odd.get().offset(998), 7, 1, 3, stream.get());
  gpu.copy_d2d_async(odd.get().offset(990), a.get(), 11, stream.get());
  gpu.copy_d2d_async(a.get().offset(1), odd.get().offset(990), 11, stream.get());
  const DevicePtr later = gpu.alloc_async(5000, stream.get());
  gpu.fill(later, 1, 4, 1250, stream.get());
  gpu.free_async(later, stream.get());
  gpu.synchronize(stream.get());
}

void launch_and_order(const TestDevice& device) {
  GpuBackend& gpu = *device.gpu;
  const OwnedStream first(device.gpu);
  const OwnedStream second(device.gpu);
  const OwnedEvent event(device.gpu);
  const OwnedEvent end(device.gpu);
  const Buffer data = device.upload(std::vector<std::uint32_t>(1000, 1));
  std::uint32_t expected = 1;
  for (std::uint32_t i = 0; i < 20; ++i) {
    for (const Stream stream : {first.get(), second.get()}) {
      for (std::uint32_t k = 0; k < 5; ++k) device.affine(data, 3, k, stream);
      for (std::uint32_t k = 0; k < 5; ++k) expected = expected * 3 + k;
      gpu.record(event.get(), stream);
      gpu.wait(first.get(), event.get());
      gpu.wait(second.get(), event.get());
    }
  }
  gpu.record(end.get(), first.get());
  gpu.wait_host(end.get());
  CHECK(gpu.query(event.get()));
  CHECK(gpu.elapsed_ms(event.get(), end.get()) >= 0.0);
  CHECK(device.download(data) == std::vector<std::uint32_t>(1000, expected));
  CHECK(device.canary());
}

void capture_and_replay(const TestDevice& device) {
  GpuBackend& gpu = *device.gpu;
  const OwnedStream stream(device.gpu);
  const OwnedStream side(device.gpu);
  const OwnedEvent event(device.gpu);
  const Buffer data = device.upload(std::vector<std::uint32_t>(64, 1));
  const Buffer copy = device.upload(std::vector<std::uint32_t>(64, 1));
  const Buffer out(device.gpu, 200);
  gpu.prepare(device["many_args"], {64, 1, 1}, 0);
  gpu.begin_capture(stream.get());
  device.affine(data, 2, 1, stream.get());
  gpu.record(event.get(), stream.get());
  gpu.wait(side.get(), event.get());
  gpu.copy_d2d_async(copy.get(), data.get(), 256, side.get());
  gpu.fill(copy.get().offset(255), 1, 1, 1, side.get());
  kernels::ManyArgsArgs many{};
  many.out = out.get();
  many.p0 = many.p1 = many.p2 = many.p3 = many.p4 = many.p5 = many.p6 = data.get().offset(252);
  const auto launch_many = [&](Stream where) {
    // As many threads as a subgroup has, which all do the same: with idle lanes, the layer's checks see on lavapipe what is
    // not there.
    KernelLaunch(gpu, device["many_args"]).args(many).block(64).launch(where);
  };
  launch_many(side.get());
  gpu.record(event.get(), side.get());
  gpu.wait(stream.get(), event.get());
  const OwnedGraph graph(device.gpu, gpu.end_capture(stream.get()));
  for (int i = 0; i < 10; ++i) {
    gpu.launch_graph(graph.get(), stream.get());
    launch_many(stream.get());
  }
  gpu.synchronize(stream.get());
  CHECK(device.download(data) == std::vector<std::uint32_t>(64, 2047));
  // A capture that ends early.
  gpu.begin_capture(stream.get());
  device.affine(data, 2, 1, stream.get());
  CHECK_THROWS_AS(gpu.synchronize(stream.get()), Error);
}

void save_and_load(const TestDevice& device) {
  auto* cache = device.gpu->service<PipelineCache>();
  REQUIRE(cache != nullptr);
  CHECK(cache->load(cache->save()));
}

// One token, four at once, then a prefill of more than one chunk's quarter.
void run_layer(const std::shared_ptr<GpuBackend>& gpu) {
  const KdaConfig config = softplus_layer();
  const auto weights = KdaDeviceWeights::upload(gpu, reference::random_weights(config, 7));
  constexpr std::uint32_t tokens = 17;
  LayerRunner runner(weights, tokens);
  const Input input = random_input(config, tokens, 3);
  const Output decoded = runner.run(slice(input, 0, 5), {{Call::decode, 1}, {Call::decode_k, 4}});
  CHECK(difference(runner.run(slice(input, 0, 5), decode_each(5)), decoded) == "");
  const Output whole = runner.run(input, prefill_whole(tokens));
  CHECK(whole.out.size() == std::size_t{tokens} * config.hidden_size);
}

}  // namespace

TEST_CASE("the validation layer finds nothing in what a device does", "[vulkan][validation]") {
  need_validation_layer();
  const DriverChecks checks = GENERATE(DriverChecks::core, DriverChecks::gpu_assisted);
  require_live_checks(checks);
  Findings findings;
  {
    const TestDevice device = open_vulkan(checked(checks, findings));
    copy_and_fill(device);
    launch_and_order(device);
    capture_and_replay(device);
    save_and_load(device);
  }
  INFO(findings.text());
  CHECK(findings.text().empty());
}

TEST_CASE("the validation layer finds nothing when a device is closed with work in flight", "[vulkan][validation]") {
  need_validation_layer();
  const DriverChecks checks = GENERATE(DriverChecks::core, DriverChecks::gpu_assisted);
  require_live_checks(checks);
  Findings findings;
  {
    const TestDevice device = open_vulkan(checked(checks, findings));
    GpuBackend& gpu = *device.gpu;
    const Stream stream = gpu.create_stream();
    const DevicePtr memory = gpu.alloc(1 << 20);
    static_cast<void>(gpu.alloc_pinned(4096));
    gpu.record(gpu.create_event(), stream);
    for (int i = 0; i < 100; ++i) gpu.fill(memory, 1, 1, 1 << 20, stream);
    gpu.begin_capture(stream);
    gpu.fill(memory, 1, 1, 1, stream);
  }
  INFO(findings.text());
  CHECK(findings.text().empty());
}

TEST_CASE("the validation layer finds nothing in a layer's calls", "[vulkan][validation]") {
  need_validation_layer();
  const DriverChecks checks = GENERATE(DriverChecks::core, DriverChecks::gpu_assisted);
  require_live_checks(checks);
  Findings findings;
  run_layer(open_vulkan(checked(checks, findings)).gpu);
  INFO(findings.text());
  CHECK(findings.text().empty());
}

}  // namespace kdart::test
