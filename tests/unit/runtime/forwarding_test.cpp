#include "kdart/forwarding_backend.h"

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/fake_backend.h"
#include "tests/support/sample_set.h"

namespace kdart::test {
namespace {

class PlainLayer final : public ForwardingBackend {
 public:
  explicit PlainLayer(std::shared_ptr<GpuBackend> backend) : ForwardingBackend(std::move(backend)) {}
};

std::shared_ptr<GpuBackend> layers_over(const std::shared_ptr<GpuBackend>& gpu, int count) {
  std::shared_ptr<GpuBackend> top = gpu;
  for (int i = 0; i < count; ++i) top = std::make_shared<PlainLayer>(top);
  return top;
}

void launch(GpuBackend& gpu, const LoadedSet& set, DevicePtr memory, Stream stream) {
  KernelLaunch(gpu, set.get("scale"))
      .args(ScaleArgs{.x = memory, .y = memory.offset(128), .bias = {}, .n = 9, .a = 1.0F})
      .launch(stream);
}

// Every operation of the interface once, with results that only a working device gives.
void use_everything(GpuBackend& gpu) {
  std::array<char, 256> host{};
  const Stream stream = gpu.create_stream();
  const Stream second = gpu.create_stream();
  const Event start = gpu.create_event();
  const Event end = gpu.create_event();
  const DevicePtr a = gpu.alloc(256);
  const DevicePtr b = gpu.alloc_async(256, stream);
  void* pinned = gpu.alloc_pinned(64);
  const DevicePtr imported = gpu.import_memory(reinterpret_cast<std::uintptr_t>(host.data()), host.size());
  CHECK(gpu.memory_info().live == 512);
  CHECK(gpu.facts().target == "x86-64-v3");
  gpu.record(start, stream);
  gpu.fill(a, 'x', 1, 256, stream);
  gpu.copy_d2d_async(b, a, 256, stream);
  gpu.copy_2d_d2d_async(b, 16, a, 16, 8, 4, stream);
  gpu.copy_d2h_async(pinned, b, 64, stream);
  CHECK(std::string(static_cast<char*>(pinned), 64) == std::string(64, 'x'));
  gpu.copy_h2d_async(a, pinned, 64, stream);
  gpu.copy_d2d(imported, b, 256);
  CHECK(std::string(host.data(), 256) == std::string(256, 'x'));
  gpu.copy_h2d(a, "yyyy", 4);
  gpu.copy_d2h(host.data(), a, 4);
  CHECK(std::string(host.data(), 6) == "yyyyxx");
  gpu.record(end, stream);
  gpu.wait(second, end);
  gpu.flush(stream);
  gpu.synchronize(stream, std::chrono::seconds(1));
  gpu.wait_host(end);
  CHECK(gpu.query(end));
  CHECK(gpu.elapsed_ms(start, end) == 1.5);

  const auto set = gpu.load(sample_set());
  CHECK(gpu.kernel_info(set->get("scale")).max_threads == 1024);
  gpu.prepare(set->get("scale"), {64, 1, 1}, 16);
  launch(gpu, *set, a, stream);
  gpu.begin_capture(stream);
  launch(gpu, *set, a, stream);
  const Graph graph = gpu.end_capture(stream);
  gpu.launch_graph(graph, stream);
  gpu.launch_graph(graph, stream);
  gpu.begin_capture(stream);
  expect_error(ErrorCode::capture_invalidated, {}, [&] { gpu.synchronize(stream); });

  gpu.destroy_graph(graph);
  gpu.destroy_event(start);
  gpu.destroy_event(end);
  gpu.release_import(imported);
  gpu.free_pinned(pinned);
  gpu.free_async(b, stream);
  gpu.free(a);
  gpu.destroy_stream(second);
  gpu.destroy_stream(stream);
}

TEST_CASE("a layer forwards every do_* of the interface", "[runtime][forwarding]") {
  const auto direct = FakeBackend::open();
  use_everything(*direct);
  const std::set<std::string> all = direct->called();
  // Every do_* of backend.h but do_service, which is not forwarded: this test would miss one that it does not use.
  CHECK(all.size() == 39);
  for (const int depth : {1, 2, 3}) {
    const auto gpu = FakeBackend::open();
    use_everything(*layers_over(gpu, depth));
    CHECK(gpu->called() == all);
    for (const std::string& function : all) {
      if (function == "facts" || function == "synchronize" || function == "query")
        continue;  // a layer may ask more often
      INFO(function << " through " << depth << " layers");
      CHECK(gpu->calls(function) == direct->calls(function));
    }
    CHECK(gpu->launches().size() == direct->launches().size());
  }
}

TEST_CASE("a layer leaves nothing behind in what it stands on", "[runtime][forwarding]") {
  const int before = FakeBackend::live_objects();
  const auto gpu = FakeBackend::open();
  {
    const auto layer = layers_over(gpu, 2);
    const Stream stream = layer->create_stream();
    static_cast<void>(layer->alloc(64));
    static_cast<void>(layer->create_event());
    const auto set = layer->load(sample_set());
    layer->begin_capture(stream);
  }
  CHECK(gpu->calls("unload_image") == 1);
  CHECK(FakeBackend::live_objects() == before);
  const auto set = gpu->load(sample_set());
  CHECK(set->get("scale").index() < 3);  // the layer's kernels gave their slots back
}

TEST_CASE("a layer's handles are its own", "[runtime][forwarding]") {
  const auto gpu = FakeBackend::open();
  const auto layer = layers_over(gpu, 1);
  const Stream inner = gpu->create_stream();
  const Stream outer = layer->create_stream();
  expect_error(ErrorCode::invalid_handle, {}, [&] { layer->synchronize(inner); });
  expect_error(ErrorCode::invalid_handle, {}, [&] { gpu->synchronize(outer); });
  const DevicePtr memory = gpu->alloc(64);
  expect_error(ErrorCode::invalid_handle, {}, [&] { layer->free(memory); });
  CHECK(layer->info().id == gpu->info().id);
}

TEST_CASE("a layer passes errors on as they are", "[runtime][forwarding]") {
  const auto gpu = FakeBackend::open({.memory_limit = 100});
  const auto layer = layers_over(gpu, 2);
  const Stream stream = layer->create_stream();
  expect_error(ErrorCode::out_of_device_memory, {"101", "100"}, [&] { static_cast<void>(layer->alloc(101)); });
  gpu->set_busy(true);
  expect_error(ErrorCode::timeout, {}, [&] { layer->synchronize(stream, std::chrono::milliseconds(1)); });
  gpu->set_busy(false);
  gpu->stated["scale"].arguments = {{0, 8}};
  expect_error(ErrorCode::corrupt_image, {"sample.x86-64.so", "'scale'"},
               [&] { static_cast<void>(layer->load(sample_set())); });
  CHECK(gpu->calls("unload_image") == 1);
  gpu->report(Error(ErrorCode::device_fault, "kernel 'scale' trapped", 1, "TRAP"));
  try {
    layer->synchronize(stream);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::device_fault);
    CHECK(error.native_text() == "TRAP");
  }
  expect_error(ErrorCode::device_fault, {"trapped"}, [&] { layer->fill({}, 0, 1, 0, stream); });
}

TEST_CASE("the inner checks stay in force under a layer", "[runtime][forwarding]") {
  Manifest manifest = sample_manifest();
  manifest.images[0].kernels[0].max_threads = 128;
  const auto gpu = FakeBackend::open();
  gpu->stated["tagged"].max_threads = 32;
  const auto layer = layers_over(gpu, 1);
  const auto set = layer->load(sample_set(manifest));
  CHECK(layer->kernel_info(set->get("scale")).max_threads == 128);
  CHECK(layer->kernel_info(set->get("tagged")).max_threads == 32);
  expect_error(ErrorCode::invalid_launch, {"'scale'", "129"},
               [&] { layer->prepare(set->get("scale"), {129, 1, 1}, 0); });
}

TEST_CASE("a capture through a layer joins and ends like any other", "[runtime][forwarding]") {
  const auto gpu = FakeBackend::open();
  const auto layer = layers_over(gpu, 2);
  const auto set = layer->load(sample_set());
  const DevicePtr memory = layer->alloc(256);
  const Stream a = layer->create_stream();
  const Stream b = layer->create_stream();
  const Event event = layer->create_event();
  layer->begin_capture(a);
  layer->record(event, a);
  layer->wait(b, event);
  launch(*layer, *set, memory, b);
  layer->record(event, b);
  layer->wait(a, event);
  const Graph graph = layer->end_capture(a);
  CHECK(gpu->launches().empty());
  layer->launch_graph(graph, b);
  CHECK(gpu->launches().size() == 1);
  // An illegal call on the layer ends the inner capture too.
  layer->begin_capture(a);
  expect_error(ErrorCode::capture_invalidated, {}, [&] { layer->flush(a); });
  CHECK(gpu->calls("abort_capture") == 1);
  CHECK_NOTHROW(layer->synchronize(a));
}

class CountingService final : public GemmService {
 public:
  bool prepare(std::uint32_t, std::uint32_t, bool) override { return true; }
  void gemm_bf16(DevicePtr, DevicePtr, DevicePtr, DevicePtr, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t,
                 std::uint32_t, std::uint32_t, DevicePtr, std::uint64_t, Stream) override {}
  [[nodiscard]] std::uint64_t workspace_bytes(std::uint32_t, std::uint32_t, std::uint32_t) const override { return 7; }
};

struct UnknownService {
  static constexpr std::string_view service_id = "unknown/1";
};

TEST_CASE("a service is found by name and not through a layer that does not wrap it", "[runtime][forwarding]") {
  CountingService service;
  const auto gpu = FakeBackend::open();
  CHECK(gpu->service<GemmService>() == nullptr);
  gpu->set_service(&service);
  REQUIRE(gpu->service<GemmService>() == &service);
  CHECK(gpu->service<GemmService>()->workspace_bytes(1, 1, 1) == 7);
  CHECK(gpu->service<UnknownService>() == nullptr);
  CHECK(layers_over(gpu, 1)->service<GemmService>() == nullptr);
}

TEST_CASE("a layer over nothing is refused", "[runtime][forwarding]") {
  expect_error(ErrorCode::invalid_argument, {"backend"}, [] { static_cast<void>(layers_over(nullptr, 1)); });
}

}  // namespace
}  // namespace kdart::test
