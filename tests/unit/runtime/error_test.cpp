#include "kdart/error.h"

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string>

namespace kdart {
namespace {

// In the enum's order, which binary interfaces rely on.
constexpr std::array<std::string_view, 22> spellings{
    "driver_missing",   "driver_too_old",    "no_device",      "unsupported",          "unsupported_version",
    "invalid_argument", "invalid_handle",    "invalid_launch", "out_of_device_memory", "out_of_host_memory",
    "invalid_image",    "no_matching_image", "corrupt_image",  "kernel_not_found",     "device_fault",
    "device_lost",      "timeout",           "forked_process", "capture_invalidated",  "bad_checkpoint",
    "io_error",         "driver_error"};

TEST_CASE("every error code is spelled as in the enum") {
  for (std::uint32_t i = 0; i < spellings.size(); ++i) CHECK(to_string(static_cast<ErrorCode>(i)) == spellings[i]);
  CHECK(static_cast<std::uint32_t>(ErrorCode::driver_error) + 1 == spellings.size());
  CHECK(to_string(static_cast<ErrorCode>(spellings.size())) == "unknown");
  CHECK(to_string(static_cast<ErrorCode>(0xFFFFFFFFU)) == "unknown");
}

TEST_CASE("only the loss of a device is sticky") {
  const std::set<std::string_view> sticky{"device_fault", "device_lost", "forked_process"};
  for (std::uint32_t i = 0; i < spellings.size(); ++i) {
    INFO(spellings[i]);
    CHECK(is_sticky(static_cast<ErrorCode>(i)) == sticky.contains(spellings[i]));
  }
  CHECK_FALSE(is_sticky(static_cast<ErrorCode>(spellings.size())));
}

TEST_CASE("an error carries its code, its message and the driver's own words") {
  const Error plain(ErrorCode::io_error, "cannot open 'x'");
  CHECK(plain.code() == ErrorCode::io_error);
  CHECK(plain.what() == std::string("cannot open 'x'"));
  CHECK(plain.native_code() == 0);
  CHECK(plain.native_text().empty());

  const Error native(ErrorCode::driver_error, "the launch of 'gate' failed", -1234567890123, "CUDA_ERROR_NEW");
  const Error copy = native;  // a copy keeps all of it
  CHECK(copy.code() == ErrorCode::driver_error);
  CHECK(copy.what() == std::string("the launch of 'gate' failed"));
  CHECK(copy.native_code() == -1234567890123);
  CHECK(copy.native_text() == "CUDA_ERROR_NEW");
}

TEST_CASE("an error is caught as std::runtime_error and keeps its type") {
  std::string caught;
  try {
    throw Error(ErrorCode::timeout, "waited 5 s");
  } catch (const std::runtime_error& e) {
    caught = e.what();
    CHECK(dynamic_cast<const Error*>(&e) != nullptr);
  }
  CHECK(caught == "waited 5 s");
}

}  // namespace
}  // namespace kdart
