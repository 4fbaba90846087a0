// Launches: every block and thread once, barriers, order, arguments, limits.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <thread>

#include "tests/support/error_of.h"
#include "tests/support/launch_shapes.h"
#include "tests/support/random_values.h"
#include "tests/support/test_device.h"

namespace kdart::test {
namespace {

KernelLaunch shaped(const TestDevice& device, const char* kernel, const Shape& shape) {
  KernelLaunch launch(*device.gpu, device[kernel]);
  launch.grid(shape.grid.x, shape.grid.y, shape.grid.z).block(shape.block.x, shape.block.y, shape.block.z);
  return launch;
}

std::uint32_t count_wrong_visits(const TestDevice& device, const Shape& shape, std::uint32_t times) {
  const OwnedStream stream(device.gpu);
  const std::uint32_t threads = threads_of(shape);
  const Buffer counts = device.upload(std::vector<std::uint32_t>(threads, 0));
  for (std::uint32_t i = 0; i < times; ++i) {
    shaped(device, "visit", shape).arg(counts.get()).arg(threads).launch(stream.get());
  }
  device.gpu->synchronize(stream.get());
  const auto values = device.download(counts);
  return static_cast<std::uint32_t>(std::count_if(values.begin(), values.end(), [&](auto v) { return v != times; }));
}

void check_ids(const TestDevice& device, const Shape& shape) {
  const OwnedStream stream(device.gpu);
  const std::uint32_t threads = threads_of(shape);
  const Buffer ids = device.upload(std::vector<std::uint32_t>(std::size_t{12} * threads, 0xffffffffU));
  shaped(device, "ids", shape).arg(ids.get()).arg(threads).launch(stream.get());
  device.gpu->synchronize(stream.get());
  CHECK(device.download(ids) == ids_of(shape));
}

// Threads whose rotation of `rounds` steps went wrong.
std::uint32_t wrong_rotations(const TestDevice& device, std::uint32_t blocks, std::uint32_t threads,
                              std::uint32_t rounds) {
  const OwnedStream stream(device.gpu);
  const Buffer out = device.upload(std::vector<std::uint32_t>(std::size_t{blocks} * threads, 0));
  KernelLaunch(*device.gpu, device["rotate"])
      .args(kernels::RotateArgs{.out = out.get(), .blocks = blocks, .threads = threads, .rounds = rounds})
      .launch(stream.get());
  device.gpu->synchronize(stream.get());
  return count_wrong_rotations(device.download(out), threads, rounds);
}

// The arguments of many_args, whatever lies between them, and what the kernel should write.
class ManyArguments {
 public:
  // The seven addresses are words of `words`.
  ManyArguments(std::uint64_t seed, DevicePtr out, const Buffer& words, std::span<const std::uint32_t> contents) {
    Random random(seed);
    std::memset(static_cast<void*>(&args_), 0xA5, sizeof args_);  // the gaps are not 0
    args_.out = out;
    const auto group = [&](std::uint32_t& a, std::uint64_t& b, float& c, DevicePtr& p) {
      const std::uint64_t bits = random.bits();
      a = static_cast<std::uint32_t>(bits);
      b = random.bits();
      c = static_cast<float>(random.uniform(-1e6, 1e6));
      const std::size_t word = (bits >> 32) % contents.size();
      p = words.get().offset(4 * word);
      expect(a);
      expect_two(b);
      expect(std::bit_cast<std::uint32_t>(c));
      expect_two(p.address());
      expect(contents[word]);
    };
    group(args_.a0, args_.b0, args_.c0, args_.p0);
    group(args_.a1, args_.b1, args_.c1, args_.p1);
    group(args_.a2, args_.b2, args_.c2, args_.p2);
    group(args_.a3, args_.b3, args_.c3, args_.p3);
    group(args_.a4, args_.b4, args_.c4, args_.p4);
    group(args_.a5, args_.b5, args_.c5, args_.p5);
    group(args_.a6, args_.b6, args_.c6, args_.p6);
    args_.last = -static_cast<std::int32_t>(random.bits() >> 40);
    expect(static_cast<std::uint32_t>(args_.last));
  }

  [[nodiscard]] const std::vector<std::uint32_t>& expected() const { return expected_; }
  void launch(const TestDevice& device, Stream stream) const {
    KernelLaunch(*device.gpu, device["many_args"]).args(args_).launch(stream);
  }

