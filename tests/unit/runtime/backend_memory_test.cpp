#include <array>
#include <catch2/catch_test_macros.hpp>
#include <limits>
#include <string>
#include <vector>

#include "kdart/backend.h"
#include "tests/support/expect_error.h"
#include "tests/support/fake_backend.h"

namespace kdart::test {
namespace {

constexpr std::uint64_t huge = std::numeric_limits<std::uint64_t>::max();

// An address as messages have it.
std::string hex(DevicePtr memory) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "0x%llx", static_cast<unsigned long long>(memory.address()));
  return text.data();
}

TEST_CASE("zero bytes are null, and null is freed without a word", "[runtime][memory]") {
  const auto gpu = FakeBackend::open();
  const Stream stream = gpu->create_stream();
  CHECK(gpu->alloc(0) == DevicePtr{});
  CHECK(gpu->alloc_async(0, stream) == DevicePtr{});
  CHECK(gpu->alloc_pinned(0) == nullptr);
  gpu->free({});
  gpu->free_async({}, stream);
  gpu->free_pinned(nullptr);
  gpu->release_import({});
  for (const char* function : {"alloc", "alloc_async", "alloc_pinned", "free", "free_async", "free_pinned"}) {
    CHECK(gpu->calls(function) == 0);
  }
}

TEST_CASE("live bytes follow allocations of both kinds", "[runtime][memory]") {
  const auto gpu = FakeBackend::open();
  const Stream stream = gpu->create_stream();
  const DevicePtr a = gpu->alloc(100);
  const DevicePtr b = gpu->alloc_async(28, stream);
  CHECK(gpu->memory_info().live == 128);
  gpu->free(a);
  CHECK(gpu->memory_info().live == 28);
  gpu->free_async(b, stream);
  CHECK(gpu->memory_info().live == 0);
}

TEST_CASE("memory_limit holds to the byte, and what fits after a refusal is given", "[runtime][memory]") {
  const auto gpu = FakeBackend::open({.memory_limit = 1000});
  const Stream stream = gpu->create_stream();
  const DevicePtr a = gpu->alloc(600);
  expect_error(ErrorCode::out_of_device_memory, {"401", "1000", "600"}, [&] { static_cast<void>(gpu->alloc(401)); });
  expect_error(ErrorCode::out_of_device_memory, {"401", "1000", "600"},
               [&] { static_cast<void>(gpu->alloc_async(401, stream)); });
  CHECK(gpu->calls("alloc_async") == 0);
  const DevicePtr b = gpu->alloc(400);
  expect_error(ErrorCode::out_of_device_memory, {"1000"}, [&] { static_cast<void>(gpu->alloc(1)); });
  const MemoryInfo full = gpu->memory_info();
  CHECK(full.total == 1000);
  CHECK(full.free == 0);
  CHECK(full.live == 1000);
  gpu->free(a);
  gpu->free(b);
  const DevicePtr c = gpu->alloc(1000);
  gpu->free(c);
  CHECK(gpu->memory_info().free == 1000);
}

TEST_CASE("sizes beyond the device are refused before the driver is asked", "[runtime][memory]") {
  const auto gpu = FakeBackend::open();
  const std::uint64_t limit = gpu->info().limits.allocation;
  for (const std::uint64_t bytes : {limit + 1, huge - 255, huge}) {
    expect_error(ErrorCode::out_of_device_memory, {std::to_string(bytes), std::to_string(limit)},
                 [&] { static_cast<void>(gpu->alloc(bytes)); });
  }
  CHECK(gpu->calls("alloc") == 0);
  CHECK(gpu->memory_info().live == 0);
}

TEST_CASE("the driver's own out-of-memory keeps its code and says what was asked for", "[runtime][memory]") {
  const auto gpu = FakeBackend::open();
  const DevicePtr kept = gpu->alloc(64);
  gpu->fail_call("alloc", Error(ErrorCode::out_of_device_memory, "no room", -2, "ERROR_OUT_OF_DEVICE_MEMORY"));
  try {
    static_cast<void>(gpu->alloc(4096));
    FAIL("alloc did not throw");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::out_of_device_memory);
    CHECK(error.native_code() == -2);
    CHECK(error.native_text() == "ERROR_OUT_OF_DEVICE_MEMORY");
    const std::string message = error.what();
    for (const char* word : {"4096", "64", "no room"}) CHECK(message.find(word) != std::string::npos);
  }
  CHECK(gpu->memory_info().live == 64);
  gpu->free(kept);
}

