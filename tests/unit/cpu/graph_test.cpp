#include <catch2/catch_test_macros.hpp>

#include "tests/unit/cpu/test_device.h"

namespace kdart::test {
namespace {

void affine(const TestDevice& device, DevicePtr data, std::uint32_t factor, std::uint32_t term, Stream stream) {
  KernelLaunch(*device.gpu, device["affine"]).grid(2).block(8).arg(data).arg(16U).arg(factor).arg(term).launch(stream);
}

}  // namespace

TEST_CASE("a graph is replayed a thousand times, pending or not", "[cpu][graph]") {
  const TestDevice device;
  const OwnedStream stream(device.gpu);
  const Buffer data = device.upload(std::vector<std::uint32_t>(16, 1));
  device.gpu->begin_capture(stream.get());
  affine(device, data.get(), 3, 1, stream.get());
  affine(device, data.get(), 5, 2, stream.get());
  const OwnedGraph graph(device.gpu, device.gpu->end_capture(stream.get()));
  CHECK(device.download(data) == std::vector<std::uint32_t>(16, 1));  // capturing runs nothing

  std::uint32_t expected = 1;
  for (int i = 0; i < 1000; ++i) {
    device.gpu->launch_graph(graph.get(), stream.get());
    expected = (expected * 3 + 1) * 5 + 2;
  }
  device.gpu->synchronize(stream.get());
  CHECK(device.download(data) == std::vector<std::uint32_t>(16, expected));
}

TEST_CASE("a graph holds copies, fills and the work of streams that joined", "[cpu][graph][tsan]") {
  const TestDevice device;
  const OwnedStream main(device.gpu);
  const OwnedStream side(device.gpu);
  const OwnedEvent fork(device.gpu);
  const OwnedEvent join(device.gpu);
  const Buffer a = device.upload(std::vector<std::uint32_t>(16, 0));
  const Buffer b = device.upload(std::vector<std::uint32_t>(16, 0));
  device.gpu->begin_capture(main.get());
  device.gpu->fill(a.get(), 4, 4, 16, main.get());
  device.gpu->record(fork.get(), main.get());
  device.gpu->wait(side.get(), fork.get());
  device.gpu->copy_d2d_async(b.get(), a.get(), 64, side.get());
  affine(device, b.get(), 2, 1, side.get());
  device.gpu->record(join.get(), side.get());
  device.gpu->wait(main.get(), join.get());
  device.gpu->copy_2d_d2d_async(a.get(), 16, b.get(), 16, 8, 4, main.get());
  const OwnedGraph graph(device.gpu, device.gpu->end_capture(main.get()));

  std::vector<std::uint32_t> expected(16, 4);
  for (std::uint32_t i = 0; i < 16; ++i) {
    if (i % 4 < 2) expected[i] = 9;
  }
  for (const OwnedStream* stream : {&main, &side}) {
    device.gpu->fill(b.get(), 0, 4, 16, stream->get());
    device.gpu->launch_graph(graph.get(), stream->get());
    device.gpu->synchronize(stream->get());
    CHECK(device.download(a) == expected);
    CHECK(device.download(b) == std::vector<std::uint32_t>(16, 9));
  }
}

TEST_CASE("a graph may be destroyed while it is pending", "[cpu][graph][tsan]") {
  const TestDevice device;
  const OwnedStream stream(device.gpu);
  const Buffer data = device.upload(std::vector<std::uint32_t>(16, 1));
  device.gpu->begin_capture(stream.get());
  affine(device, data.get(), 2, 1, stream.get());
  OwnedGraph graph(device.gpu, device.gpu->end_capture(stream.get()));
  KernelLaunch(*device.gpu, device["nap"]).arg(20U).launch(stream.get());
  device.gpu->launch_graph(graph.get(), stream.get());
  graph.reset();
  device.gpu->synchronize(stream.get());
  CHECK(device.download(data) == std::vector<std::uint32_t>(16, 3));
}

TEST_CASE("a graph keeps the kernels it launches", "[cpu][graph]") {
  TestDevice device;
  const OwnedStream stream(device.gpu);
  const Buffer data = device.upload(std::vector<std::uint32_t>(16, 1));
  device.gpu->begin_capture(stream.get());
  affine(device, data.get(), 2, 1, stream.get());
  const OwnedGraph graph(device.gpu, device.gpu->end_capture(stream.get()));
  device.kernels.reset();
  device.gpu->launch_graph(graph.get(), stream.get());
  device.gpu->synchronize(stream.get());
  CHECK(device.download(data) == std::vector<std::uint32_t>(16, 3));
}

TEST_CASE("a capture that became invalid leaves its streams usable", "[cpu][graph]") {
  const TestDevice device;
  const OwnedStream main(device.gpu);
  const OwnedStream side(device.gpu);
  const OwnedEvent event(device.gpu);
  const Buffer data = device.upload(std::vector<std::uint32_t>(16, 1));
  device.gpu->begin_capture(main.get());
  device.gpu->record(event.get(), main.get());
  device.gpu->wait(side.get(), event.get());
  affine(device, data.get(), 7, 7, side.get());
  CHECK(error_of([&] { device.gpu->synchronize(side.get()); }).code() == ErrorCode::capture_invalidated);
  CHECK(error_of([&] { static_cast<void>(device.gpu->end_capture(main.get())); }).code() ==
        ErrorCode::capture_invalidated);
  for (const OwnedStream* stream : {&main, &side}) {
    affine(device, data.get(), 2, 1, stream->get());
    device.gpu->synchronize(stream->get());
  }
  CHECK(device.download(data) == std::vector<std::uint32_t>(16, 7));
}

}  // namespace kdart::test