 private:
  void expect(std::uint32_t word) { expected_.push_back(word); }
  void expect_two(std::uint64_t x) {
    expect(static_cast<std::uint32_t>(x));
    expect(static_cast<std::uint32_t>(x >> 32));
  }

  kernels::ManyArgsArgs args_{};
  std::vector<std::uint32_t> expected_;
};

constexpr std::uint32_t many_args_words = 50;

bool has_feature(const TestDevice& device, std::string_view feature) {
  const std::vector<std::string>& features = device.gpu->info().features;
  return std::find(features.begin(), features.end(), feature) != features.end();
}

std::vector<std::uint32_t> counting(std::uint32_t count, std::uint32_t first) {
  std::vector<std::uint32_t> values(count);
  for (std::uint32_t i = 0; i < count; ++i) values[i] = first + i;
  return values;
}

}  // namespace

TEST_CASE("each block and thread of a launch runs once", "[device][launch]") {
  const TestDevice device;
  const DeviceLimits& limits = device.gpu->info().limits;
  const Shape shapes[]{{{1, 1, 1}, {1, 1, 1}},    {{1, 1, 1}, {128, 1, 1}}, {{7, 5, 3}, {4, 3, 2}},
                       {{1000, 1, 1}, {1, 1, 1}}, {{1, 63, 65}, {3, 1, 7}}, {{257, 2, 1}, {16, 2, 4}}};
  for (const Shape& shape : shapes) CHECK(count_wrong_visits(device, shape, 1) == 0);
  CHECK(count_wrong_visits(device, {{3, 2, 1}, {limits.threads_per_block, 1, 1}}, 2) == 0);
  CHECK(count_wrong_visits(device, {{std::min(limits.grid.x, 70001U), 2, 1}, {2, 1, 1}}, 3) == 0);
}

TEST_CASE("threads know their place in a launch", "[device][launch][tsan]") {
  const TestDevice device;
  check_ids(device, {{3, 4, 2}, {5, 2, 3}});
  check_ids(device, {{1, 1, 5}, {1, 1, 7}});
  check_ids(device, {{300, 1, 1}, {33, 1, 1}});
}

TEST_CASE("barriers and shared memory hold", "[device][launch][tsan]") {
  const TestDevice device;
  if (under_tsan) {
    for (const std::uint32_t threads : {1U, 2U, 16U, 3U}) CHECK(wrong_rotations(device, 3, threads, 5) == 0);
    return;
  }
  const std::uint32_t most = device.gpu->info().limits.threads_per_block;
  for (const std::uint32_t threads : {1U, 2U, 31U, 64U, 65U, 128U, most}) {
    CHECK(wrong_rotations(device, 9, threads, 37) == 0);
  }
}

TEST_CASE("ten thousand dependent launches keep their order", "[device][launch]") {
  const TestDevice device;
  const OwnedStream stream(device.gpu);
  const Buffer data = device.upload(std::vector<std::uint32_t>(40, 1));
  std::uint32_t expected = 1;
  for (std::uint32_t i = 0; i < 10000; ++i) {
    device.affine(data, 3, i, stream.get());
    expected = expected * 3 + i;
  }
  device.gpu->synchronize(stream.get());
  CHECK(device.download(data) == std::vector<std::uint32_t>(40, expected));
}

TEST_CASE("ten thousand launches from block to block", "[device][launch]") {
  const TestDevice device;
  const OwnedStream stream(device.gpu);
  constexpr std::uint32_t launches = 10000;
  const Buffer count = device.upload(std::vector<std::uint32_t>(1, 0));
  for (std::uint32_t i = 0; i < launches; ++i) {
    KernelLaunch(*device.gpu, device["visit"]).arg(count.get()).arg(1U).grid(1).block(1).launch(stream.get());
  }
  device.gpu->synchronize(stream.get());
  CHECK(device.download(count) == std::vector<std::uint32_t>(1, launches));
}

TEST_CASE("a grid with a 0 submits nothing", "[device][launch]") {
  const TestDevice device;
  const OwnedStream stream(device.gpu);
  const Buffer counts = device.upload(std::vector<std::uint32_t>(4, 0));
  for (const Dim3 grid : {Dim3{0, 1, 1}, Dim3{1, 0, 1}, Dim3{1, 1, 0}}) {
    shaped(device, "visit", {grid, {4, 1, 1}}).arg(counts.get()).arg(4U).launch(stream.get());
  }
  device.gpu->synchronize(stream.get());
  CHECK(device.download(counts) == std::vector<std::uint32_t>(4, 0));
}

TEST_CASE("launches beyond the device's limits are refused and those at them run", "[device][launch]") {
  const TestDevice device;
  const DeviceLimits& limits = device.gpu->info().limits;
  const OwnedStream stream(device.gpu);
  const Buffer data = device.upload(std::vector<std::uint32_t>(4, 0));
  const auto visit = [&](Dim3 grid, Dim3 block) {
    shaped(device, "visit", {grid, block}).arg(data.get()).arg(4U).launch(stream.get());
  };
  const auto rotate = [&](std::uint64_t shared) {
    KernelLaunch(*device.gpu, device["rotate"])
        .args(kernels::RotateArgs{.out = data.get(), .blocks = 1, .threads = 4, .rounds = 1})
        .shared_mem(static_cast<std::uint32_t>(shared))
        .launch(stream.get());
  };
  const auto code = [&](const auto& call) { return error_of(call).code(); };
  constexpr std::uint32_t max = 0xFFFFFFFFU;
  if (limits.grid.x != max)
    CHECK(code([&] { visit({limits.grid.x + 1, 1, 1}, {1, 1, 1}); }) == ErrorCode::invalid_launch);
  if (limits.grid.y != max)
    CHECK(code([&] { visit({1, limits.grid.y + 1, 1}, {1, 1, 1}); }) == ErrorCode::invalid_launch);
  if (limits.grid.z != max)
    CHECK(code([&] { visit({1, 1, limits.grid.z + 1}, {1, 1, 1}); }) == ErrorCode::invalid_launch);
  CHECK(code([&] { visit({1, 1, 1}, {limits.threads_per_block + 1, 1, 1}); }) == ErrorCode::invalid_launch);
  CHECK(code([&] { visit({1, 1, 1}, {limits.block.x, limits.block.y, 2}); }) == ErrorCode::invalid_launch);
  CHECK(code([&] { visit({1, 1, 1}, {4, 0, 1}); }) == ErrorCode::invalid_launch);
  CHECK(code([&] { rotate(limits.shared_memory_per_block + 1); }) == ErrorCode::invalid_launch);
  CHECK(code([&] { rotate(max); }) == ErrorCode::invalid_launch);
  rotate(limits.shared_memory_per_block);
  rotate(limits.shared_memory_per_block - 1);
  visit({1, 1, std::min(limits.grid.z, 65535U)}, {1, 1, 1});
  device.gpu->synchronize(stream.get());
  CHECK(device.download(data) == std::vector<std::uint32_t>{2, 3, 4, 1});  // rotated by 1, then visited
  CHECK(device.canary());
}

TEST_CASE("every argument of a large block arrives", "[device][launch]") {
  const TestDevice device;
  const OwnedStream stream(device.gpu);
  const auto contents = counting(64, 1000);
  const Buffer words = device.upload(contents);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Buffer out = device.upload(std::vector<std::uint32_t>(many_args_words, 0));
    const ManyArguments arguments(seed, out.get(), words, contents);
    REQUIRE(arguments.expected().size() == many_args_words);
    arguments.launch(device, stream.get());
    device.gpu->synchronize(stream.get());
    CHECK(device.download(out) == arguments.expected());
  }
}

