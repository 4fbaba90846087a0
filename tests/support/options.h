// What a test program was told on its command line.
#pragma once

#include <filesystem>
#include <string>

namespace kdart::test {

// The folder of the test data: `--data DIR`, else tests/data under the current directory.
[[nodiscard]] const std::filesystem::path& test_data();

// The device that device tests run on: `--device ID`, else "cpu:0".
[[nodiscard]] const std::string& test_device();

// The backend that must have run at least one test, or "": `--require-device BACKEND`. A test that skips because a
// device of that backend is absent fails instead.
[[nodiscard]] const std::string& required_backend();

}  // namespace kdart::test
