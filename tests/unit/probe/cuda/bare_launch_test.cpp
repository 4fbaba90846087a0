// The bench of launches on a driver that writes down who called it.
#include "bare_launch.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstring>

#include "commands.h"
#include "core/runtime/sha256.h"
#include "kdart/cuda.h"
#include "kdart/owned.h"
#include "tests/support/expect_error.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/sample_set.h"

namespace kdart::probe {
namespace {

using Catch::Matchers::ContainsSubstring;
using test::FakeCuda;

// The project's own kernels as PTX: the fake looks no further than at their names.
std::shared_ptr<const KernelSet> ptx_set() {
  constexpr std::string_view text =
      "//\n.version 7.4\n.target sm_70\n.address_size 64\n\n.visible .entry fill()\n{\n\tret;\n}\n";
  Manifest manifest = KernelSet::embedded(kernels::kda_contract(), "cpu")->manifest();
  manifest.backend = "cuda";
  manifest.images.resize(1);
  ManifestImage& image = manifest.images.front();
  image.file = "kda.ptx";
  image.target = "sm_70";
  image.format = ImageFormat::ptx;
  image.ptx_isa = 74;
  image.bytes = text.size();
  for (ImageKernel& kernel : image.kernels) kernel.symbol = "kdart_" + kernel.name;
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  image.sha256 = detail::sha256_hex(bytes);
  return std::make_shared<test::MemorySet>(kernels::kda_contract(), std::move(manifest),
                                           std::map<std::string, std::vector<std::byte>>{{"kda.ptx", bytes}});
}

TEST_CASE("the driver's own call launches the kernel with its stream and shape", "[probe][cuda][no-device]") {
  const FakeCuda fake;
  {
    const auto gpu = fake.open();
    const auto set = gpu->load(ptx_set());
    const OwnedStream stream(gpu);
    const Buffer memory(gpu, 4096);
    kernels::FillArgs args{};
    args.dst = memory.get();
    args.n = 1000;
    std::string reason;
    const auto bare = BareLaunch::find(*gpu, set->get("fill"), stream.get(), args, reason);
    REQUIRE(bare != nullptr);
    CHECK(reason.empty());
    CHECK_FALSE(bare->context_is_current());
    bare->push_context();
    CHECK(bare->context_is_current());
    CHECK(fake->current() == gpu->service<CudaInterop>()->native_context());
    const std::uint64_t before = fake.calls();
    bare->launch();
    CHECK(fake.calls_since(before) == std::vector<std::string>{"cuLaunchKernel"});
    bare->pop_context();
    CHECK(fake->depth() == 0);

    KernelLaunch(gpu, set->get("fill")).args(args).launch(stream.get());
    const auto launches = fake.launches();
    REQUIRE(launches.size() == 2);
    CHECK(std::string(launches[0].kernel) == launches[1].kernel);
    for (int i = 0; i < 3; ++i) {
      CHECK(launches[0].grid[i] == launches[1].grid[i]);
      CHECK(launches[0].block[i] == launches[1].block[i]);
    }
    CHECK(launches[0].shared_bytes == launches[1].shared_bytes);
    CHECK(launches[0].stream == launches[1].stream);

    fake->fail("cuLaunchKernel", 1, 719, false);
    bare->push_context();
    test::expect_error(ErrorCode::driver_error, {"cuLaunchKernel", "719"}, [&] { bare->launch(); });
    bare->pop_context();
    gpu->synchronize(stream.get());
  }
  KDART_CHECK_CLEAN(fake);
}

TEST_CASE("launches that do not run get no time and leave the thread's context as it was", "[probe][cuda][no-device]") {
  const FakeCuda fake;  // whose kernels write nothing
  {
    const auto gpu = fake.open();
    const LaunchBenchResult result = test::unmoved(
        fake, [&] { return run_bench_launch(gpu, ptx_set(), {.device = {}, .repeats = 3, .kernel_set = {}}); });
    REQUIRE(result.rows.size() == 2);
    CHECK(result.rows[0].context == ContextState::current);
    CHECK(result.rows[1].context == ContextState::none);
    for (const LaunchRow& row : result.rows) {
      REQUIRE(row.error);
      CHECK_THAT(row.error->message, ContainsSubstring("256 of 256 elements are not 1"));
      CHECK(row.kdart_us.empty());
    }
    CHECK(result.exit() == ExitCode::other);
  }
  KDART_CHECK_CLEAN(fake);
}

TEST_CASE("a context that is somebody else's is no place to measure the lack of one", "[probe][cuda][no-device]") {
  const FakeCuda fake;
  {
    const auto gpu = fake.open();
    void* other = fake->create_context(0);
    fake->push(other);
    const LaunchBenchResult result = test::unmoved(
        fake, [&] { return run_bench_launch(gpu, ptx_set(), {.device = {}, .repeats = 3, .kernel_set = {}}); });
    fake->pop();
    fake->destroy_context(other);
    for (const LaunchRow& row : result.rows) {
      REQUIRE(row.error);
      CHECK_THAT(row.error->message, ContainsSubstring("a context current"));
    }
  }
  KDART_CHECK_CLEAN(fake);
}

}  // namespace
}  // namespace kdart::probe