TEST_CASE("what alloc did not give, or took back, is not freed", "[runtime][memory]") {
  const auto gpu = FakeBackend::open();
  const auto other = FakeBackend::open();
  const Stream stream = gpu->create_stream();
  const DevicePtr memory = gpu->alloc(256);
  const DevicePtr foreign = other->alloc(256);
  const auto refused = [&](DevicePtr address, std::initializer_list<std::string_view> words) {
    expect_error(ErrorCode::invalid_handle, words, [&] { gpu->free(address); });
    expect_error(ErrorCode::invalid_handle, words, [&] { gpu->free_async(address, stream); });
  };
  refused(memory.offset(16), {hex(memory.offset(16)), "16 bytes inside", hex(memory)});
  refused(foreign, {hex(foreign), "foreign"});
  refused(DevicePtr(0x10), {"0x10"});
  gpu->free(memory);
  refused(memory, {hex(memory), "freed before"});
  CHECK(gpu->calls("free") == 1);
  CHECK(gpu->calls("free_async") == 0);
}

TEST_CASE("an allocation that the driver cannot free is still there", "[runtime][memory]") {
  const auto gpu = FakeBackend::open();
  const DevicePtr memory = gpu->alloc(256);
  gpu->fail_call("free", Error(ErrorCode::driver_error, "busy"));
  expect_error(ErrorCode::driver_error, {"busy"}, [&] { gpu->free(memory); });
  CHECK(gpu->memory_info().live == 256);
  CHECK(gpu->contains(memory, 256));
  gpu->free(memory);
  CHECK(gpu->memory_info().live == 0);
}

TEST_CASE("contains says what copies accept", "[runtime][memory]") {
  const auto gpu = FakeBackend::open();
  const DevicePtr memory = gpu->alloc(100);
  CHECK(gpu->contains(memory, 100));
  CHECK(gpu->contains(memory.offset(99), 1));
  CHECK_FALSE(gpu->contains(memory, 101));
  CHECK_FALSE(gpu->contains(memory.offset(100), 1));
  CHECK_FALSE(gpu->contains(memory, huge));
  CHECK_FALSE(gpu->contains({}, 1));
  CHECK(gpu->contains({}, 0));
  gpu->free(memory);
  CHECK_FALSE(gpu->contains(memory, 1));
}

TEST_CASE("imported memory is known, not counted, and not freed", "[runtime][memory]") {
  const auto gpu = FakeBackend::open({.memory_limit = 64});
  std::vector<char> mine(4096, 'x');
  const std::uint64_t native = reinterpret_cast<std::uintptr_t>(mine.data());
  const DevicePtr imported = gpu->import_memory(native, mine.size());
  CHECK(gpu->memory_info().live == 0);
  std::string text(4, ' ');
  gpu->copy_d2h(text.data(), imported.offset(4092), 4);
  CHECK(text == "xxxx");
  expect_error(ErrorCode::invalid_handle, {"release_import"}, [&] { gpu->free(imported); });
  expect_error(ErrorCode::invalid_handle, {}, [&] { gpu->release_import(imported.offset(1)); });
  gpu->release_import(imported);
  expect_error(ErrorCode::invalid_handle, {"released before"}, [&] { gpu->release_import(imported); });
  expect_error(ErrorCode::invalid_argument, {"no live allocation"}, [&] { gpu->copy_d2h(text.data(), imported, 4); });
  CHECK(gpu->calls("release_import") == 1);
  CHECK(gpu->calls("free") == 0);
}

