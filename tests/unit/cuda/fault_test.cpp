// Faults that a driver reports late, and drivers that have gone.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <chrono>
#include <functional>

#include "kdart/cuda.h"
#include "kdart/launch.h"
#include "kdart/owned.h"
#include "tests/support/error_of.h"
#include "tests/support/expect_error.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/sample_set.h"

namespace kdart::test {
namespace {

struct Device {
  explicit Device(bool synchronous = false) {
    OpenOptions options = fake.options();
    options.synchronous_launches = synchronous;
    gpu = fake.open(options);
    set = gpu->load(fake_cuda_set());
    memory = gpu->alloc(1024);
    stream = gpu->create_stream();
    event = gpu->create_event();
  }
  void scale() { launch_scale(*gpu, *set, memory, memory.offset(512), stream); }
  void extra() { KernelLaunch(gpu, set->get("extra")).grid(1).block(1).launch(stream); }
  // The last of the device goes.
  void drop() {
    set.reset();
    gpu.reset();
  }

  FakeCuda fake;
  std::shared_ptr<GpuBackend> gpu;
  std::shared_ptr<LoadedSet> set;
  DevicePtr memory;
  Stream stream;
  Event event;
};

}  // namespace

TEST_CASE("cuda: a fault is reported by the next call that waits, with the kernel's name", "[cuda][no-device]") {
  Device d;
  const int result = GENERATE(700, 719, 710, 702);
  d.fake->fault_at("kdart_scale", result);
  d.scale();  // returns: nobody knows yet
  d.gpu->record(d.event, d.stream);
  std::byte byte{};
  const std::vector<std::function<void()>> waits{
      [&] { d.gpu->synchronize(d.stream); },
      [&] { d.gpu->synchronize(d.stream, std::chrono::seconds(10)); },
      [&] { d.gpu->wait_host(d.event); },
      [&] { d.gpu->wait_host(d.event, std::chrono::seconds(10)); },
      [&] { static_cast<void>(d.gpu->query(d.event)); },
      [&] { d.gpu->free(d.memory); },
      [&] {
        d.gpu->destroy_stream(d.stream);
        d.gpu->synchronize(d.gpu->create_stream());
      },
      [&] { d.gpu->copy_h2d_async(d.memory, &byte, 1, d.stream), d.gpu->synchronize(d.stream); },
  };
  const std::size_t which = GENERATE(range(std::size_t{0}, std::size_t{8}));
  REQUIRE(waits.size() == 8);
  const Error error = error_of(waits[which]);
  const std::string message = error.what();
  INFO(which << ": " << message);
  CHECK(error.code() == ErrorCode::device_fault);
  CHECK(error.native_code() == result);
  CHECK(message.find("kernel 'scale'") != std::string::npos);
  CHECK(message.find("cuda:0") != std::string::npos);

  // And it stays: every later call says the same and asks the driver nothing.
  const std::uint64_t calls = d.fake.calls();
  for (const std::function<void()>& again : std::vector<std::function<void()>>{
           [&] { d.gpu->synchronize(d.stream); }, [&] { static_cast<void>(d.gpu->alloc(1)); }, [&] { d.scale(); },
           [&] { static_cast<void>(d.gpu->create_stream()); }, [&] { static_cast<void>(d.gpu->load(fake_cuda_set())); },
           [&] { static_cast<void>(d.gpu->memory_info()); }, [&] { d.gpu->begin_capture(d.stream); },
           [&] { static_cast<void>(d.gpu->service<CudaInterop>()); }}) {
    const Error later = error_of(again);
    CHECK(later.code() == ErrorCode::device_fault);
    CHECK(std::string(later.what()).find("'scale'") != std::string::npos);
  }
  CHECK(d.fake.calls() == calls);
  d.drop();
  KDART_CHECK_CLEAN(d.fake);
}

TEST_CASE("cuda: a blocking copy reports a fault of another stream", "[cuda][no-device]") {
  Device d;
  d.fake->fault_at("kdart_extra", 700);
  d.extra();
  d.fake->run_all();  // time passes
  std::byte byte{};
  const Error error = error_of([&] { d.gpu->copy_d2h(&byte, d.memory, 1); });
  CHECK(error.code() == ErrorCode::device_fault);
  CHECK(std::string(error.what()).find("kernel 'extra'") != std::string::npos);
}

TEST_CASE("cuda: with several kernels under way each of them may be to blame", "[cuda][no-device]") {
  Device d;
  d.scale();
  d.gpu->synchronize(d.stream);  // that one is done
  d.fake->fault_at("kdart_extra", 700);
  SECTION("one") {
    d.extra();
    const std::string message = error_of([&] { d.gpu->synchronize(d.stream); }).what();
    CHECK(message.find("kernel 'extra'") != std::string::npos);
    CHECK(message.find("scale") == std::string::npos);
  }
  SECTION("both") {
    d.scale();
    d.extra();
    d.scale();
    const std::string message = error_of([&] { d.gpu->synchronize(d.stream); }).what();
    CHECK(message.find("one of the kernels 'scale', 'extra'") != std::string::npos);
  }
  SECTION("and many before them") {
    for (int i = 0; i < 20; ++i) d.scale();
    d.extra();
    for (int i = 0; i < 20; ++i) d.scale();
    const std::string message = error_of([&] { d.gpu->synchronize(d.stream); }).what();
    CHECK(message.find("'scale'") != std::string::npos);
  }
  SECTION("on different streams") {
    const Stream other = d.gpu->create_stream();
    launch_scale(*d.gpu, *d.set, d.memory, d.memory.offset(512), other);
    d.extra();
    const std::string message = error_of([&] { d.gpu->synchronize(d.stream); }).what();
    CHECK(message.find("'extra'") != std::string::npos);
    CHECK(message.find("'scale'") != std::string::npos);
  }
}

TEST_CASE("cuda: launches that wait name the kernel at once", "[cuda][no-device]") {
  Device d(true);
  d.scale();
  d.fake->fault_at("kdart_extra", 716);
  const Error error = error_of([&] { d.extra(); });
  CHECK(error.code() == ErrorCode::device_fault);
  CHECK(error.native_text() == "CUDA_ERROR_MISALIGNED_ADDRESS");
  const std::string message = error.what();
  CHECK(message.find("kernel 'extra'") != std::string::npos);
  CHECK(message.find("scale") == std::string::npos);
}

TEST_CASE("cuda: a fault in a graph names its kernels", "[cuda][no-device]") {
  Device d;
  d.gpu->begin_capture(d.stream);
  d.scale();
  const Graph graph = d.gpu->end_capture(d.stream);
  d.gpu->launch_graph(graph, d.stream);
  d.gpu->synchronize(d.stream);
  d.fake->fault_at("kdart_scale", 700);
  d.gpu->launch_graph(graph, d.stream);
  const std::string message = error_of([&] { d.gpu->synchronize(d.stream); }).what();
  CHECK(message.find("kernel 'scale'") != std::string::npos);
  d.drop();
  KDART_CHECK_CLEAN(d.fake);
}

TEST_CASE("cuda: a fault of someone else in the context is told as such", "[cuda][no-device]") {
  Device d;
  d.fake->fail("cuStreamSynchronize", 1, 700, true);
  const std::string message = error_of([&] { d.gpu->synchronize(d.stream); }).what();
  CHECK(message.find("work of this process") != std::string::npos);
  d.drop();
  KDART_CHECK_CLEAN(d.fake);
}

TEST_CASE("cuda: a lost device is sticky", "[cuda][no-device]") {
  Device d;
  const int result = GENERATE(214, 220, 226, 709);
  d.fake->fail("cuStreamSynchronize", 1, result, true);
  for (int i = 0; i < 2; ++i) {
    const Error error = error_of([&] { d.gpu->synchronize(d.stream); });
    CHECK(error.code() == ErrorCode::device_lost);
    CHECK(error.native_code() == result);
  }
}

TEST_CASE("cuda: an error that is no fault leaves the device usable", "[cuda][no-device]") {
  Device d;
  for (const int result : {1, 999, 31337}) {
    d.fake->fail("cuStreamSynchronize", 1, result, false);
    const Error error = error_of([&] { d.gpu->synchronize(d.stream); });
    CHECK(error.code() == ErrorCode::driver_error);
    CHECK(error.native_code() == result);
    d.scale();
    d.gpu->synchronize(d.stream);
    CHECK(d.fake.launches().back().runs == 1);
  }
}

// --- the end of the driver --------------------------------------------------------------------------------------------

TEST_CASE("cuda: everything can be destroyed after the driver has shut down", "[cuda][no-device]") {
  const FakeCuda fake;
  std::vector<std::string> log;
  OpenOptions options = fake.options();
  options.log = [&](LogSeverity, std::string_view text) { log.emplace_back(text); };
  auto gpu = fake.open(options);
  auto set = gpu->load(fake_cuda_set());
  auto memory = std::make_unique<Buffer>(gpu, 1024);
  auto pinned = std::make_unique<PinnedBuffer>(gpu, 1024);
  auto stream = std::make_unique<OwnedStream>(gpu);
  auto capturing = std::make_unique<OwnedStream>(gpu);
  auto event = std::make_unique<OwnedEvent>(gpu);
  gpu->begin_capture(stream->get());
  launch_scale(*gpu, *set, memory->get(), memory->get().offset(512), stream->get());
  auto graph = std::make_unique<OwnedGraph>(gpu, gpu->end_capture(stream->get()));
  gpu->launch_graph(graph->get(), stream->get());
  gpu->begin_capture(capturing->get());

  fake->answer_all(cuda::CUDA_ERROR_DEINITIALIZED);
  SECTION("by their owners") {
    graph.reset();
    event.reset();
    stream.reset();
    capturing.reset();
    pinned.reset();
    memory.reset();
    set.reset();
  }
  SECTION("by the device, told once that it is lost") {
    const Error error = error_of([&] { gpu->synchronize(stream->get()); });
    CHECK(error.code() == ErrorCode::device_lost);
    CHECK(error.native_code() == cuda::CUDA_ERROR_DEINITIALIZED);
    static_cast<void>(graph->release());
    static_cast<void>(event->release());
    static_cast<void>(stream->release());
    static_cast<void>(capturing->release());
  }
  graph.reset();
  event.reset();
  stream.reset();
  capturing.reset();
  pinned.reset();
  memory.reset();
  set.reset();
  CHECK(gpu.use_count() == 1);
  gpu.reset();
  CHECK(fake.violations().empty());
}

}  // namespace kdart::test
