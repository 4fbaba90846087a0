// What a device says of itself, and what is made of it.
#include "backends/cuda/facts.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <optional>

#include "kdart/registry.h"
#include "tests/fake_cuda_paths.h"
#include "tests/support/expect_error.h"
#include "tests/support/fake_cuda.h"

namespace kdart::test {
namespace {

using cuda::CudaSnapshot;
using cuda::describe_device;
using cuda::selection_facts;

CudaSnapshot h200() {
  CudaSnapshot snapshot;
  snapshot.index = 3;
  snapshot.name = "NVIDIA H200";
  snapshot.uuid = "00f1f2f3f4f5f6f7f8f9fafbfcfdfeff";
  snapshot.pci_address = "0000:a3:00.0";
  snapshot.total_memory = std::uint64_t{141} << 30;
  snapshot.cuda_version = 13000;
  snapshot.kernel_driver = "580.95.05";
  snapshot.library = "/usr/lib/libcuda.so.1";
  snapshot.major = 9;
  snapshot.threads_per_block = 1024;
  snapshot.block = {1024, 1024, 64};
  snapshot.grid = {2147483647, 65535, 65535};
  snapshot.shared_memory = 49152;
  snapshot.shared_memory_optin = 232448;
  snapshot.warp = 32;
  snapshot.multiprocessors = 132;
  snapshot.max_pitch = 2147483647;
  snapshot.pools = true;
  snapshot.launch_attributes = true;
  return snapshot;
}

// An environment variable for the time of a test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    value == nullptr ? unsetenv(name) : setenv(name, value, 1);
  }
  ~Variable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

bool has(const std::vector<std::string>& list, const char* entry) {
  return std::find(list.begin(), list.end(), entry) != list.end();
}

}  // namespace

TEST_CASE("cuda: a device is described as the driver has it", "[cuda][no-device]") {
  const Variable unset("CUDA_VISIBLE_DEVICES", nullptr);
  const DeviceInfo info = describe_device(h200());
  CHECK(info.id == "cuda:3");
  CHECK(info.backend == "cuda");
  CHECK(info.index == 3);
  CHECK(info.name == "NVIDIA H200");
  CHECK(info.vendor == "NVIDIA");
  CHECK(info.type == DeviceType::discrete);
  CHECK(info.uuid == "00f1f2f3f4f5f6f7f8f9fafbfcfdfeff");
  CHECK(info.pci_address == "0000:a3:00.0");
  CHECK(info.target == "sm_90");
  CHECK(info.driver_version == "CUDA 13.0 (driver 580.95.05)");
  CHECK(info.driver_library == "/usr/lib/libcuda.so.1");
  CHECK(info.total_memory == std::uint64_t{141} << 30);
  CHECK(info.limits.shared_memory_per_block == 232448);
  CHECK(info.limits.threads_per_block == 1024);
  CHECK(info.limits.block == Dim3{1024, 1024, 64});
  CHECK(info.limits.grid == Dim3{2147483647, 65535, 65535});
  CHECK(info.limits.subgroup_min == 32);
  CHECK(info.limits.subgroup_max == 32);
  CHECK(info.unusable.empty());
  CHECK(info.note.empty());
  CHECK(std::is_sorted(info.features.begin(), info.features.end()));
}

TEST_CASE("cuda: shared memory is what a block may have at most", "[cuda][no-device]") {
  CudaSnapshot snapshot = h200();
  snapshot.shared_memory_optin = 0;  // a driver that does not know of more
  CHECK(describe_device(snapshot).limits.shared_memory_per_block == 49152);
  snapshot.shared_memory_optin = 101376;
  CHECK(describe_device(snapshot).limits.shared_memory_per_block == 101376);
  CHECK(selection_facts(snapshot).shared_memory_per_block == 101376);
}

TEST_CASE("cuda: launch attributes are a feature where both GPU and driver have them", "[cuda][no-device]") {
  CudaSnapshot snapshot = h200();
  CHECK(has(describe_device(snapshot).features, "cluster_launch"));
  CHECK(has(describe_device(snapshot).features, "dependent_launch"));
  snapshot.launch_attributes = false;
  CHECK(!has(describe_device(snapshot).features, "cluster_launch"));
  CHECK(!has(describe_device(snapshot).features, "dependent_launch"));
  snapshot = h200();
  snapshot.major = 8;
  CHECK(!has(describe_device(snapshot).features, "cluster_launch"));
}

TEST_CASE("cuda: targets are spelled as images spell them", "[cuda][no-device]") {
  CudaSnapshot snapshot = h200();
  const struct {
    int major, minor;
    const char* target;
  } targets[] = {{7, 5, "sm_75"}, {8, 6, "sm_86"}, {8, 9, "sm_89"}, {10, 3, "sm_103"}, {12, 1, "sm_121"}};
  for (const auto& entry : targets) {
    snapshot.major = entry.major;
    snapshot.minor = entry.minor;
    CHECK(describe_device(snapshot).target == entry.target);
    CHECK(selection_facts(snapshot).target == entry.target);
  }
}

