#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "kdart/config.h"
#include "tests/support/expect_error.h"

// Messages end up in terminals and in JSON documents, so whatever a file or a caller names is made valid, printable text
// first. Tested through a function that quotes its argument.
namespace kdart {
namespace {

std::string name_in_message(const std::string& name) {
  const std::string message =
      test::expect_error(ErrorCode::invalid_argument, {"unknown geometry"}, [&] { (void)named_geometry(name); });
  CHECK_NOTHROW((void)nlohmann::json(message).dump());  // throws for what is not UTF-8
  const auto begin = message.find('\'');
  return message.substr(begin, message.rfind('\'') + 1 - begin);
}

TEST_CASE("messages: text stays as it is, characters beyond ASCII too") {
  CHECK(name_in_message("abc def") == "'abc def'");
  CHECK(name_in_message("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80") == "'\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80'");
  CHECK(name_in_message("\xC2\xA0\xE0\xA0\x80\xED\x9F\xBF\xEE\x80\x80\xF0\x90\x80\x80\xF4\x8F\xBF\xBF") ==
        "'\xC2\xA0\xE0\xA0\x80\xED\x9F\xBF\xEE\x80\x80\xF0\x90\x80\x80\xF4\x8F\xBF\xBF'");
  CHECK(name_in_message("") == "''");
}

TEST_CASE("messages: control characters are written out") {
  CHECK(name_in_message("\x1b[2J\n\x7F") == "'\\x1b[2J\\x0a\\x7f'");
  CHECK(name_in_message(std::string("a\0b", 3)) == "'a\\x00b'");
  CHECK(name_in_message("\xC2\x9B") == "'\\xc2\\x9b'");  // a terminal's other way to begin a command
}

TEST_CASE("messages: bytes that are no UTF-8 are written out") {
  CHECK(name_in_message("\xFF\xFE") == "'\\xff\\xfe'");
  CHECK(name_in_message("a\x80z") == "'a\\x80z'");
  CHECK(name_in_message("\xC0\xAF") == "'\\xc0\\xaf'");           // overlong
  CHECK(name_in_message("\xE0\x9F\xBF") == "'\\xe0\\x9f\\xbf'");  // overlong
  CHECK(name_in_message("\xED\xA0\x80") == "'\\xed\\xa0\\x80'");  // a surrogate
  CHECK(name_in_message("\xF4\x90\x80\x80") == "'\\xf4\\x90\\x80\\x80'");
  CHECK(name_in_message("\xE2\x82") == "'\\xe2\\x82'");  // cut off
  CHECK(name_in_message("\xE2(\xA1") == "'\\xe2(\\xa1'");
}

TEST_CASE("messages: long text is cut, never inside a character") {
  CHECK(name_in_message(std::string(160, 'x')) == "'" + std::string(160, 'x') + "'");
  CHECK(name_in_message(std::string(161, 'x')) == "'" + std::string(160, 'x') + "..'");
  std::string wide = "x";
  for (int i = 0; i < 100; ++i) wide += "\xE2\x82\xAC";
  const std::string text = name_in_message(wide);
  CHECK(text.size() <= 1 + 162 + 2 + 1);
  CHECK(text.ends_with("\xE2\x82\xAC..'"));
}

}  // namespace
}  // namespace kdart