TEST_CASE("an import that is no memory, or overlaps what is known, is refused", "[runtime][memory]") {
  const auto gpu = FakeBackend::open();
  const DevicePtr memory = gpu->alloc(256);
  expect_error(ErrorCode::invalid_argument, {"0x0"}, [&] { static_cast<void>(gpu->import_memory(0, 16)); });
  expect_error(ErrorCode::invalid_argument, {"0 bytes"}, [&] { static_cast<void>(gpu->import_memory(4096, 0)); });
  expect_error(ErrorCode::invalid_argument, {"address space"},
               [&] { static_cast<void>(gpu->import_memory(huge - 15, 32)); });
  CHECK(gpu->calls("import_memory") == 0);
  expect_error(ErrorCode::invalid_argument, {"overlap", "allocation", hex(memory)},
               [&] { static_cast<void>(gpu->import_memory(memory.address() + 128, 256)); });
  CHECK(gpu->calls("import_memory") == gpu->calls("release_import"));
  gpu->free(memory);
  expect_error(ErrorCode::invalid_handle, {}, [&] { gpu->release_import(memory); });
}

TEST_CASE("page-locked memory is told apart from other host memory", "[runtime][memory]") {
  const auto gpu = FakeBackend::open();
  const Stream stream = gpu->create_stream();
  const DevicePtr memory = gpu->alloc(64);
  auto* pinned = static_cast<char*>(gpu->alloc_pinned(64));
  std::array<char, 64> plain{};
  gpu->copy_h2d_async(memory, pinned, 64, stream);
  CHECK(gpu->last_pinned() == true);
  gpu->copy_h2d_async(memory, plain.data(), 64, stream);
  CHECK(gpu->last_pinned() == false);
  gpu->copy_d2h_async(pinned + 60, memory, 4, stream);
  CHECK(gpu->last_pinned() == true);
  gpu->copy_d2h_async(plain.data(), memory, 64, stream);
  CHECK(gpu->last_pinned() == false);
  expect_error(ErrorCode::invalid_handle, {}, [&] { gpu->free_pinned(pinned + 1); });
  expect_error(ErrorCode::invalid_handle, {}, [&] { gpu->free_pinned(plain.data()); });
  gpu->free_pinned(pinned);
  expect_error(ErrorCode::invalid_handle, {"freed before"}, [&] { gpu->free_pinned(pinned); });
  CHECK(gpu->calls("free_pinned") == 1);
}

TEST_CASE("page-locked memory that there is not is out_of_host_memory", "[runtime][memory]") {
  const auto gpu = FakeBackend::open();
  expect_error(ErrorCode::out_of_host_memory, {std::to_string(huge)},
               [&] { static_cast<void>(gpu->alloc_pinned(huge)); });
}

TEST_CASE("the end of a backend releases everything that was left", "[runtime][memory][lifetime]") {
  const int before = FakeBackend::live_objects();
  std::vector<char> mine(64);
  {
    const auto gpu = FakeBackend::open();
    const Stream stream = gpu->create_stream();
    static_cast<void>(gpu->alloc(16));
    static_cast<void>(gpu->alloc_async(16, stream));
    static_cast<void>(gpu->alloc_pinned(16));
    static_cast<void>(gpu->import_memory(reinterpret_cast<std::uintptr_t>(mine.data()), mine.size()));
    static_cast<void>(gpu->create_event());
    gpu->begin_capture(stream);
    static_cast<void>(gpu->end_capture(stream));
    const Stream captured = gpu->create_stream();
    gpu->begin_capture(captured);
    CHECK(FakeBackend::live_objects() == before + 8);
  }
  CHECK(FakeBackend::live_objects() == before);
}

TEST_CASE("one failure at the end of a backend does not keep the rest", "[runtime][memory][lifetime]") {
  const int before = FakeBackend::live_objects();
  {
    const auto gpu = FakeBackend::open();
    static_cast<void>(gpu->create_stream());
    static_cast<void>(gpu->create_event());
    static_cast<void>(gpu->alloc(16));
    static_cast<void>(gpu->alloc(16));
    gpu->fail_call("synchronize", Error(ErrorCode::device_lost, "gone"));
    gpu->fail_call("destroy_event", Error(ErrorCode::driver_error, "gone"));
    gpu->fail_call("free", Error(ErrorCode::device_lost, "gone"));
  }
  CHECK(FakeBackend::live_objects() == before + 2);  // the event and one allocation, which the driver would not give up
}

}  // namespace
}  // namespace kdart::test
