#include <array>
#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kdart/backend.h"
#include "tests/support/expect_error.h"
#include "tests/support/fake_backend.h"

namespace kdart::test {
namespace {

constexpr std::uint64_t huge = std::numeric_limits<std::uint64_t>::max();

TEST_CASE("copies and fills of no bytes ignore their pointers and submit nothing", "[runtime][copies]") {
  const auto gpu = FakeBackend::open();
  const Stream stream = gpu->create_stream();
  const DevicePtr nowhere(1);
  gpu->copy_h2d(nowhere, nullptr, 0);
  gpu->copy_d2h(nullptr, nowhere, 0);
  gpu->copy_d2d(nowhere, nowhere, 0);
  gpu->copy_h2d_async(nowhere, nullptr, 0, stream);
  gpu->copy_d2h_async(nullptr, nowhere, 0, stream);
  gpu->copy_d2d_async(nowhere, nowhere, 0, stream);
  gpu->copy_2d_d2d_async(nowhere, 0, nowhere, 0, 0, 5, stream);
  gpu->copy_2d_d2d_async(nowhere, 8, nowhere, 8, 5, 0, stream);
  gpu->fill(nowhere, 1, 4, 0, stream);
  for (const std::string& function : gpu->called()) CHECK(function == "create_stream");
  // The stream is looked at all the same.
  expect_error(ErrorCode::invalid_handle, {"stream"}, [&] { gpu->fill(nowhere, 1, 4, 0, {}); });
  expect_error(ErrorCode::invalid_argument, {"3"}, [&] { gpu->fill(nowhere, 1, 3, 0, stream); });
}

TEST_CASE("bytes arrive through every copy and fill", "[runtime][copies]") {
  const auto gpu = FakeBackend::open();
  const Stream stream = gpu->create_stream();
  const DevicePtr a = gpu->alloc(8);
  const DevicePtr b = gpu->alloc(8);
  std::string text = "abcdefgh";
  gpu->copy_h2d(a, text.data(), 8);
  gpu->copy_d2d(b, a.offset(4), 4);
  gpu->copy_d2d_async(b.offset(4), a, 4, stream);
  gpu->copy_d2h(text.data(), b, 8);
  CHECK(text == "efghabcd");
  gpu->copy_2d_d2d_async(a, 4, b, 3, 2, 2, stream);
  gpu->copy_d2h_async(text.data(), a, 8, stream);
  CHECK(text == "efcdhagh");
  text = "12345678";
  gpu->copy_h2d_async(a, text.data(), 8, stream);
  gpu->fill(a, 0x41, 1, 1, stream);
  gpu->fill(a.offset(2), 0x4342, 2, 1, stream);
  gpu->fill(a.offset(4), 0x47464544, 4, 1, stream);
  gpu->copy_d2h(text.data(), a, 8);
  CHECK(text == "A2BCDEFG");
}

TEST_CASE("every address of a copy or fill lies in one live allocation", "[runtime][copies]") {
  const auto gpu = FakeBackend::open();
  const Stream stream = gpu->create_stream();
  const DevicePtr good = gpu->alloc(64);
  const DevicePtr other = gpu->alloc(128);
  const DevicePtr freed = gpu->alloc(64);  // the last one, so that nothing takes its place
  gpu->free(freed);
  std::array<char, 128> host{};
  struct Case {
    DevicePtr address;
    std::uint64_t bytes;
    std::string word;
  };
  const std::vector<Case> cases{{good, 65, "64 bytes are left"},         {good.offset(63), 2, "1 bytes are left"},
                                {good, huge, "runs past the end"},       {good.offset(64), 1, "no live allocation"},
                                {DevicePtr(0), 1, "no live allocation"}, {DevicePtr(huge), 1, "no live allocation"},
                                {freed, 1, "no live allocation"}};
  for (const auto& [address, bytes, word] : cases) {
    const std::uint64_t n = bytes;
    const std::vector<std::pair<std::string, std::function<void()>>> calls{
        {"copy_h2d:", [&] { gpu->copy_h2d(address, host.data(), n); }},
        {"copy_d2h:", [&] { gpu->copy_d2h(host.data(), address, n); }},
        {"copy_d2d: the destination", [&] { gpu->copy_d2d(address, other, n); }},
        {"copy_h2d_async:", [&] { gpu->copy_h2d_async(address, host.data(), n, stream); }},
        {"copy_d2h_async:", [&] { gpu->copy_d2h_async(host.data(), address, n, stream); }},
        {"copy_d2d_async: the destination", [&] { gpu->copy_d2d_async(address, other, n, stream); }},
        {"copy_2d_d2d_async: the destination", [&] { gpu->copy_2d_d2d_async(address, n, other, n, n, 1, stream); }},
        {"fill:", [&] { gpu->fill(address, 0, 1, n, stream); }}};
    for (const auto& [name, call] : calls) {
      expect_error(ErrorCode::invalid_argument, {name, word, std::to_string(n)}, call);
    }
    if (n > 128) continue;
    expect_error(ErrorCode::invalid_argument, {"source", word}, [&] { gpu->copy_d2d(other, address, n); });
    expect_error(ErrorCode::invalid_argument, {"source", word},
                 [&] { gpu->copy_d2d_async(other, address, n, stream); });
  }
  const std::set<std::string> expected{"alloc", "create_stream", "free"};
  CHECK(gpu->called() == expected);
}

TEST_CASE("a null host pointer is refused by name", "[runtime][copies]") {
  const auto gpu = FakeBackend::open();
  const Stream stream = gpu->create_stream();
  const DevicePtr memory = gpu->alloc(64);
  expect_error(ErrorCode::invalid_argument, {"source", "null"}, [&] { gpu->copy_h2d(memory, nullptr, 1); });
  expect_error(ErrorCode::invalid_argument, {"destination", "null"}, [&] { gpu->copy_d2h(nullptr, memory, 1); });
  expect_error(ErrorCode::invalid_argument, {"source", "null"},
               [&] { gpu->copy_h2d_async(memory, nullptr, 1, stream); });
  expect_error(ErrorCode::invalid_argument, {"destination"}, [&] { gpu->copy_d2h_async(nullptr, memory, 1, stream); });
}

TEST_CASE("d2d copies that overlap are refused, adjacent ones are not", "[runtime][copies]") {
  const auto gpu = FakeBackend::open();
  const Stream stream = gpu->create_stream();
  const DevicePtr memory = gpu->alloc(64);
  const auto both = [&](std::uint64_t dst, std::uint64_t src, bool refused) {
    const auto blocking = [&] { gpu->copy_d2d(memory.offset(dst), memory.offset(src), 16); };
    const auto async = [&] { gpu->copy_d2d_async(memory.offset(dst), memory.offset(src), 16, stream); };
    if (!refused) {
      CHECK_NOTHROW(blocking());
      CHECK_NOTHROW(async());
      return;
    }
    expect_error(ErrorCode::invalid_argument, {"overlap"}, blocking);
    expect_error(ErrorCode::invalid_argument, {"overlap"}, async);
  };
  both(0, 0, true);    // onto itself
  both(8, 0, true);    // forward
  both(0, 15, true);   // backward, by one byte
  both(16, 0, false);  // adjacent
  both(0, 16, false);
}

TEST_CASE("fill refuses widths, misaligned destinations and counts that wrap", "[runtime][copies]") {
  const auto gpu = FakeBackend::open();
  const Stream stream = gpu->create_stream();
  const DevicePtr memory = gpu->alloc(64);
  for (const std::uint32_t width : {0U, 3U, 8U}) {
    expect_error(ErrorCode::invalid_argument, {std::to_string(width)}, [&] { gpu->fill(memory, 0, width, 1, stream); });
  }
  expect_error(ErrorCode::invalid_argument, {"multiple", "4"}, [&] { gpu->fill(memory.offset(2), 0, 4, 1, stream); });
  expect_error(ErrorCode::invalid_argument, {"multiple", "2"}, [&] { gpu->fill(memory.offset(1), 0, 2, 1, stream); });
  expect_error(ErrorCode::invalid_argument, {std::to_string(huge / 2 + 2)},
               [&] { gpu->fill(memory, 0, 2, huge / 2 + 2, stream); });  // 2 bytes, were it allowed to wrap
  CHECK(gpu->calls("fill") == 0);
  CHECK_NOTHROW(gpu->fill(memory, 0, 4, 16, stream));
}

TEST_CASE("rows with a short pitch, or past the address space, are refused", "[runtime][copies]") {
  const auto gpu = FakeBackend::open();
  const Stream stream = gpu->create_stream();
  const DevicePtr a = gpu->alloc(64);
  const DevicePtr b = gpu->alloc(64);
  expect_error(ErrorCode::invalid_argument, {"destination", "pitch", "7", "8"},
               [&] { gpu->copy_2d_d2d_async(a, 7, b, 8, 8, 2, stream); });
  expect_error(ErrorCode::invalid_argument, {"source", "pitch"},
               [&] { gpu->copy_2d_d2d_async(a, 8, b, 7, 8, 2, stream); });
  expect_error(ErrorCode::invalid_argument, {"address space"},
               [&] { gpu->copy_2d_d2d_async(a, huge / 2 + 1, b, 8, 8, 3, stream); });
  expect_error(ErrorCode::invalid_argument, {"source"}, [&] { gpu->copy_2d_d2d_async(a, 8, b, 57, 8, 2, stream); });
  CHECK_NOTHROW(gpu->copy_2d_d2d_async(a, 8, b, 56, 8, 2, stream));  // the last row ends with the allocation
}

TEST_CASE("2-D copies are refused exactly when a byte lies in rows of both", "[runtime][copies]") {
  const auto gpu = FakeBackend::open();
  const Stream stream = gpu->create_stream();
  const DevicePtr memory = gpu->alloc(256);
  std::mt19937 random(7);
  int refused = 0;
  int allowed = 0;
  for (int i = 0; i < 4000; ++i) {
    const std::uint64_t width = random() % 4 + 1;
    const std::uint64_t height = random() % 5 + 1;
    const std::uint64_t dst_pitch = width + random() % 8;
    const std::uint64_t src_pitch = i % 2 == 0 ? dst_pitch : width + random() % 8;
    const std::uint64_t dst = random() % 60;
    const std::uint64_t src = random() % 60;
    std::set<std::uint64_t> bytes;
    bool overlap = false;
    for (std::uint64_t r = 0; r < height; ++r) {
      for (std::uint64_t c = 0; c < width; ++c) bytes.insert(dst + r * dst_pitch + c);
    }
    for (std::uint64_t r = 0; r < height; ++r) {
      for (std::uint64_t c = 0; c < width; ++c) overlap = overlap || bytes.contains(src + r * src_pitch + c);
    }
    const auto copy = [&] {
      gpu->copy_2d_d2d_async(memory.offset(dst), dst_pitch, memory.offset(src), src_pitch, width, height, stream);
    };
    INFO("dst " << dst << " pitch " << dst_pitch << ", src " << src << " pitch " << src_pitch << ", " << width << " x "
                << height);
    if (overlap) {
      CHECK_THROWS_AS(copy(), Error);
    } else {
      CHECK_NOTHROW(copy());
    }
    ++(overlap ? refused : allowed);
  }
  CHECK(refused > 500);
  CHECK(allowed > 500);
}

}  // namespace
}  // namespace kdart::test
