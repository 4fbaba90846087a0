// Sharing a CUDA device with another user in the process, on the real driver: contexts, streams, memory, captures.
#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "kdart/cuda.h"
#include "tests/device/cuda/caller.h"
#include "tests/support/child.h"
#include "tests/support/error_of.h"
#include "tests/support/test_device.h"

namespace kdart::test {
namespace {

// Numbers that stand for streams.
void* const default_stream = nullptr;
void* const legacy_stream = reinterpret_cast<void*>(std::uintptr_t{1});
void* const per_thread_stream = reinterpret_cast<void*>(std::uintptr_t{2});

constexpr std::uint32_t words = 1024;

// These run on a CUDA device alone, as tests/CMakeLists.txt has it; whoever runs them elsewhere is told.
void require_cuda(const TestDevice& device) {
  if (!device.is("cuda")) SKIP("the device under test is " << device.gpu->info().id << ", and this is about CUDA's");
}

CudaInterop& interop(GpuBackend& gpu) {
  auto* service = gpu.service<CudaInterop>();
  REQUIRE(service != nullptr);
  return *service;
}

// The device under test, a caller beside it, and a second device in the caller's context. The first goes on as it was.
class Shared {
 public:
  Shared() : own_(first()), caller(own_.gpu->info()), device_(adopted(caller)) {}

  [[nodiscard]] const TestDevice& own() const { return own_; }
  [[nodiscard]] const TestDevice& device() const { return *device_; }
  [[nodiscard]] GpuBackend& gpu() const { return *device_->gpu; }
  [[nodiscard]] CudaInterop& service() const { return interop(gpu()); }
  void close_device() { device_.reset(); }

  // Memory of the caller's, known to the device as well.
  [[nodiscard]] DevicePtr import(std::uint64_t memory) const {
    return gpu().import_memory(memory, words * sizeof(std::uint32_t));
  }

 private:
  static TestDevice first() {
    TestDevice device;
    require_cuda(device);
    return device;
  }
  static std::unique_ptr<TestDevice> adopted(const Caller& caller) {
    return std::make_unique<TestDevice>(adopt_cuda_context(caller.context(), device_options()));
  }

  TestDevice own_;

 public:
  Caller caller;

