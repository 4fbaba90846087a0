// Graphs: what they hold, and how often they may be launched.
#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <iterator>

#include "tests/support/error_of.h"
#include "tests/support/test_device.h"

namespace kdart::test {

TEST_CASE("a graph is replayed a thousand times, pending or not", "[device][graph]") {
  const TestDevice device;
  const OwnedStream stream(device.gpu);
  const Buffer data = device.upload(std::vector<std::uint32_t>(16, 1));
  device.gpu->begin_capture(stream.get());
  device.affine(data, 3, 1, stream.get());
  device.affine(data, 5, 2, stream.get());
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

TEST_CASE("a graph holds copies, fills and the work of streams that joined", "[device][graph][tsan]") {
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
  device.affine(b, 2, 1, side.get());
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

TEST_CASE("a graph may be destroyed while it is pending", "[device][graph][tsan]") {
  const TestDevice device;
  const OwnedStream stream(device.gpu);
  const Buffer data = device.upload(std::vector<std::uint32_t>(16, 1));
  device.gpu->begin_capture(stream.get());
  device.affine(data, 2, 1, stream.get());
  OwnedGraph graph(device.gpu, device.gpu->end_capture(stream.get()));
  device.spin(stream.get(), 20);
  device.gpu->launch_graph(graph.get(), stream.get());
  graph.reset();
  device.gpu->synchronize(stream.get());
  CHECK(device.download(data) == std::vector<std::uint32_t>(16, 3));
}

TEST_CASE("a graph keeps the kernels it launches", "[device][graph]") {
  TestDevice device;
  const OwnedStream stream(device.gpu);
  const Buffer data = device.upload(std::vector<std::uint32_t>(16, 1));
  device.gpu->begin_capture(stream.get());
  device.affine(data, 2, 1, stream.get());
  const OwnedGraph graph(device.gpu, device.gpu->end_capture(stream.get()));
  device.kernels.reset();
  device.gpu->launch_graph(graph.get(), stream.get());
  device.gpu->synchronize(stream.get());
  CHECK(device.download(data) == std::vector<std::uint32_t>(16, 3));
}

TEST_CASE("a capture that became invalid leaves its streams usable", "[device][graph]") {
  const TestDevice device;
  const OwnedStream main(device.gpu);
  const OwnedStream side(device.gpu);
  const OwnedEvent event(device.gpu);
  const Buffer data = device.upload(std::vector<std::uint32_t>(16, 1));
  device.gpu->begin_capture(main.get());
  device.gpu->record(event.get(), main.get());
  device.gpu->wait(side.get(), event.get());
  device.affine(data, 7, 7, side.get());
  CHECK(error_of([&] { device.gpu->synchronize(side.get()); }).code() == ErrorCode::capture_invalidated);
  CHECK(error_of([&] { static_cast<void>(device.gpu->end_capture(main.get())); }).code() ==
        ErrorCode::capture_invalidated);
  for (const OwnedStream* stream : {&main, &side}) {
    device.affine(data, 2, 1, stream->get());
    device.gpu->synchronize(stream->get());
  }
  CHECK(device.download(data) == std::vector<std::uint32_t>(16, 7));
}

TEST_CASE("a graph may be launched while its last launch is pending", "[device][graph]") {
  const TestDevice device;
  const OwnedStream stream(device.gpu);
  const Buffer data = device.upload(std::vector<std::uint32_t>(16, 1));
  device.gpu->begin_capture(stream.get());
  device.spin(stream.get(), 3);
  device.affine(data, 3, 1, stream.get());
  const OwnedGraph graph(device.gpu, device.gpu->end_capture(stream.get()));
  std::uint32_t expected = 1;
  for (std::uint32_t i = 0; i < 10; ++i) {
    device.gpu->launch_graph(graph.get(), stream.get());
    device.affine(data, 5, i, stream.get());  // between two launches of the graph
    expected = (expected * 3 + 1) * 5 + i;
  }
  device.gpu->synchronize(stream.get());
  CHECK(device.download(data) == std::vector<std::uint32_t>(16, expected));
}

TEST_CASE("work around a graph keeps its place", "[device][graph]") {
  const TestDevice device;
  const OwnedStream first(device.gpu);
  const OwnedStream second(device.gpu);
  const OwnedEvent event(device.gpu);
  const Buffer data = device.upload(std::vector<std::uint32_t>(1000, 1));
  device.gpu->begin_capture(first.get());
  device.affine(data, 7, 2, first.get());
  const OwnedGraph graph(device.gpu, device.gpu->end_capture(first.get()));
  device.spin(first.get(), 10);
  device.affine(data, 2, 1, first.get());              // 3
  device.gpu->launch_graph(graph.get(), first.get());  // 23
  device.gpu->record(event.get(), first.get());
  device.gpu->wait(second.get(), event.get());
  device.gpu->launch_graph(graph.get(), second.get());  // 163
  device.affine(data, 2, 0, second.get());
  device.gpu->synchronize(second.get());
  CHECK(device.download(data) == std::vector<std::uint32_t>(1000, 326));
}

TEST_CASE("a large graph is right every time", "[device][graph]") {
  const TestDevice device;
  const OwnedStream stream(device.gpu);
  const Buffer data = device.upload(std::vector<std::uint32_t>(16, 1));
  constexpr std::uint32_t launches = 2000;
  device.gpu->begin_capture(stream.get());
  for (std::uint32_t i = 0; i < launches; ++i) device.affine(data, 3, i, stream.get());
  const OwnedGraph graph(device.gpu, device.gpu->end_capture(stream.get()));
  std::uint32_t expected = 1;
  for (int replay = 0; replay < 3; ++replay) {
    device.gpu->launch_graph(graph.get(), stream.get());
    for (std::uint32_t i = 0; i < launches; ++i) expected = expected * 3 + i;
  }
  device.gpu->synchronize(stream.get());
  CHECK(device.download(data) == std::vector<std::uint32_t>(16, expected));
}

TEST_CASE("a captured launch needs a prepared kernel where kernels are compiled late", "[device][graph]") {
  const TestDevice device;
  const OwnedStream stream(device.gpu);
  constexpr std::uint32_t blocks = 3, threads = 24, rounds = 7;
  const Buffer out = device.upload(std::vector<std::uint32_t>(std::size_t{blocks} * threads, 0));
  const auto rotate = [&] {
    KernelLaunch(*device.gpu, device["rotate"])
        .args(kernels::RotateArgs{.out = out.get(), .blocks = blocks, .threads = threads, .rounds = rounds})
        .launch(stream.get());
  };
  const auto right = [&] {
    const auto values = device.download(out);
    for (std::uint32_t i = 0; i < values.size(); ++i) {
      if (values[i] != (i % threads + rounds) % threads) return false;
    }
    return true;
  };
  device.gpu->begin_capture(stream.get());
  if (device.is("vulkan")) {
    const Error error = error_of(rotate);
    CHECK(error.code() == ErrorCode::capture_invalidated);
    CHECK(std::string(error.what()).find("rotate") != std::string::npos);
    CHECK(error_of([&] { static_cast<void>(device.gpu->end_capture(stream.get())); }).code() ==
          ErrorCode::capture_invalidated);
    device.gpu->prepare(device["rotate"], {threads, 1, 1}, threads * 4);
    device.gpu->begin_capture(stream.get());
  }
  rotate();
  const OwnedGraph graph(device.gpu, device.gpu->end_capture(stream.get()));
  CHECK_FALSE(right());
  device.gpu->launch_graph(graph.get(), stream.get());
  device.gpu->synchronize(stream.get());
  CHECK(right());
  CHECK(device.canary());
}

TEST_CASE("what a capture cannot hold ends it", "[device][graph]") {
  const TestDevice device;
  const OwnedStream stream(device.gpu);
  const Buffer data = device.upload(std::vector<std::uint32_t>(16, 1));
  std::vector<std::uint32_t> host(16, 5);
  PinnedBuffer pinned(device.gpu, 64);
  const std::function<void()> calls[]{
      [&] { device.gpu->copy_h2d_async(data.get(), host.data(), 64, stream.get()); },
      [&] { device.gpu->copy_h2d_async(data.get(), pinned.get(), 64, stream.get()); },
      [&] { device.gpu->copy_d2h_async(host.data(), data.get(), 64, stream.get()); },
      [&] { static_cast<void>(device.gpu->alloc_async(64, stream.get())); },
      [&] { device.gpu->synchronize(stream.get()); },
      [&] { device.gpu->flush(stream.get()); },
      [&] { device.gpu->begin_capture(stream.get()); },
  };
  for (const auto& call : calls) {
    device.gpu->begin_capture(stream.get());
    device.affine(data, 100, 100, stream.get());
    CHECK(error_of(call).code() == ErrorCode::capture_invalidated);
    device.affine(data, 1, 1, stream.get());
    device.gpu->synchronize(stream.get());
  }
  CHECK(device.download(data) == std::vector<std::uint32_t>(16, 1 + static_cast<std::uint32_t>(std::size(calls))));
}

TEST_CASE("graphs are made and dropped without leaving anything", "[device][graph]") {
  const TestDevice device;
  const OwnedStream stream(device.gpu);
  const Buffer data = device.upload(std::vector<std::uint32_t>(16, 0));
  for (std::uint32_t i = 0; i < 200; ++i) {
    device.gpu->begin_capture(stream.get());
    device.affine(data, 1, 1, stream.get());
    const OwnedGraph graph(device.gpu, device.gpu->end_capture(stream.get()));
    if (i % 3 != 0) device.gpu->launch_graph(graph.get(), stream.get());
  }
  device.gpu->synchronize(stream.get());
  CHECK(device.download(data) == std::vector<std::uint32_t>(16, 133));
}

}  // namespace kdart::test