TEST_CASE("cuda: the driver's version says which PTX it takes", "[cuda][no-device]") {
  CudaSnapshot snapshot = h200();
  const struct {
    int cuda;
    std::uint32_t isa;
  } versions[] = {{11040, 74}, {11080, 78}, {12000, 80}, {12040, 84}, {12090, 88}, {13000, 90}};
  for (const auto& version : versions) {
    snapshot.cuda_version = version.cuda;
    CHECK(selection_facts(snapshot).ptx_isa == version.isa);
  }
  CHECK(selection_facts(snapshot).backend == "cuda");
  CHECK(selection_facts(snapshot).threads_per_block == 1024);
  CHECK(selection_facts(snapshot).driver_version == describe_device(snapshot).driver_version);
}

TEST_CASE("cuda: a listing says which devices the environment leaves visible", "[cuda][no-device]") {
  {
    const Variable set("CUDA_VISIBLE_DEVICES", "0,1");
    CHECK(describe_device(h200()).note == "CUDA_VISIBLE_DEVICES is '0,1'");
    CHECK(selection_facts(h200()).driver_version.find("VISIBLE") == std::string::npos);
    const FakeCuda fake;
    expect_error(ErrorCode::no_device, {"cuda:4", "CUDA_VISIBLE_DEVICES is '0,1'"},
                 [&] { static_cast<void>(open_device("cuda:4", fake.options())); });
  }
  const Variable empty("CUDA_VISIBLE_DEVICES", "");
  CHECK(describe_device(h200()).note == "CUDA_VISIBLE_DEVICES is ''");
}

TEST_CASE("cuda: a device whose compute mode forbids contexts is listed and not opened", "[cuda][no-device]") {
  const FakeCuda fake;
  fake->set_attribute(0, cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, cuda::CU_COMPUTEMODE_PROHIBITED);
  const auto snapshot = cuda::read_snapshot(*cuda::Library::open(fake.options()), 0);
  CHECK(describe_device(snapshot).unusable.find("prohibited") != std::string::npos);
  expect_error(ErrorCode::unsupported, {"cuda:0", "NVIDIA H200", "prohibited"},
               [&] { static_cast<void>(fake.open()); });
  CHECK(fake.calls("cuDevicePrimaryCtxRetain") == 0);
}

TEST_CASE("cuda: a snapshot holds what the driver answers", "[cuda][no-device]") {
  const FakeCuda fake;
  fake->set_device_count(2);
  fake->set_total_memory(1, 80 * (std::size_t{1} << 30));
  fake->set_attribute(1, cuda::CU_DEVICE_ATTRIBUTE_INTEGRATED, 1);
  fake->set_attribute(1, cuda::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, 1);
  const auto library = cuda::Library::open(fake.options());
  CHECK(cuda::device_count(*library) == 2);
  const CudaSnapshot first = cuda::read_snapshot(*library, 0);
  CHECK(first.index == 0);
  CHECK(first.uuid == "00f1f2f3f4f5f6f7f8f9fafbfcfdfeff");
  CHECK(first.pci_address == "0000:a0:00.0");  // lower case
  CHECK(first.major == 9);
  CHECK(first.minor == 0);
  CHECK(first.shared_memory == 49152);
  CHECK(first.shared_memory_optin == 232448);
  CHECK(first.block == Dim3{1024, 1024, 64});
  CHECK(first.grid == Dim3{2147483647, 65535, 65535});
  CHECK(first.warp == 32);
  CHECK(first.multiprocessors == 132);
  CHECK(first.library == fake_cuda_paths::full);
  CHECK(first.pools);
  CHECK(first.launch_attributes);
  CHECK(!first.integrated);
  CHECK(!first.host_page_tables);
  CHECK(!first.prohibited);
  const CudaSnapshot second = cuda::read_snapshot(*library, 1);
  CHECK(second.index == 1);
  CHECK(second.total_memory == std::uint64_t{80} << 30);
  CHECK(second.integrated);
  CHECK(second.host_page_tables);
  CHECK(describe_device(second).type == DeviceType::integrated);
}

TEST_CASE("cuda: attributes that an older driver does not know are what the device has not", "[cuda][no-device]") {
  const FakeCuda fake;
  fake->forget_attribute(0, cuda::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  fake->forget_attribute(0, cuda::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
  fake->forget_attribute(0, cuda::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES);
  const CudaSnapshot snapshot = cuda::read_snapshot(*cuda::Library::open(fake.options()), 0);
  CHECK(snapshot.shared_memory_optin == 0);
  CHECK(!snapshot.pools);
  CHECK(!snapshot.host_page_tables);
  fake->forget_attribute(0, cuda::CU_DEVICE_ATTRIBUTE_WARP_SIZE);  // every driver knows this one
  expect_error(ErrorCode::driver_error, {"attributes"},
               [&] { static_cast<void>(cuda::read_snapshot(*cuda::Library::open(fake.options()), 0)); });
}

}  // namespace kdart::test
