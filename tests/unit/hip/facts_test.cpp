// What a device says of itself, and what is made of it.
#include "backends/hip/facts.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "kdart/registry.h"
#include "tests/support/expect_error.h"
#include "tests/unit/hip/fake_hip.h"

namespace kdart::test {
namespace {

using hip::describe_device;
using hip::HipSnapshot;

HipSnapshot mi300() {
  HipSnapshot snapshot;
  snapshot.index = 2;
  snapshot.name = "AMD Instinct MI300X";
  snapshot.uuid = "8f9e1bd2c0a63744";
  snapshot.target = "gfx942:sramecc+:xnack-";
  snapshot.total_memory = std::uint64_t{192} << 30;
  snapshot.version = 60'342'131;
  snapshot.library = "/opt/rocm/lib/libamdhip64.so.6";
  snapshot.threads_per_block = 1024;
  snapshot.block = {1024, 1024, 1024};
  snapshot.grid = {2147483647, 65536, 65536};
  snapshot.shared_memory = 65536;
  snapshot.wave = 64;
  snapshot.pools = true;
  return snapshot;
}

}  // namespace

TEST_CASE("hip: a device is described as it is", "[hip][no-device]") {
  const DeviceInfo info = describe_device(mi300());
  CHECK(info.id == "hip:2");
  CHECK(info.vendor == "AMD");
  CHECK(info.target == "gfx942:sramecc+:xnack-");
  CHECK(info.driver_version == "HIP 6.3.42131");
  CHECK(info.limits.shared_memory_per_block == 65536);
  CHECK(info.limits.subgroup_min == 64);
  CHECK(info.limits.subgroup_max == 64);
  CHECK(info.features == std::vector<std::string>{"memory_pools"});
  CHECK(info.unusable.empty());
  const DeviceFacts facts = hip::selection_facts(mi300());
  CHECK(facts.backend == "hip");
  CHECK(facts.target == "gfx942:sramecc+:xnack-");
}

TEST_CASE("hip: no launch has more threads in a dimension than 32 bits count", "[hip][no-device]") {
  const Dim3 grid = describe_device(mi300()).limits.grid;
  CHECK(std::uint64_t{grid.x} * 1024 <= 0xFFFFFFFF);
  CHECK(grid.x == 4194303);
  CHECK(grid.y == 65536);
}

TEST_CASE("hip: a device without a target or that forbids programs cannot be used", "[hip][no-device]") {
  HipSnapshot snapshot = mi300();
  snapshot.prohibited = true;
  CHECK(describe_device(snapshot).unusable.find("prohibited") != std::string::npos);
  snapshot = mi300();
  snapshot.target.clear();
  CHECK(describe_device(snapshot).unusable.find("instruction set") != std::string::npos);
  const FakeHip fake(FakeHip::Runtime::full, "");
  expect_error(ErrorCode::unsupported, {"hip:0", "cannot be used"}, [&] { static_cast<void>(fake.open()); });
}

TEST_CASE("hip: the properties are read in the layout that the runtime has", "[hip][no-device]") {
  for (const auto runtime : {FakeHip::Runtime::full, FakeHip::Runtime::rocm5}) {
    const FakeHip fake(runtime, "gfx1100");
    const bool newer = runtime == FakeHip::Runtime::full;
    {
      const auto gpu = fake.open();
      CHECK(gpu->info().name == "NVIDIA H200");
      CHECK(gpu->info().target == "gfx1100");
      CHECK(gpu->info().limits.subgroup_min == 32);
      CHECK(gpu->info().uuid.empty() == !newer);
      CHECK(gpu->info().features.empty() == !newer);  // ROCm 5.0 has no pools
      CHECK(gpu->info().pci_address == "0000:a0:00.0");
    }
    CHECK(fake.calls("hipGetDevicePropertiesR0600") == (newer ? 1 : 0));
    CHECK(fake.calls("hipGetDeviceProperties") == (newer ? 0 : 1));
    KDART_CHECK_CLEAN(fake);
  }
}

TEST_CASE("hip: a runtime that is none of AMD's is called so", "[hip][no-device]") {
  const FakeHip fake;
  const auto gpu = fake.open();
  CHECK(gpu->info().vendor == "not AMD");
  CHECK(gpu->info().note.find("no AMD GPU: this HIP runtime is a test library of kdart") == 0);
}

}  // namespace kdart::test