TEST_CASE("ten thousand large argument blocks in flight are each their own", "[device][launch]") {
  const TestDevice device;
  const OwnedStream stream(device.gpu);
  const auto contents = counting(64, 5000);
  const Buffer words = device.upload(contents);
  constexpr std::uint32_t launches = 10000;
  const Buffer out = device.upload(std::vector<std::uint32_t>(std::size_t{launches} * many_args_words, 0));
  std::vector<std::uint32_t> expected;
  for (std::uint32_t i = 0; i < launches; ++i) {
    const ManyArguments arguments(i, out.get().offset(std::uint64_t{i} * many_args_words * 4), words, contents);
    arguments.launch(device, stream.get());
    expected.insert(expected.end(), arguments.expected().begin(), arguments.expected().end());
  }
  device.gpu->synchronize(stream.get());
  const auto found = device.download(out);
  CHECK(std::mismatch(expected.begin(), expected.end(), found.begin()).first == expected.end());
}

TEST_CASE("argument blocks and uploads share what they pass through", "[device][launch]") {
  const TestDevice device;
  const OwnedStream stream(device.gpu);
  const auto contents = counting(64, 7000);
  const Buffer words = device.upload(contents);
  constexpr std::size_t mebibytes = std::size_t{4} << 20;
  const Buffer target(device.gpu, mebibytes);
  const std::vector<std::byte> source(mebibytes, std::byte{0x3c});
  // An upload that leaves just too little room behind it, or just enough, in pieces of 4 MiB.
  for (const std::size_t left : {0U, 1U, 16U, 100U, 220U, 235U, 236U, 240U, 256U, 480U, 500U}) {
    std::vector<Buffer> out;
    std::vector<ManyArguments> launched;
    device.gpu->copy_h2d_async(target.get(), source.data(), mebibytes - left, stream.get());
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      out.push_back(device.upload(std::vector<std::uint32_t>(many_args_words, 0)));
      launched.emplace_back(left * 10 + seed, out.back().get(), words, contents);
      launched.back().launch(device, stream.get());
    }
    device.gpu->synchronize(stream.get());
    INFO(left << " bytes left");
    for (std::size_t i = 0; i < out.size(); ++i) CHECK(device.download(out[i]) == launched[i].expected());
    std::vector<std::byte> back(mebibytes - left);
    device.gpu->copy_d2h(back.data(), target.get(), back.size());
    CHECK(std::all_of(back.begin(), back.end(), [](std::byte b) { return b == std::byte{0x3c}; }));
  }
}

