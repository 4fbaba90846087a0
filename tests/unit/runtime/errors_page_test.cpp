#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <iterator>
#include <string>

#include "kdart/error.h"

namespace kdart::test {

TEST_CASE("docs/errors.md has an entry for every code", "[runtime][error][docs]") {
  std::ifstream file("docs/errors.md");
  REQUIRE(file);
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  std::uint32_t count = 0;
  for (;; ++count) {
    const auto code = static_cast<ErrorCode>(count);
    if (to_string(code) == "unknown") break;
    INFO(to_string(code));
    const std::string row = "| `" + std::string(to_string(code)) + "`" + (is_sticky(code) ? " (sticky)" : "") + " |";
    CHECK(page.find(row) != std::string::npos);
  }
  CHECK(count == static_cast<std::uint32_t>(ErrorCode::driver_error) + 1);
}

}  // namespace kdart::test
