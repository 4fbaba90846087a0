#include "kdart/launch.h"

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "kdart/backend.h"
#include "tests/support/expect_error.h"
#include "tests/support/fake_backend.h"
#include "tests/support/sample_set.h"

namespace kdart::test {
namespace {

constexpr std::uint32_t max32 = std::numeric_limits<std::uint32_t>::max();

struct Bench {
  std::shared_ptr<FakeBackend> gpu;
  std::shared_ptr<LoadedSet> set;
  Stream stream;
  DevicePtr memory;
  KernelHandle scale, tagged, extra;

  explicit Bench(std::shared_ptr<FakeBackend> backend = FakeBackend::open(), Manifest manifest = sample_manifest())
      : gpu(std::move(backend)),
        set(gpu->load(sample_set(std::move(manifest)))),
        stream(gpu->create_stream()),
        memory(gpu->alloc(1024)),
        scale(set->get("scale")),
        tagged(set->get("tagged")),
        extra(set->get("extra")) {}

  [[nodiscard]] ScaleArgs args() const {
    return {.x = memory, .y = memory.offset(512), .bias = {}, .n = 100, .a = 2.0F};
  }
  [[nodiscard]] KernelLaunch good() const { return KernelLaunch(*gpu, scale).args(args()); }
};

constexpr std::array<std::byte, 128> descriptor{};

// Kernel "tagged" with its arguments one by one, the first `count` of them.
KernelLaunch tagged(const Bench& bench, int count) {
  KernelLaunch launch(*bench.gpu, bench.tagged);
  launch.block(32);
  const std::array<std::function<void()>, 6> add{[&] { launch.arg(bench.memory); },
                                                 [&] { launch.arg(std::uint32_t{7}); },
                                                 [&] { launch.arg(std::int32_t{-7}); },
                                                 [&] { launch.arg(std::uint64_t{1} << 40); },
                                                 [&] { launch.arg(0.5F); },
                                                 [&] { launch.bytes(descriptor, 64); }};
  for (int i = 0; i < count; ++i) add[static_cast<std::size_t>(i)]();
  return launch;
}

TEST_CASE("a struct of arguments brings its shape, which later calls override", "[runtime][launch]") {
  const Bench bench;
  bench.good().launch(bench.stream);
  bench.good().grid(3, 4, 5).block(8, 2, 1).shared_mem(256).launch(bench.stream);
  const auto launches = bench.gpu->launches();
  REQUIRE(launches.size() == 2);
  CHECK(launches[0].kernel == "scale");
  CHECK(launches[0].record.grid == Dim3{2, 1, 1});
  CHECK(launches[0].record.block == Dim3{64, 1, 1});
  CHECK(launches[0].record.shared_bytes == 16);
  CHECK(launches[0].record.argument_bytes == 32);
  ScaleArgs arrived{};
  std::memcpy(&arrived, launches[0].record.arguments.data(), sizeof arrived);
  CHECK(arrived.x == bench.memory);
  CHECK(arrived.n == 100);
  CHECK(arrived.a == 2.0F);
  CHECK(launches[1].record.grid == Dim3{3, 4, 5});
  CHECK(launches[1].record.block == Dim3{8, 2, 1});
  CHECK(launches[1].record.shared_bytes == 256);
}

TEST_CASE("single arguments lie at their natural alignment, in order", "[runtime][launch]") {
  const Bench bench;
  const KernelLaunch launch = tagged(bench, 6);
  const LaunchRecord& record = launch.record();
  CHECK(record.argument_count == 6);
  CHECK(record.argument_bytes == 192);
  const std::array<std::uint16_t, 6> offsets{0, 8, 12, 16, 24, 64};
  for (std::size_t i = 0; i < offsets.size(); ++i) CHECK(record.slots[i].offset == offsets[i]);
  CHECK_NOTHROW(launch.launch(bench.stream));
}

template <class T>
concept Accepted = requires(KernelLaunch& launch, T x) { launch.arg(x); };

TEST_CASE("arg takes exactly five types", "[runtime][launch]") {
  STATIC_CHECK((Accepted<DevicePtr> && Accepted<std::uint32_t> && Accepted<std::int32_t> && Accepted<std::uint64_t> &&
                Accepted<float>));
  STATIC_CHECK_FALSE((Accepted<double> || Accepted<std::int64_t> || Accepted<bool> || Accepted<std::uint8_t> ||
                      Accepted<void*> || Accepted<Stream>));
}

TEST_CASE("a missing argument is named, and so is one too many", "[runtime][launch]") {
  const Bench bench;
  const std::array<std::string, 6> missing{"'p' (ptr)", "'u' (u32)", "'i' (i32)",
                                           "'w' (u64)", "'f' (f32)", "'map' (bytes)"};
  for (int given = 0; given < 6; ++given) {
    expect_error(ErrorCode::invalid_launch,
                 {"'tagged'", "6 arguments expected", std::to_string(given) + " given",
                  "first missing is " + missing[static_cast<std::size_t>(given)]},
                 [&] { tagged(bench, given).launch(bench.stream); });
  }
  expect_error(ErrorCode::invalid_launch, {"'tagged'", "6 arguments expected", "7 given", "number 7 (f32)"},
               [&] { tagged(bench, 6).arg(1.0F).launch(bench.stream); });
  expect_error(ErrorCode::invalid_launch, {"'extra'", "0 arguments expected, 1 given"},
               [&] { KernelLaunch(*bench.gpu, bench.extra).arg(1.0F).launch(bench.stream); });
  CHECK_NOTHROW(KernelLaunch(*bench.gpu, bench.extra).launch(bench.stream));
  CHECK(bench.gpu->calls("launch") == 1);
}

TEST_CASE("an argument of the wrong kind or size is named", "[runtime][launch]") {
  const Bench bench;
  const auto scale = [&] { return KernelLaunch(*bench.gpu, bench.scale).block(32); };
  expect_error(ErrorCode::invalid_launch, {"'scale'", "argument 2 'y'", "is ptr", "but u64"}, [&] {
    scale().arg(bench.memory).arg(std::uint64_t{16}).arg(DevicePtr{}).arg(1U).arg(1.0F).launch(bench.stream);
  });
  expect_error(ErrorCode::invalid_launch, {"argument 4 'n'", "is u32", "but i32"}, [&] {
    scale().arg(bench.memory).arg(bench.memory).arg(DevicePtr{}).arg(1).arg(1.0F).launch(bench.stream);
  });
  expect_error(ErrorCode::invalid_launch, {"argument 6 'map'", "128 bytes", "but bytes of 64"},
               [&] { tagged(bench, 5).bytes(std::span(descriptor).first(64), 64).launch(bench.stream); });
  expect_error(ErrorCode::invalid_launch, {"argument 6 'map'", "at offset 64", "at 32"},
               [&] { tagged(bench, 5).bytes(descriptor, 32).launch(bench.stream); });
  LaunchRecord record = bench.good().record();
  record.argument_bytes = 28;
  expect_error(ErrorCode::invalid_launch, {"28 bytes", "32 expected"},
               [&] { bench.gpu->launch(record, bench.stream); });
  CHECK(bench.gpu->calls("launch") == 0);
}

TEST_CASE("more than 32 arguments or 256 bytes are refused, whatever is added afterwards", "[runtime][launch]") {
  const Bench bench;
  KernelLaunch many(*bench.gpu, bench.tagged);
  for (int i = 0; i < 32; ++i) many.arg(1U);
  CHECK_FALSE(many.record().overflow);
  many.arg(1U);
  CHECK(many.record().overflow);
  expect_error(ErrorCode::invalid_launch, {"'tagged'", "32 arguments", "256 bytes"},
               [&] { many.launch(bench.stream); });

  const std::vector<std::byte> block(257);
  const auto first = [&](std::size_t bytes) { return std::span(block).first(bytes); };
  CHECK_FALSE(KernelLaunch(*bench.gpu, bench.tagged).bytes(first(256), 1).record().overflow);
  CHECK(KernelLaunch(*bench.gpu, bench.tagged).bytes(first(257), 1).record().overflow);
  CHECK(KernelLaunch(*bench.gpu, bench.tagged).arg(1U).bytes(first(192), 128).record().overflow);
  CHECK(KernelLaunch(*bench.gpu, bench.tagged).bytes(first(8), 3).record().overflow);  // no power of two
  CHECK(KernelLaunch(*bench.gpu, bench.tagged).bytes(first(8), 0).record().overflow);
  // A struct replaces what was given before, the overflow with it.
  CHECK_FALSE(many.args(bench.args()).record().overflow);
}

TEST_CASE("null and misaligned pointers are refused by name, nullable ones are not", "[runtime][launch]") {
  const Bench bench;
  ScaleArgs args = bench.args();
  args.y = {};
  expect_error(ErrorCode::invalid_launch, {"'scale'", "argument 2 'y'", "null"},
               [&] { KernelLaunch(*bench.gpu, bench.scale).args(args).launch(bench.stream); });
  args = bench.args();
  args.x = bench.memory.offset(8);
  expect_error(ErrorCode::invalid_launch, {"'scale'", "argument 1 'x'", "multiple of 16"},
               [&] { KernelLaunch(*bench.gpu, bench.scale).args(args).launch(bench.stream); });
  args = bench.args();
  args.bias = bench.memory.offset(4);  // nullable, and still aligned when given
  expect_error(ErrorCode::invalid_launch, {"'bias'", "multiple of 16"},
               [&] { KernelLaunch(*bench.gpu, bench.scale).args(args).launch(bench.stream); });
  args.bias = bench.memory.offset(16);
  CHECK_NOTHROW(KernelLaunch(*bench.gpu, bench.scale).args(args).launch(bench.stream));
  CHECK(bench.gpu->calls("launch") == 1);
}

TEST_CASE("a grid with a 0 passes every check and submits nothing", "[runtime][launch]") {
  const Bench bench;
  bench.good().grid(0).launch(bench.stream);
  bench.good().grid(1, 0).launch(bench.stream);
  bench.good().grid(1, 1, 0).launch(bench.stream);
  CHECK(bench.gpu->calls("launch") == 0);
  // It is checked like any other.
  expect_error(ErrorCode::invalid_launch, {"block.x is 0"},
               [&] { bench.good().grid(0).block(0).launch(bench.stream); });
  expect_error(ErrorCode::invalid_launch, {"grid.y"}, [&] { bench.good().grid(0, max32).launch(bench.stream); });
}

TEST_CASE("each dimension is compared with its own limit", "[runtime][launch]") {
  const Bench bench;
  const auto refuse = [&](Dim3 grid, Dim3 block, std::initializer_list<std::string_view> words) {
    expect_error(ErrorCode::invalid_launch, words, [&] {
      bench.good().grid(grid.x, grid.y, grid.z).block(block.x, block.y, block.z).launch(bench.stream);
    });
  };
  const auto accept = [&](Dim3 grid, Dim3 block) {
    CHECK_NOTHROW(bench.good().grid(grid.x, grid.y, grid.z).block(block.x, block.y, block.z).launch(bench.stream));
  };
  accept({65535, 1000, 1000}, {1024, 1, 1});
  accept({1, 1, 1}, {1, 512, 2});
  accept({1, 1, 1}, {1, 1, 64});
  refuse({65536, 1, 1}, {1, 1, 1}, {"'scale'", "grid.x is 65536", "65535", "fake:0"});
  refuse({1, 1001, 1}, {1, 1, 1}, {"grid.y is 1001", "1000"});
  refuse({1, 1, 1001}, {1, 1, 1}, {"grid.z is 1001", "1000"});
  refuse({1, 1, 1}, {0, 1, 1}, {"block.x is 0"});
  refuse({1, 1, 1}, {1, 0, 1}, {"block.y is 0"});
  refuse({1, 1, 1}, {1, 1, 0}, {"block.z is 0"});
  refuse({1, 1, 1}, {1025, 1, 1}, {"block.x is 1025", "1024"});
  refuse({1, 1, 1}, {1, 513, 1}, {"block.y is 513", "512"});
  refuse({1, 1, 1}, {1, 1, 65}, {"block.z is 65", "64"});
  refuse({1, 1, 1}, {1024, 2, 1}, {"1024 x 2 x 1 = 2048 threads", "1024"});
  refuse({1, 1, 1}, {1024, 512, 64}, {"33554432 threads"});
}

TEST_CASE("static and dynamic shared memory together may reach the limit, not pass it", "[runtime][launch]") {
  Manifest manifest = sample_manifest();
  manifest.images[0].kernels[0].static_shared_bytes = 1000;
  const Bench bench(FakeBackend::open(), manifest);
  CHECK_NOTHROW(bench.good().shared_mem(64536).launch(bench.stream));
  expect_error(ErrorCode::invalid_launch, {"'scale'", "65537 bytes", "1000 static", "64537 dynamic", "65536"},
               [&] { bench.good().shared_mem(64537).launch(bench.stream); });
  expect_error(ErrorCode::invalid_launch, {"4294968295 bytes"},
               [&] { bench.good().shared_mem(max32).launch(bench.stream); });
  CHECK(bench.gpu->calls("launch") == 1);
}

TEST_CASE("a kernel's own limits are the tightest of device, manifest and driver", "[runtime][launch]") {
  Manifest manifest = sample_manifest();
  manifest.images[0].kernels[0].max_threads = 256;
  manifest.images[0].kernels[0].min_threads = 32;
  manifest.images[0].kernels[0].tunables = {{"per_block", 4}};
  const auto gpu = FakeBackend::open();
  gpu->stated["tagged"] = {.max_threads = 128, .static_shared_bytes = 77, .arguments = {}};
  const Bench bench(gpu, manifest);
  CHECK(gpu->kernel_info(bench.scale).max_threads == 256);
  CHECK(gpu->kernel_info(bench.tagged).max_threads == 128);
  CHECK(gpu->kernel_info(bench.tagged).static_shared_bytes == 77);
  CHECK(gpu->kernel_info(bench.extra).max_threads == 1024);
  CHECK(bench.set->tunable("scale", "per_block", 9) == 4);
  CHECK(bench.set->tunable("scale", "other", 9) == 9);
  CHECK_NOTHROW(bench.good().block(256).launch(bench.stream));
  expect_error(ErrorCode::invalid_launch, {"257 threads", "256"},
               [&] { bench.good().block(257).launch(bench.stream); });
  expect_error(ErrorCode::invalid_launch, {"31 threads", "less than the 32"},
               [&] { bench.good().block(31).launch(bench.stream); });
}

TEST_CASE("prepare refuses what launch would", "[runtime][launch]") {
  const Bench bench;
  bench.gpu->prepare(bench.scale, {64, 1, 1}, 65536);
  CHECK(bench.gpu->calls("prepare") == 1);
  expect_error(ErrorCode::invalid_launch, {"'scale'", "65537"},
               [&] { bench.gpu->prepare(bench.scale, {64, 1, 1}, 65537); });
  expect_error(ErrorCode::invalid_launch, {"block.y is 0"}, [&] { bench.gpu->prepare(bench.scale, {64, 0, 1}, 0); });
  expect_error(ErrorCode::invalid_handle, {"prepare"}, [&] { bench.gpu->prepare({}, {64, 1, 1}, 0); });
  CHECK(bench.gpu->calls("prepare") == 1);
}

TEST_CASE("attributes need the device's feature", "[runtime][launch]") {
  const Bench plain;
  expect_error(ErrorCode::unsupported, {"'scale'", "cluster_launch", "fake:0"},
               [&] { plain.good().attributes({.cluster = {2, 1, 1}}).launch(plain.stream); });
  expect_error(ErrorCode::unsupported, {"dependent_launch"},
               [&] { plain.good().attributes({.dependent = true}).launch(plain.stream); });
  CHECK_NOTHROW(plain.good().attributes({}).launch(plain.stream));

  DeviceInfo info = fake_info();
  info.features = {"cluster_launch", "dependent_launch"};
  const Bench rich(FakeBackend::open({}, info));
  CHECK_NOTHROW(rich.good().attributes({.cluster = {2, 1, 1}, .dependent = true}).launch(rich.stream));
  expect_error(ErrorCode::invalid_launch, {"cluster.x is 2", "grid.x, 3"},
               [&] { rich.good().grid(3).attributes({.cluster = {2, 1, 1}}).launch(rich.stream); });
  expect_error(ErrorCode::invalid_launch, {"cluster.z is 0"},
               [&] { rich.good().attributes({.cluster = {1, 1, 0}}).launch(rich.stream); });
}

TEST_CASE("a kernel handle is refused when empty, foreign, or of a set that is gone", "[runtime][launch]") {
  Bench bench;
  const Bench other;
  LaunchRecord record = bench.good().record();
  record.kernel = {};
  expect_error(ErrorCode::invalid_handle, {"kernel", "empty"}, [&] { bench.gpu->launch(record, bench.stream); });
  record.kernel = other.scale;
  expect_error(ErrorCode::invalid_handle, {"kernel"}, [&] { bench.gpu->launch(record, bench.stream); });
  record.kernel = bench.scale;
  bench.set.reset();
  expect_error(ErrorCode::invalid_handle, {"kernel", "stale"}, [&] { bench.gpu->launch(record, bench.stream); });
  expect_error(ErrorCode::invalid_handle, {"kernel_info"},
               [&] { static_cast<void>(bench.gpu->kernel_info(record.kernel)); });
}

TEST_CASE("a launch is built from a shared_ptr as from a reference", "[runtime][launch]") {
  const Bench bench;
  const std::shared_ptr<GpuBackend> gpu = bench.gpu;
  KernelLaunch(gpu, bench.scale).args(bench.args()).launch(bench.stream);
  CHECK(bench.gpu->launches().size() == 1);
}

}  // namespace
}  // namespace kdart::test
