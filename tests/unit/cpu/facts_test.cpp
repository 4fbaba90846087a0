#include "backends/cpu/facts.h"

#include <catch2/catch_test_macros.hpp>

#include "kdart/registry.h"
#include "tests/unit/cpu/test_device.h"

namespace kdart::cpu {
namespace {

// All the bits that x86-64-v4 asks for, and no other.
CpuSnapshot v4_machine() {
  CpuSnapshot snapshot;
  snapshot.vendor = "GenuineIntel";
  snapshot.brand = "Some CPU";
  snapshot.leaf1_ecx = 0x38d83201U;  // sse3 ssse3 fma cx16 sse4.1 sse4.2 movbe popcnt osxsave avx f16c
  snapshot.leaf7_ebx = 0xd0030128U;  // bmi1 avx2 bmi2 avx512f dq cd bw vl
  snapshot.extended1_ecx = 0x21U;    // lahf lzcnt
  snapshot.xcr0 = 0xe6U;             // xmm ymm opmask zmm
  snapshot.total_memory = std::uint64_t{8} << 30;
  snapshot.cores = 4;
  return snapshot;
}

}  // namespace

TEST_CASE("the x86-64 level follows from the processor's flags", "[cpu][facts]") {
  CHECK(x86_level(v4_machine()) == "x86-64-v4");
  CHECK(x86_level(CpuSnapshot{}) == "x86-64");

  // Each single flag that is missing takes the machine below the level that asks for it.
  const auto without = [](auto field, std::uint64_t bits) {
    CpuSnapshot snapshot = v4_machine();
    auto& value = snapshot.*field;
    REQUIRE((value & bits) == bits);
    value &= static_cast<std::remove_reference_t<decltype(value)>>(~bits);
    return std::string(x86_level(snapshot));
  };
  for (const int bit : {0, 9, 13, 19, 20, 23}) {
    CHECK(without(&CpuSnapshot::leaf1_ecx, std::uint64_t{1} << bit) == "x86-64");
  }
  CHECK(without(&CpuSnapshot::extended1_ecx, 1) == "x86-64");
  for (const int bit : {12, 22, 27, 28, 29}) {
    CHECK(without(&CpuSnapshot::leaf1_ecx, std::uint64_t{1} << bit) == "x86-64-v2");
  }
  for (const int bit : {3, 5, 8}) CHECK(without(&CpuSnapshot::leaf7_ebx, std::uint64_t{1} << bit) == "x86-64-v2");
  CHECK(without(&CpuSnapshot::extended1_ecx, 1U << 5) == "x86-64-v2");
  for (const int bit : {16, 17, 28, 30, 31}) {
    CHECK(without(&CpuSnapshot::leaf7_ebx, std::uint64_t{1} << bit) == "x86-64-v3");
  }
}

TEST_CASE("a level needs the system to save its registers", "[cpu][facts]") {
  CpuSnapshot snapshot = v4_machine();
  snapshot.xcr0 = 0x7;
  CHECK(x86_level(snapshot) == "x86-64-v3");
  snapshot.xcr0 = 0x3;
  CHECK(x86_level(snapshot) == "x86-64-v2");
}

TEST_CASE("levels have numbers", "[cpu][facts]") {
  CHECK(x86_level_number("x86-64") == 1);
  CHECK(x86_level_number("x86-64-v4") == 4);
  CHECK_FALSE(x86_level_number("x86-64-v5"));
  CHECK_FALSE(x86_level_number(""));
}

TEST_CASE("the device description is a function of snapshot and options", "[cpu][facts]") {
  const DeviceInfo info = describe_device(v4_machine(), {});
  CHECK(info.id == "cpu:0");
  CHECK(info.backend == "cpu");
  CHECK(info.name == "Some CPU");
  CHECK(info.type == DeviceType::cpu);
  CHECK(info.driver_library.empty());
  CHECK(info.limits.shared_memory_per_block == 65536);
  CHECK(info.limits.threads_per_block == 1024);
  CHECK(info.limits.grid == Dim3{2147483647U, 65535U, 65535U});
  CHECK(info.limits.allocation == std::uint64_t{8} << 30);
  CHECK(info.limits.subgroup_max == 1);
  CHECK(std::find(info.features.begin(), info.features.end(), "fault_isolation_none") != info.features.end());
  CHECK(std::is_sorted(info.features.begin(), info.features.end()));
}

#if defined(__x86_64__)
TEST_CASE("cpu_target takes any level the machine has", "[cpu][facts]") {
  CpuSnapshot v3 = v4_machine();
  v3.xcr0 = 0x7;
  OpenOptions options;
  options.cpu_target = "x86-64-v2";
  CHECK(describe_device(v3, options).target == "x86-64-v2");

  options.cpu_target = "x86-64-v4";
  const Error above = test::error_of([&] { static_cast<void>(describe_device(v3, options)); });
  CHECK(above.code() == ErrorCode::unsupported);
  CHECK(std::string(above.what()).find("x86-64-v3") != std::string::npos);

  options.cpu_target = "sparc";
  const Error unknown = test::error_of([&] { static_cast<void>(describe_device(v3, options)); });
  CHECK(unknown.code() == ErrorCode::invalid_argument);
}
#endif

TEST_CASE("this machine has one CPU device", "[cpu][facts][tsan]") {
  const auto gpu = open_device("cpu");
  CHECK(gpu->info().id == "cpu:0");
  CHECK_FALSE(gpu->info().name.empty());
  CHECK(gpu->info().total_memory > 0);
  CHECK(gpu->facts().target == gpu->info().target);

  const Error error = test::error_of([] { static_cast<void>(open_device("cpu:3")); });
  CHECK(error.code() == ErrorCode::no_device);
  CHECK(std::string(error.what()).find("cpu:3") != std::string::npos);
  CHECK(std::string(error.what()).find("1 device") != std::string::npos);
}

}  // namespace kdart::cpu
