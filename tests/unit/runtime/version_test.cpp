#include "kdart/version.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

TEST_CASE("the library that runs has the version of its headers", "[runtime][version]") {
  const std::string numbers = std::to_string(KDART_VERSION_MAJOR) + "." + std::to_string(KDART_VERSION_MINOR) + "." +
                              std::to_string(KDART_VERSION_PATCH);
  CHECK(numbers == KDART_VERSION_STRING);
  CHECK(numbers == kdart::version());
}
