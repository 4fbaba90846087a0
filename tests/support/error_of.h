// The error of one refusal, for a test to look at.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <stdexcept>

#include "kdart/error.h"

namespace kdart::test {

// Calls `body` and returns the Error it throws; fails the test when it throws none.
template <class Body>
[[nodiscard]] Error error_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  FAIL("no Error was thrown");
  throw std::logic_error("not reached");
}

}  // namespace kdart::test
