// One refusal: the code, and what a person must find in the message.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "kdart/error.h"

namespace kdart::test {

// Checks that `call()` throws kdart::Error with `code` and that its message holds every one of `words` (thing, value,
// limit). Returns the message, "" when the check failed.
template <class Call>
std::string expect_error(ErrorCode code, std::initializer_list<std::string_view> words, const Call& call) {
  std::optional<Error> error;
  try {
    call();
  } catch (const Error& caught) {
    error = caught;
  }
  if (!error) {
    INFO("expected " << to_string(code));
    CHECK(error.has_value());
    return "";
  }
  const std::string message = error->what();
  INFO("message: " << message);
  CHECK(to_string(error->code()) == to_string(code));
  for (const std::string_view word : words) {
    INFO("expected in the message: " << word);
    CHECK(message.find(word) != std::string::npos);
  }
  return message;
}

}  // namespace kdart::test
