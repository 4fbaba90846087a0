// The calls that a device makes: in which device, with which image, with what arguments.
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstring>

#include "core/runtime/sha256.h"
#include "kdart/hip.h"
#include "kdart/owned.h"
#include "tests/support/error_of.h"
#include "tests/support/expect_error.h"
#include "tests/support/sample_set.h"
#include "tests/unit/common/walk.h"
#include "tests/unit/hip/fake_hip.h"

namespace kdart::test {
namespace {

// What a load of such bytes comes to; HIP must not have seen them.
Error refusal(const FakeHip& fake, Bytes image) {
  const auto gpu = fake.open();
  const auto set = FakeHip::set_of(std::move(image));
  const Error error = error_of([&] { static_cast<void>(gpu->load(set)); });
  CHECK(fake.calls("hipModuleLoadData") == 0);
  canary(fake, gpu);
  return error;
}

bool mentions(const Error& error, std::string_view text) {
  return std::string_view(error.what()).find(text) != std::string_view::npos;
}

Bytes with_flags(std::uint32_t flags) {
  Bytes image = FakeHip::code_object();
  std::memcpy(image.data() + offsetof(Elf64_Ehdr, e_flags), &flags, sizeof flags);
  return image;
}

}  // namespace

TEST_CASE("hip: every call leaves the thread's device as it was", "[hip][no-device]") {
  for (const int current : {0, 1}) {
    const FakeHip fake;
    fake.cuda()->set_device_count(2);
    fake->set_current(current);
    Walk walk(fake);  // on hip:0
    for (const Walk::Step& step : walk.steps()) {
      step.run();
      INFO(step.name);
      CHECK(fake->current() == current);
      CHECK(fake.place().depth == 0);
    }
    CHECK((fake.calls("hipSetDevice") > 0) == (current != 0));
    KDART_CHECK_CLEAN(fake);
  }
}

TEST_CASE("hip: a call that throws leaves the thread's device as it was, on any thread", "[hip][no-device]") {
  const FakeHip fake;
  fake.cuda()->set_device_count(2);
  {
    const auto gpu = fake.open(1);
    on_another_thread([&] {
      CHECK(fake->current() == 0);
      fake->fail("hipStreamCreateWithFlags", 1, 999, false);
      CHECK(error_of([&] { static_cast<void>(gpu->create_stream()); }).code() == ErrorCode::driver_error);
      CHECK(fake->current() == 0);
      canary(fake, gpu);
      CHECK(fake->current() == 0);
    });
  }
  KDART_CHECK_CLEAN(fake);
}

TEST_CASE("hip: an image for another GPU never reaches the runtime", "[hip][no-device]") {
  struct Other {
    std::uint32_t flags;
    std::string target, reason;
  };
  for (const Other& other :
       {Other{0x0E4C, "gfx942:sramecc+:xnack-", "it is for gfx942, and the device is gfx90a"},
        Other{0x0F3F, "gfx90a:sramecc+:xnack+", "it needs xnack on, which is off on the device"}}) {
    MadeCodeObject object;
    object.header.e_flags = other.flags;
    object.metadata["amdhsa.target"] = "amdgcn-amd-amdhsa--" + other.target;
    const FakeHip fake;
    const Error error = refusal(fake, object.make());
    CHECK(error.code() == ErrorCode::no_matching_image);
    CHECK(mentions(error, "image 'sample.co': " + other.reason));
  }
  // Its flags say one thing and its metadata another.
  const FakeHip fake;
  CHECK(refusal(fake, with_flags(0x0E4C)).code() == ErrorCode::invalid_image);
}

TEST_CASE("hip: what is no code object never reaches the runtime", "[hip][no-device]") {
  const Bytes whole = FakeHip::code_object();
  Bytes cut(whole.begin(), whole.begin() + 300);
  Bytes other = whole;
  other[offsetof(Elf64_Ehdr, e_machine)] = std::byte{62};
  for (const Bytes& image : {Bytes(1000), cut, other, bytes_of("__CLANG_OFFLOAD_BUNDLE__")}) {
    const FakeHip fake;
    CHECK(refusal(fake, image).code() == ErrorCode::invalid_image);
  }
}

TEST_CASE("hip: a bundle is taken apart, and its fitting code object is loaded", "[hip][no-device]") {
  const Bytes code = FakeHip::code_object();
  const std::string id = "hipv4-amdgcn-amd-amdhsa--gfx90a";
  Bytes bundle = bytes_of("__CLANG_OFFLOAD_BUNDLE__");
  append(bundle, std::uint64_t{1});
  append(bundle, std::uint64_t{4096});
  append(bundle, static_cast<std::uint64_t>(code.size()));
  append(bundle, static_cast<std::uint64_t>(id.size()));
  append(bundle, bytes_of(id));
  bundle.resize(4096);
  append(bundle, code);
  const FakeHip fake;
  {
    const auto gpu = fake.open();
    const auto set = gpu->load(FakeHip::set_of(bundle));
    CHECK(set->find("tagged"));
    CHECK(fake.calls("hipModuleLoadData") == 1);
  }
  KDART_CHECK_CLEAN(fake);
}

TEST_CASE("hip: an image whose arguments are not the contract's is refused", "[hip][no-device]") {
  const FakeHip fake;
  MadeCodeObject object;
  object.metadata["amdhsa.kernels"][0][".name"] = "kdart_scale";
  const Error error = error_of([&] {
    const auto gpu = fake.open();
    static_cast<void>(gpu->load(FakeHip::set_of(object.make())));
  });
  CHECK((error.code() == ErrorCode::corrupt_image || error.code() == ErrorCode::invalid_image ||
         error.code() == ErrorCode::no_matching_image));
  KDART_CHECK_CLEAN(fake);
}

TEST_CASE("hip: a launch hands over the contract's block as it is", "[hip][no-device]") {
  const FakeHip fake;
  {
    const auto gpu = fake.open();
    const Buffer x(gpu, 1024), y(gpu, 1024);
    const OwnedStream stream(gpu);
    const auto set = gpu->load(fake.set());
    launch_scale(*gpu, *set, x.get(), y.get(), stream.get());
    KernelLaunch(gpu, set->get("extra")).grid(3).block(32).launch(stream.get());
    gpu->synchronize(stream.get());
    const auto launches = fake.launches();
    REQUIRE(launches.size() == 2);
    CHECK(std::string(launches[0].kernel) == "kdart_scale");
    CHECK(launches[0].block[0] == 64);
    CHECK(launches[0].shared_bytes == 16);
    CHECK(launches[0].runs == 1);
    REQUIRE(launches[0].argument_bytes == 32);
    std::array<std::uint64_t, 2> pointers{};
    std::memcpy(pointers.data(), launches[0].arguments, sizeof pointers);
    CHECK(pointers[0] == x.get().address());
    CHECK(pointers[1] == y.get().address());
    CHECK(launches[1].grid[0] == 3);
    CHECK(launches[1].arguments == nullptr);
  }
  KDART_CHECK_CLEAN(fake);
}

TEST_CASE("hip: a fault is told with the kernel's name, and lasts", "[hip][no-device]") {
  const FakeHip fake;
  {
    const auto gpu = fake.open();
    const Buffer x(gpu, 1024), y(gpu, 1024);
    const OwnedStream stream(gpu);
    const auto set = gpu->load(fake.set());
    fake.cuda()->fault_at("kdart_scale", 700);
    launch_scale(*gpu, *set, x.get(), y.get(), stream.get());
    expect_error(ErrorCode::device_fault, {"kernel 'scale'", "hip:0", "hipErrorIllegalAddress"},
                 [&] { gpu->synchronize(stream.get()); });
    CHECK(error_of([&] { static_cast<void>(gpu->create_event()); }).code() == ErrorCode::device_fault);
  }
  KDART_CHECK_CLEAN(fake);
}

TEST_CASE("hip: a runtime without pools allocates all the same", "[hip][no-device]") {
  const FakeHip fake(FakeHip::Runtime::rocm5);
  {
    const auto gpu = fake.open();
    canary(fake, gpu);
    const OwnedStream stream(gpu);
    gpu->free_async(gpu->alloc_async(4096, stream.get()), stream.get());
    gpu->synchronize(stream.get());
    CHECK(fake.cuda().calls("cuMemAllocFromPoolAsync") == 0);
    CHECK(fake.calls("hipMalloc") == 3);
  }
  KDART_CHECK_CLEAN(fake);
}

TEST_CASE("hip: a stream of another device is not adopted", "[hip][no-device]") {
  const FakeHip fake;
  fake.cuda()->set_device_count(2);
  {
    const auto gpu = fake.open(0);
    const auto other = fake.open(1);
    const OwnedStream theirs(other);
    void* const native = other->service<HipInterop>()->native_stream(theirs.get());
    expect_error(ErrorCode::invalid_argument, {"adopt_stream", "none of hip:0"},
                 [&] { static_cast<void>(gpu->service<HipInterop>()->adopt_stream(native)); });
    other->destroy_stream(other->service<HipInterop>()->adopt_stream(native));
  }
  KDART_CHECK_CLEAN(fake);
}

}  // namespace kdart::test
