// The driver's results as kdart's errors.
#include "backends/cuda/errors.h"

#include <catch2/catch_test_macros.hpp>
#include <set>

#include "tests/support/error_of.h"

namespace kdart::test {

using cuda::code_of;
using cuda::result_name;

TEST_CASE("cuda: each result has the code of what it means to a caller", "[cuda][no-device]") {
  const struct {
    int result;
    ErrorCode code;
  } table[] = {
      {1, ErrorCode::driver_error},          {2, ErrorCode::out_of_device_memory},
      {3, ErrorCode::driver_error},          {4, ErrorCode::device_lost},
      {34, ErrorCode::driver_missing},       {46, ErrorCode::no_device},
      {100, ErrorCode::no_device},           {101, ErrorCode::no_device},
      {200, ErrorCode::invalid_image},       {201, ErrorCode::driver_error},
      {209, ErrorCode::no_matching_image},   {214, ErrorCode::device_lost},
      {218, ErrorCode::invalid_image},       {220, ErrorCode::device_lost},
      {221, ErrorCode::no_matching_image},   {222, ErrorCode::no_matching_image},
      {223, ErrorCode::no_matching_image},   {226, ErrorCode::device_lost},
      {300, ErrorCode::invalid_image},       {400, ErrorCode::driver_error},
      {500, ErrorCode::driver_error},        {700, ErrorCode::device_fault},
      {701, ErrorCode::invalid_launch},      {702, ErrorCode::device_fault},
      {709, ErrorCode::device_lost},         {710, ErrorCode::device_fault},
      {714, ErrorCode::device_fault},        {715, ErrorCode::device_fault},
      {716, ErrorCode::device_fault},        {717, ErrorCode::device_fault},
      {718, ErrorCode::device_fault},        {719, ErrorCode::device_fault},
      {720, ErrorCode::invalid_launch},      {801, ErrorCode::unsupported},
      {802, ErrorCode::no_device},           {803, ErrorCode::driver_too_old},
      {804, ErrorCode::driver_too_old},      {900, ErrorCode::capture_invalidated},
      {901, ErrorCode::capture_invalidated}, {906, ErrorCode::capture_invalidated},
      {908, ErrorCode::capture_invalidated}, {912, ErrorCode::invalid_launch},
      {999, ErrorCode::driver_error},        {-7, ErrorCode::driver_error},
      {54321, ErrorCode::driver_error},
  };
  for (const auto& entry : table) {
    INFO(entry.result);
    CHECK(to_string(code_of(entry.result)) == to_string(entry.code));
  }
}

TEST_CASE("cuda: only what a device cannot come back from is sticky", "[cuda][no-device]") {
  const std::set<int> sticky{4, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719};
  for (int result = 1; result < 1000; ++result) {
    INFO(result);
    CHECK(is_sticky(code_of(result)) == sticky.contains(result));
  }
}

TEST_CASE("cuda: results are called as the driver calls them, or by their number", "[cuda][no-device]") {
  CHECK(result_name(700) == "CUDA_ERROR_ILLEGAL_ADDRESS");
  CHECK(result_name(2) == "CUDA_ERROR_OUT_OF_MEMORY");
  CHECK(result_name(54321) == "CUresult 54321");
  CHECK(result_name(-7) == "CUresult -7");
}

TEST_CASE("cuda: an error keeps what was done and the driver's own number", "[cuda][no-device]") {
  const Error known = error_of([] { cuda::check_cuda(719, "doing a thing"); });
  CHECK(known.code() == ErrorCode::device_fault);
  CHECK(known.native_code() == 719);
  CHECK(known.native_text() == "CUDA_ERROR_LAUNCH_FAILED");
  CHECK(std::string(known.what()).find("doing a thing") == 0);
  CHECK(std::string(known.what()).find("CUDA_ERROR_LAUNCH_FAILED (719)") != std::string::npos);
  const Error unknown = error_of([] { cuda::check_cuda(54321, "doing a thing"); });
  CHECK(unknown.code() == ErrorCode::driver_error);
  CHECK(unknown.native_code() == 54321);
  CHECK(unknown.native_text() == "CUresult 54321");
  cuda::check_cuda(0, "doing a thing");  // throws nothing
}

}  // namespace kdart::test