TEST_CASE("a graph keeps large argument blocks", "[device][launch][graph]") {
  const TestDevice device;
  const OwnedStream stream(device.gpu);
  const auto contents = counting(64, 9000);
  const Buffer words = device.upload(contents);
  constexpr std::uint32_t launches = 1000;  // more than one piece of a graph's memory holds
  const Buffer out(device.gpu, std::uint64_t{launches} * many_args_words * 4);
  std::vector<std::uint32_t> expected;
  device.gpu->begin_capture(stream.get());
  for (std::uint32_t i = 0; i < launches; ++i) {
    const ManyArguments arguments(i, out.get().offset(std::uint64_t{i} * many_args_words * 4), words, contents);
    arguments.launch(device, stream.get());
    expected.insert(expected.end(), arguments.expected().begin(), arguments.expected().end());
  }
  const OwnedGraph graph(device.gpu, device.gpu->end_capture(stream.get()));
  for (int replay = 0; replay < 10; ++replay) {
    device.gpu->fill(out.get(), 0, 4, out.bytes() / 4, stream.get());
    // Launches outside the graph use memory that the graph's blocks must not share.
    const ManyArguments other(77, out.get(), words, contents);
    other.launch(device, stream.get());
    device.gpu->launch_graph(graph.get(), stream.get());
    device.gpu->synchronize(stream.get());
    const auto found = device.download(out);
    CHECK(std::mismatch(expected.begin(), expected.end(), found.begin()).first == expected.end());
  }
}

TEST_CASE("prepare takes what launch takes and refuses what launch refuses", "[device][launch]") {
  const TestDevice device;
  const DeviceLimits& limits = device.gpu->info().limits;
  const auto prepare = [&](Dim3 block, std::uint32_t shared) { device.gpu->prepare(device["rotate"], block, shared); };
  for (int again = 0; again < 3; ++again) prepare({16, 1, 1}, 64);
  prepare({limits.threads_per_block, 1, 1}, static_cast<std::uint32_t>(limits.shared_memory_per_block));
  const auto code = [&](const auto& call) { return error_of(call).code(); };
  CHECK(code([&] { prepare({0, 1, 1}, 64); }) == ErrorCode::invalid_launch);
  CHECK(code([&] { prepare({limits.threads_per_block + 1, 1, 1}, 64); }) == ErrorCode::invalid_launch);
  CHECK(code([&] { prepare({16, 1, 1}, static_cast<std::uint32_t>(limits.shared_memory_per_block + 1)); }) ==
        ErrorCode::invalid_launch);
  CHECK(wrong_rotations(device, 2, 16, 3) == 0);
}