 private:
  std::unique_ptr<TestDevice> device_;
};

// Runs the body on a thread of its own; what it throws is thrown here.
void on_thread(const std::function<void()>& body) {
  std::exception_ptr thrown;
  std::thread([&] {
    try {
      body();
    } catch (...) {
      thrown = std::current_exception();
    }
  }).join();
  if (thrown != nullptr) std::rethrow_exception(thrown);
}

std::vector<std::uint32_t> all(std::uint32_t value) {
  return std::vector<std::uint32_t>(words, value);
}

// Calls of every group. Each leaves nothing behind.
std::vector<std::function<void()>> calls_of_every_group(const TestDevice& device, Stream stream, const Buffer& buffer) {
  GpuBackend& gpu = *device.gpu;
  return {
      [&gpu] { gpu.free(gpu.alloc(4096)); },
      [&gpu, stream] { gpu.free_async(gpu.alloc_async(4096, stream), stream); },
      [&gpu] { gpu.free_pinned(gpu.alloc_pinned(4096)); },
      [&gpu] { static_cast<void>(gpu.memory_info()); },
      [&gpu] { static_cast<void>(gpu.facts()); },
      [&gpu, stream, &buffer] { gpu.fill(buffer.get(), 1, 4, 4, stream); },
      [&device, &buffer] { static_cast<void>(device.download(buffer)); },
      [&device] { static_cast<void>(device.upload(std::vector<std::uint32_t>(16, 1))); },
      [&gpu, stream, &buffer] { gpu.copy_d2d_async(buffer.get().offset(64), buffer.get(), 64, stream); },
      [&gpu, stream] { gpu.synchronize(stream); },
      [&gpu] { gpu.destroy_stream(gpu.create_stream()); },
      [&gpu, stream] {
        const Event event = gpu.create_event();
        gpu.record(event, stream);
        gpu.wait(stream, event);
        gpu.wait_host(event);
        static_cast<void>(gpu.query(event));
        gpu.destroy_event(event);
      },
      [&device, stream, &buffer] { device.affine(buffer, 1, 0, stream); },
      [&device, stream, &buffer] {
        device.gpu->begin_capture(stream);
        device.affine(buffer, 1, 0, stream);
        const OwnedGraph graph(device.gpu, device.gpu->end_capture(stream));
        device.gpu->launch_graph(graph.get(), stream);
      },
      [&device] { device.gpu->prepare(device["rotate"], {32, 1, 1}, 256); },
      [&gpu] { static_cast<void>(gpu.load(TestKernels::of("cuda").make())); },
      [&gpu] {
        TestKernels kernels = TestKernels::of("cuda");
        for (auto& [file, bytes] : kernels.files) bytes[0] ^= std::byte{1};
        CHECK(error_of([&] { static_cast<void>(gpu.load(kernels.make())); }).code() == ErrorCode::corrupt_image);
      },
      [&gpu] {
        CHECK(error_of([&] { static_cast<void>(gpu.alloc(gpu.memory_info().total + 4096)); }).code() ==
              ErrorCode::out_of_device_memory);
      },
      [&device] { CHECK(device.canary()); },
  };
}

// What every call leaves of the calling thread's contexts: all.
void check_contexts_kept(const Caller& caller, const TestDevice& device) {
  const OwnedStream stream(device.gpu);
  const Buffer buffer(device.gpu, 4096);
  void* const current = caller.current();
  const std::size_t depth = caller.depth();
  int number = 0;
  for (const auto& call : calls_of_every_group(device, stream.get(), buffer)) {
    INFO("call " << number++);
    call();
    CHECK(caller.current() == current);
    CHECK(caller.depth() == depth);
  }
}

}  // namespace

TEST_CASE("a device in a context of the caller's works and leaves the context alive", "[device][cuda-only]") {
  Shared shared;
  CHECK(shared.gpu().info().id == shared.own().gpu->info().id);
  CHECK(shared.service().native_context() == shared.caller.context());
  CHECK(interop(*shared.own().gpu).native_context() != shared.caller.context());
  CHECK(shared.device().canary());
  CHECK(shared.own().canary());
  const std::uint64_t memory = shared.caller.alloc(words * 4);
  shared.close_device();

  shared.caller.fill(memory, 7, words, default_stream);
  CHECK(shared.caller.read(memory, words, default_stream) == all(7));
  const TestDevice again(adopt_cuda_context(shared.caller.context(), device_options()));
  CHECK(again.canary());
  CHECK(shared.caller.read(memory, words, default_stream) == all(7));
  shared.caller.free(memory);
  CHECK(shared.own().canary());
}

TEST_CASE("no context is refused", "[device][cuda-only]") {
  const TestDevice device;
  require_cuda(device);
  CHECK(error_of([&] { static_cast<void>(adopt_cuda_context(nullptr)); }).code() == ErrorCode::invalid_argument);
  CHECK(device.canary());
}

TEST_CASE("work on a stream of the caller's keeps its order with the caller's own", "[device][cuda-only]") {
  const Shared shared;
  const Caller& caller = shared.caller;
  void* const blocking = caller.create_stream();
  void* const non_blocking = caller.create_stream(1);
  const std::uint64_t a = caller.alloc(words * 4);
  const std::uint64_t b = caller.alloc(words * 4);
  for (void* const native : {blocking, non_blocking, default_stream, legacy_stream, per_thread_stream}) {
    INFO("stream " << native);
    const Stream stream = shared.service().adopt_stream(native);
    CHECK(shared.service().native_stream(stream) == native);
    const DevicePtr first = shared.import(a);
    const DevicePtr second = shared.import(b);
    caller.fill(b, 0, words, native);
    shared.device().spin(stream, 20);
    caller.fill(a, 3, words, native);
    shared.device().affine(first, words, 2, 1, stream);  // 7
    caller.copy(b, a, words * 4, native);
    shared.device().affine(second, words, 3, 2, stream);  // 23
    shared.gpu().copy_d2d_async(first, second, words * 2, stream);
    shared.gpu().fill(second, 9, 4, 1, stream);
    std::vector<std::uint32_t> expected_a = all(7);
    std::fill_n(expected_a.begin(), words / 2, 23U);
    std::vector<std::uint32_t> expected_b = all(23);
    expected_b[0] = 9;
    CHECK(caller.read(a, words, native) == expected_a);
    CHECK(caller.read(b, words, native) == expected_b);
    shared.gpu().release_import(first);
    shared.gpu().release_import(second);
    shared.gpu().destroy_stream(stream);
    // The stream is still the caller's.
    caller.fill(a, 5, words, native);
    CHECK(caller.read(a, words, native) == all(5));
  }
  caller.free(a);
  caller.free(b);
  caller.destroy_stream(blocking);
  caller.destroy_stream(non_blocking);
}

TEST_CASE("a stream of another context is refused", "[device][cuda-only]") {
  const Shared shared;
  const OwnedStream foreign(shared.own().gpu);
  void* const native = interop(*shared.own().gpu).native_stream(foreign.get());
  CHECK(error_of([&] { static_cast<void>(shared.service().adopt_stream(native)); }).code() ==
        ErrorCode::invalid_argument);
  void* const callers = shared.caller.create_stream();
  CHECK(error_of([&] { static_cast<void>(interop(*shared.own().gpu).adopt_stream(callers)); }).code() ==
        ErrorCode::invalid_argument);
  // A handle is one device's alone.
  const Stream adopted = shared.service().adopt_stream(callers);
  shared.gpu().synchronize(adopted);
  shared.gpu().destroy_stream(adopted);
  CHECK(error_of([&] { shared.gpu().synchronize(adopted); }).code() == ErrorCode::invalid_handle);
  shared.caller.destroy_stream(callers);
  CHECK(shared.device().canary());
  CHECK(shared.own().canary());
}

TEST_CASE("the driver's objects behind handles are the caller's to use", "[device][cuda-only]") {
  const Shared shared;
  const OwnedStream stream(shared.device().gpu);
  const Buffer data = shared.device().upload(std::vector<std::uint32_t>(words, 4));
  void* const native = shared.service().native_stream(stream.get());
  void* const kernel = shared.service().native_kernel(shared.device()["affine"]);
  REQUIRE(native != nullptr);
  REQUIRE(kernel != nullptr);
  kernels::AffineArgs args{.data = data.get(), .count = words, .factor = 5, .term = 1};
  const std::size_t bytes = kernels::AffineArgs::contract().argument_bytes;
  shared.caller.launch(kernel, words / 64, 64, std::as_writable_bytes(std::span(&args, 1)).first(bytes), native);
  shared.device().affine(data, 2, 0, stream.get());
  CHECK(shared.caller.read(data.get().address(), words, native) == all(42));
  CHECK(error_of([&] { static_cast<void>(shared.service().native_stream(Stream{})); }).code() ==
        ErrorCode::invalid_handle);
  CHECK(error_of([&] { static_cast<void>(shared.service().native_kernel(KernelHandle{})); }).code() ==
        ErrorCode::invalid_handle);
}

TEST_CASE("imported memory is known while it is imported and stays the caller's", "[device][cuda-only]") {
  const Shared shared;
  const OwnedStream stream(shared.device().gpu);
  const std::uint64_t memory = shared.caller.alloc(words * 4);
  std::uint32_t word = 8;
  const auto code = [&](const auto& call) { return error_of(call).code(); };
  CHECK(code([&] { shared.gpu().copy_h2d(DevicePtr(memory), &word, 4); }) == ErrorCode::invalid_argument);

  const std::uint64_t live = shared.gpu().memory_info().live;
  const DevicePtr imported = shared.import(memory);
  CHECK(imported.address() == memory);
  CHECK(shared.gpu().memory_info().live == live);
  CHECK(shared.gpu().contains(imported, words * 4));
  CHECK_FALSE(shared.gpu().contains(imported, words * 4 + 1));
  shared.gpu().fill(imported, 6, 4, words, stream.get());
  shared.gpu().synchronize(stream.get());
  shared.gpu().copy_h2d(imported.offset(8), &word, 4);
  CHECK(code([&] { shared.gpu().copy_h2d(imported.offset(words * 4 - 2), &word, 4); }) == ErrorCode::invalid_argument);
  CHECK(code([&] { shared.gpu().free(imported); }) == ErrorCode::invalid_handle);
  shared.device().affine(imported, words, 2, 1, stream.get());
  shared.gpu().release_import(imported);  // waits

  std::vector<std::uint32_t> expected = all(13);
  expected[2] = 17;
  CHECK(shared.caller.read(memory, words, per_thread_stream) == expected);
  CHECK(code([&] { shared.gpu().copy_h2d(imported, &word, 4); }) == ErrorCode::invalid_argument);
  shared.caller.free(memory);
  CHECK(shared.device().canary());
}

TEST_CASE("every call leaves the thread's contexts as they were", "[device][cuda-only]") {
  const Shared shared;
  const Caller& caller = shared.caller;
  for (const TestDevice* device : {&shared.device(), &shared.own()}) {
    on_thread([&] {  // with none
      REQUIRE(caller.current() == nullptr);
      check_contexts_kept(caller, *device);
    });
    on_thread([&] {  // with the caller's: its own, or a foreign one
      const Caller::Inside inside(caller);
      check_contexts_kept(caller, *device);
    });
    on_thread([&] {  // with several
      const Caller other(device->gpu->info());
      const Caller::Inside below(other);
      const Caller::Inside middle(caller);
      const Caller::Inside above(other);
      REQUIRE(caller.depth() == 3);
      check_contexts_kept(caller, *device);
    });
  }
}

TEST_CASE("opening and adopting leave the thread's contexts as they were", "[device][cuda-only]") {
  const Shared shared;
  const Caller& caller = shared.caller;
  const auto come_and_go = [&] {
    void* const current = caller.current();
    const std::size_t depth = caller.depth();
    {
      const TestDevice opened;
      const TestDevice adopted(adopt_cuda_context(caller.context(), device_options()));
      CHECK(caller.current() == current);
    }
    CHECK(error_of([&] { static_cast<void>(adopt_cuda_context(nullptr)); }).code() == ErrorCode::invalid_argument);
    CHECK(caller.current() == current);
    CHECK(caller.depth() == depth);
  };
  on_thread(come_and_go);
  on_thread([&] {
    const Caller::Inside inside(caller);
    come_and_go();
  });
  CHECK(shared.own().canary());
}

TEST_CASE("a device leaves nothing of the caller's destroyed behind it", "[device][cuda-only]") {
  Shared shared;
  const Caller& caller = shared.caller;
  void* const stream = caller.create_stream();
  const std::uint64_t memory = caller.alloc(words * 4);
  {
    // Left alive for the device's end: handles, work that is queued, an import.
    const Stream adopted = shared.service().adopt_stream(stream);
    static_cast<void>(shared.service().adopt_stream(default_stream));
    const Stream own = shared.gpu().create_stream();
    static_cast<void>(shared.gpu().create_event());
    static_cast<void>(shared.gpu().alloc(4096));
    const DevicePtr imported = shared.import(memory);
    shared.device().spin(adopted, 20);
    shared.gpu().fill(imported, 2, 4, words, adopted);
    shared.device().spin(own, 20);
    shared.device().affine(imported, words, 4, 3, adopted);
  }
  shared.close_device();
  CHECK(caller.read(memory, words, stream) == all(11));
  caller.fill(memory, 12, words, stream);
  CHECK(caller.read(memory, words, stream) == all(12));
  caller.free(memory);
  caller.destroy_stream(stream);
  CHECK(shared.own().canary());
}

TEST_CASE("a capture of the caller's takes what is launched on its stream and replays it",
          "[device][cuda-only][graph]") {
  const Shared shared;
  const Caller& caller = shared.caller;
  void* const native = caller.create_stream();
  void* const native_side = caller.create_stream();
  const Stream stream = shared.service().adopt_stream(native);
  const Stream side = shared.service().adopt_stream(native_side);
  const OwnedEvent fork(shared.device().gpu);
  const OwnedEvent join(shared.device().gpu);
  const Buffer a = shared.device().upload(std::vector<std::uint32_t>(words, 1));
  const Buffer b = shared.device().upload(std::vector<std::uint32_t>(words, 0));
  const Buffer c = shared.device().upload(std::vector<std::uint32_t>(words, 0));

  caller.begin_capture(native);
  shared.device().affine(a, 3, 1, stream);
  shared.gpu().record(fork.get(), stream);
  shared.gpu().wait(side, fork.get());
  shared.gpu().copy_d2d_async(b.get(), a.get(), words * 4, side);
  shared.device().affine(b, 2, 0, side);
  shared.gpu().record(join.get(), side);
  shared.gpu().fill(c.get(), 5, 4, words, stream);
  // What names other streams goes on as ever.
  shared.gpu().free(shared.gpu().alloc(4096));
  const OwnedStream busy(shared.device().gpu);
  shared.device().spin(busy.get(), 2);
  shared.gpu().synchronize(busy.get());
  shared.gpu().wait(stream, join.get());
  caller.copy(c.get().address(), b.get().address(), words * 2, native);
  void* const graph = caller.end_capture(native);

  CHECK(shared.device().download(a) == all(1));  // nothing has run
  CHECK(shared.device().download(c) == all(0));
  std::uint32_t expected = 1;
  for (int replay = 0; replay < 3; ++replay) {
    caller.launch_graph(graph, native);
    expected = expected * 3 + 1;
  }
  shared.gpu().synchronize(stream);
  CHECK(shared.device().download(a) == all(expected));
  CHECK(shared.device().download(b) == all(expected * 2));
  std::vector<std::uint32_t> mixed = all(5);
  std::fill_n(mixed.begin(), words / 2, expected * 2);
  CHECK(shared.device().download(c) == mixed);

  caller.destroy_graph(graph);
  shared.device().affine(a, 2, 0, stream);  // outside of a capture again
  shared.gpu().synchronize(stream);
  CHECK(shared.device().download(a) == all(expected * 2));
  for (const Stream lent : {stream, side}) shared.gpu().destroy_stream(lent);
  for (void* const lent : {native, native_side}) caller.destroy_stream(lent);
  CHECK(shared.device().canary());
}

TEST_CASE("a capture of the caller's stands beside the context's default stream", "[device][cuda-only][graph]") {
  const Shared shared;
  const Caller& caller = shared.caller;
  // The driver lets nobody wait for the default stream while a blocking stream is captured.
  const Stream lent = shared.service().adopt_stream(default_stream);
  void* const native = caller.create_stream();
  const Stream stream = shared.service().adopt_stream(native);
  const Buffer data = shared.device().upload(std::vector<std::uint32_t>(words, 1));
  caller.begin_capture(native);
  shared.device().affine(data, 3, 1, stream);
  shared.gpu().free(shared.gpu().alloc(4096));  // waits for what may use the memory
  shared.device().affine(data, 3, 1, stream);
  void* const graph = caller.end_capture(native);
  caller.launch_graph(graph, native);
  shared.gpu().synchronize(stream);
  CHECK(shared.device().download(data) == all(13));
  caller.destroy_graph(graph);
  shared.gpu().destroy_stream(stream);
  shared.gpu().destroy_stream(lent);
  caller.destroy_stream(native);
  CHECK(shared.device().canary());
}

}  // namespace kdart::test
