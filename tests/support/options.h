// What a test program was told on its command line.
#pragma once

#include <filesystem>
#include <string>

namespace kdart::test {

// The folder of the test data: `--data DIR`, else tests/data under the current directory.
[[nodiscard]] const std::filesystem::path& test_data();

// The device that device tests run on: `--device ID`, else "cpu:0". Tests of one that is not there are skipped, and the
// program then exits with 4 as when all are, unless one failed: nothing was tested there.
[[nodiscard]] const std::string& test_device();

// The backend that must have run at least one test, or "": `--require-device BACKEND`. The program fails when the device
// (--device) is absent, is of another backend, or was opened by no test. Tests that are skipped do not count.
[[nodiscard]] const std::string& required_backend();

}  // namespace kdart::test