TEST_CASE("dynamic shared memory beyond 48 KiB needs no more than the device has", "[device][launch]") {
  const TestDevice device;
  constexpr std::uint32_t without_asking = 48 << 10;  // what an NVIDIA GPU gives to any launch
  const auto limit = static_cast<std::uint32_t>(device.gpu->info().limits.shared_memory_per_block);
  if (limit <= without_asking) SKIP("a block has at most " << limit << " bytes of shared memory on this device");
  const OwnedStream stream(device.gpu);
  constexpr std::uint32_t blocks = 3, threads = 64, rounds = 7;
  const Buffer out(device.gpu, std::uint64_t{blocks} * threads * 4);
  for (const bool prepared : {true, false}) {
    // Another copy of the kernels each time, so that a launch finds them as they were loaded.
    const auto set = device.gpu->load(TestKernels::of(device.gpu->info().backend).make());
    const KernelHandle rotate = set->get("rotate");
    const std::uint32_t room = limit - device.gpu->kernel_info(rotate).static_shared_bytes;
    const auto launch = [&](std::uint32_t bytes) {
      KernelLaunch(*device.gpu, rotate)
          .args(kernels::RotateArgs{.out = out.get(), .blocks = blocks, .threads = threads, .rounds = rounds})
          .shared_mem(bytes)
          .launch(stream.get());
    };
    for (const std::uint32_t bytes :
         {without_asking, without_asking + 1, without_asking + 16, room / 2 + 1, room - 1, room, without_asking + 1}) {
      if (bytes > room) continue;
      INFO(bytes << " of " << room << " bytes" << (prepared ? ", prepared" : ""));
      if (prepared) device.gpu->prepare(rotate, {threads, 1, 1}, bytes);
      device.gpu->fill(out.get(), 0xffffffffU, 4, out.bytes() / 4, stream.get());
      launch(bytes);
      device.gpu->synchronize(stream.get());
      CHECK(count_wrong_rotations(device.download(out), threads, rounds) == 0);
    }
    CHECK(error_of([&] { launch(room + 1); }).code() == ErrorCode::invalid_launch);
    CHECK(error_of([&] { device.gpu->prepare(rotate, {threads, 1, 1}, room + 1); }).code() ==
          ErrorCode::invalid_launch);
  }
  CHECK(device.canary());
}

TEST_CASE("blocks are launched in clusters where a device has them", "[device][launch]") {
  const TestDevice device;
  const OwnedStream stream(device.gpu);
  const Buffer data = device.upload(std::vector<std::uint32_t>(512, 5));
  const auto launch = [&](Dim3 cluster) {
    KernelLaunch(*device.gpu, device["affine"])
        .args(kernels::AffineArgs{.data = data.get(), .count = 512, .factor = 3, .term = 2})
        .attributes({.cluster = cluster})
        .launch(stream.get());
  };
  const auto code = [&](Dim3 cluster) { return error_of([&] { launch(cluster); }).code(); };
  launch({1, 1, 1});
  std::uint32_t expected = 17;
  if (has_feature(device, "cluster_launch")) {
    for (const std::uint32_t size : {2U, 4U, 8U, 2U}) {
      launch({size, 1, 1});
      expected = expected * 3 + 2;
    }
    CHECK(code({3, 1, 1}) == ErrorCode::invalid_launch);
    CHECK(code({0, 1, 1}) == ErrorCode::invalid_launch);
    CHECK(code({1, 2, 1}) == ErrorCode::invalid_launch);
    device.gpu->begin_capture(stream.get());
    launch({2, 1, 1});
    const OwnedGraph graph(device.gpu, device.gpu->end_capture(stream.get()));
    for (int replay = 0; replay < 2; ++replay) {
      device.gpu->launch_graph(graph.get(), stream.get());
      expected = expected * 3 + 2;
    }
    device.gpu->synchronize(stream.get());
  } else {
    for (const Dim3 cluster : {Dim3{2, 1, 1}, Dim3{3, 1, 1}}) CHECK(code(cluster) == ErrorCode::unsupported);
  }
  device.gpu->synchronize(stream.get());
  CHECK(device.download(data) == std::vector<std::uint32_t>(512, expected));
  CHECK(device.canary());
}

TEST_CASE("a dependent launch may overlap the one before where a device has that", "[device][launch]") {
  const TestDevice device;
  const OwnedStream stream(device.gpu);
  // The kernels do not say when those that depend on them may read what they write, so each pair has buffers of its own.
  const Buffer first = device.upload(std::vector<std::uint32_t>(512, 1));
  const Buffer second = device.upload(std::vector<std::uint32_t>(512, 1));
  const auto launch_dependent = [&](const Buffer& data) {
    KernelLaunch(*device.gpu, device["affine"])
        .args(kernels::AffineArgs{.data = data.get(), .count = 512, .factor = 5, .term = 3})
        .attributes({.dependent = true})
        .launch(stream.get());
  };
  std::uint32_t expected = 1;
  if (has_feature(device, "dependent_launch")) {
    for (int i = 0; i < 1000; ++i) {
      device.affine(first, 5, 3, stream.get());
      launch_dependent(second);
      expected = expected * 5 + 3;
    }
  } else {
    CHECK(error_of([&] { launch_dependent(second); }).code() == ErrorCode::unsupported);
  }
  device.gpu->synchronize(stream.get());
  CHECK(device.download(first) == std::vector<std::uint32_t>(512, expected));
  CHECK(device.download(second) == std::vector<std::uint32_t>(512, expected));
  CHECK(device.canary());
}

TEST_CASE("a kernel outlives no set and a set no work", "[device][launch]") {
  TestDevice device;
  const OwnedStream stream(device.gpu);
  const Buffer data = device.upload(std::vector<std::uint32_t>(16, 1));
  const KernelHandle affine = device["affine"];
  device.spin(stream.get(), 20);
  device.affine(data, 3, 4, stream.get());
  device.kernels.reset();  // waits
  CHECK(device.download(data) == std::vector<std::uint32_t>(16, 7));
  CHECK(error_of([&] {
          KernelLaunch(*device.gpu, affine).arg(data.get()).arg(16U).arg(1U).arg(1U).launch(stream.get());
        }).code() == ErrorCode::invalid_handle);
  device.kernels = device.gpu->load(TestKernels::of(device.gpu->info().backend).make());
  CHECK(device.canary());
}

TEST_CASE("a set is loaded and unloaded many times", "[device][launch]") {
  const TestDevice device;
  const auto set = TestKernels::of(device.gpu->info().backend).make();
  const OwnedStream stream(device.gpu);
  const Buffer count = device.upload(std::vector<std::uint32_t>(1, 0));
  const std::uint32_t times = device.shares_host_memory() ? 20 : 1000;
  const auto use = [&] {
    const auto loaded = device.gpu->load(set);
    KernelLaunch(*device.gpu, loaded->get("visit")).arg(count.get()).arg(1U).grid(1).block(1).launch(stream.get());
  };
  for (std::uint32_t i = 0; i < times / 2; ++i) use();
  const std::uint64_t free = device.gpu->memory_info().free;
  for (std::uint32_t i = 0; i < times / 2; ++i) use();
  CHECK(device.download(count) == std::vector<std::uint32_t>(1, times));
  // Nothing of the device's stays behind; the host's memory is everyone's.
  if (!device.shares_host_memory()) CHECK(device.gpu->memory_info().free + (std::uint64_t{16} << 20) > free);
}

TEST_CASE("eight threads load a set at once and one copy knows nothing of another", "[device][launch][tsan]") {
  const TestDevice device;
  const auto set = TestKernels::of(device.gpu->info().backend).make();
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < 8; ++t) {
    threads.emplace_back([&device, &set, &right, t] {
      auto first = device.gpu->load(set);
      const auto second = device.gpu->load(set);
      const OwnedStream stream(device.gpu);
      const Buffer data = device.upload(std::vector<std::uint32_t>(16, t));
      const auto launch = [&](const LoadedSet& loaded) {
        KernelLaunch(*device.gpu, loaded.get("affine"))
            .args(kernels::AffineArgs{.data = data.get(), .count = 16, .factor = 3, .term = 1})
            .launch(stream.get());
      };
      launch(*first);
      first.reset();
      launch(*second);
      device.gpu->synchronize(stream.get());
      if (device.download(data) == std::vector<std::uint32_t>(16, t * 9 + 4)) ++right;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(right == 8);
}

}  // namespace kdart::test
