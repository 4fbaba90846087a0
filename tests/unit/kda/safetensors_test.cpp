#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <limits>

#include "kdart/checkpoint.h"
#include "tests/support/expect_error.h"
#include "tests/support/mini_model.h"
#include "tests/support/options.h"

namespace kdart {
namespace {

using test::expect_error;
using test::safetensors_file;

std::vector<std::byte> zeros(std::size_t count) {
  return std::vector<std::byte>(count);
}

SafetensorsFile parse(const std::vector<std::byte>& bytes) {
  return SafetensorsFile::from_memory(bytes, "mem");
}

// A file of this header and `data` zero bytes must be refused with these words, and with the file's name.
void refused(std::initializer_list<std::string_view> parts, const std::string& header, std::size_t data) {
  INFO(header);
  const auto bytes = safetensors_file(header, zeros(data));
  expect_error(ErrorCode::bad_checkpoint, {"mem: "}, [&] { (void)parse(bytes); });
  expect_error(ErrorCode::bad_checkpoint, parts, [&] { (void)parse(bytes); });
}

TEST_CASE("safetensors: tensors, shapes, data and metadata are read") {
  const std::string header = R"({"__metadata__": {"format": "pt", "": "x"},
    "a": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]},
    "scalar": {"dtype": "F32", "shape": [], "data_offsets": [12, 16]},
    "none": {"dtype": "I64", "shape": [4, 0], "data_offsets": [16, 16]},
    "b": {"dtype": "U8", "shape": [3], "data_offsets": [16, 19]}}   )";
  std::vector<std::byte> data = zeros(19);
  data[16] = std::byte{7};
  const auto bytes = safetensors_file(header, data);
  const SafetensorsFile file = parse(bytes);
  CHECK(file.name() == "mem");
  CHECK(file.tensors().size() == 4);
  CHECK(file.metadata().at("format") == "pt");
  CHECK(file.metadata().at("").size() == 1);
  REQUIRE(file.find("a") != nullptr);
  CHECK(file.find("a")->dtype == "BF16");
  CHECK(file.find("a")->shape == std::vector<std::uint64_t>{2, 3});
  CHECK(file.find("a")->data.size() == 12);
  CHECK(file.find("scalar")->shape.empty());
  CHECK(file.find("none")->data.empty());
  CHECK(file.find("b")->data[0] == std::byte{7});
  CHECK(file.find("b")->data.data() == bytes.data() + 8 + header.size() + 16);  // in place
  CHECK(file.find("c") == nullptr);
  CHECK(file.mapping() == nullptr);
}

TEST_CASE("safetensors: a file without tensors is fine") {
  CHECK(parse(safetensors_file("{}", {})).tensors().empty());
}

TEST_CASE("safetensors: the header's length is bounded by the file and by the format") {
  expect_error(ErrorCode::bad_checkpoint, {"mem", "0 bytes long"}, [] { (void)parse({}); });
  expect_error(ErrorCode::bad_checkpoint, {"7 bytes long"}, [] { (void)parse(zeros(7)); });
  expect_error(ErrorCode::bad_checkpoint, {"does not start with '{'"}, [] { (void)parse(zeros(8)); });
  auto bytes = safetensors_file("{}", {});
  bytes[0] = std::byte{3};
  expect_error(ErrorCode::bad_checkpoint, {"claims 3 bytes", "at most 2"}, [&] { (void)parse(bytes); });
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = std::byte{0xFF};
  expect_error(ErrorCode::bad_checkpoint, {"claims 18446744073709551615 bytes"}, [&] { (void)parse(bytes); });
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = std::byte{0};
  bytes[7] = std::byte{0x80};
  expect_error(ErrorCode::bad_checkpoint, {"claims 9223372036854775808 bytes"}, [&] { (void)parse(bytes); });
}

TEST_CASE("safetensors: every truncation of a file is refused") {
  const auto bytes = test::safetensors_of({{"a", "F32", {2}, zeros(8)}, {"b", "U8", {3}, zeros(3)}});
  CHECK(parse(bytes).tensors().size() == 2);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const std::vector<std::byte> cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length));
    expect_error(ErrorCode::bad_checkpoint, {"mem"}, [&] { (void)parse(cut); });
  }
  auto longer = bytes;
  longer.push_back(std::byte{0});
  expect_error(ErrorCode::bad_checkpoint, {"cover 11 bytes", "of 12"}, [&] { (void)parse(longer); });
}

TEST_CASE("safetensors: the header must be a JSON object of well-formed entries") {
  refused({"not valid JSON"}, "{", 0);
  refused({"does not start with '{'"}, "[]", 0);
  refused({"does not start with '{'"}, " {}", 0);
  refused(
      {"'a'", "twice"},
      R"({"a": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}, "a": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}})",
      0);
  refused({"nests deeper"}, R"({"a": {"dtype": "U8", "shape": [[[[0]]]], "data_offsets": [0, 0]}})", 0);
  refused({"tensor 'a'", "not an object"}, R"({"a": 3})", 0);
  refused({"tensor 'a'", "dtype"}, R"({"a": {"shape": [0], "data_offsets": [0, 0]}})", 0);
  refused({"tensor 'a'", "dtype"}, R"({"a": {"dtype": 3, "shape": [0], "data_offsets": [0, 0]}})", 0);
  refused({"tensor 'a'", "no shape"}, R"({"a": {"dtype": "U8", "data_offsets": [0, 0]}})", 0);
  refused({"tensor 'a'", "no data_offsets"}, R"({"a": {"dtype": "U8", "shape": [0]}})", 0);
  refused({"tensor 'a'", "1 data_offsets"}, R"({"a": {"dtype": "U8", "shape": [0], "data_offsets": [0]}})", 0);
  refused({"tensor 'a'", "data_offsets"}, R"({"a": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0, 0]}})", 0);
  refused({"tensor 'a'", "whole numbers"}, R"({"a": {"dtype": "U8", "shape": [1.0], "data_offsets": [0, 1]}})", 1);
  refused({"tensor 'a'", "whole numbers"}, R"({"a": {"dtype": "U8", "shape": [-1], "data_offsets": [0, 1]}})", 1);
  refused({"tensor 'a'", "whole numbers"}, R"({"a": {"dtype": "U8", "shape": [true], "data_offsets": [0, 1]}})", 1);
  refused({"tensor 'a'", "whole numbers"}, R"({"a": {"dtype": "U8", "shape": "1", "data_offsets": [0, 1]}})", 1);
  refused({"tensor 'a'", "unknown member 'strides'"},
          R"({"a": {"dtype": "U8", "shape": [1], "strides": [1], "data_offsets": [0, 1]}})", 1);
  refused({"__metadata__ is not"}, R"({"__metadata__": []})", 0);
  refused({"__metadata__", "'n'", "not a string"}, R"({"__metadata__": {"n": 1}})", 0);
}

TEST_CASE("safetensors: a shape has a bounded rank") {
  std::string ones = "1";
  for (int i = 1; i < 33; ++i) ones += ",1";
  refused({"tensor 'a'", "at most 32"}, R"({"a": {"dtype": "U8", "shape": [)" + ones + R"(], "data_offsets": [0, 1]}})",
          1);
}

TEST_CASE("safetensors: dtypes are the format's, and size and shape must agree") {
  refused({"tensor 'a'", "'BF17'"}, R"({"a": {"dtype": "BF17", "shape": [1], "data_offsets": [0, 2]}})", 2);
  refused({"tensor 'a'", "holds 3 bytes", "[2] of BF16", "needs 4"},
          R"({"a": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 3]}})", 3);
  refused({"tensor 'a'", "needs 4"}, R"({"a": {"dtype": "F32", "shape": [], "data_offsets": [0, 0]}})", 0);
  refused({"tensor 'a'", "whole number of bytes"}, R"({"a": {"dtype": "F4", "shape": [3], "data_offsets": [0, 1]}})",
          1);
  for (const auto& [dtype, bytes] : std::initializer_list<std::pair<const char*, std::size_t>>{
           {"BOOL", 4},    {"U8", 4},      {"I8", 4},   {"F8_E4M3", 4}, {"F8_E5M2", 4}, {"F8_E8M0", 4}, {"F4", 2},
           {"F6_E2M3", 3}, {"F6_E3M2", 3}, {"I16", 8},  {"U16", 8},     {"F16", 8},     {"BF16", 8},    {"I32", 16},
           {"U32", 16},    {"F32", 16},    {"I64", 32}, {"U64", 32},    {"F64", 32},    {"C64", 32}}) {
    INFO(dtype);
    CHECK(parse(test::safetensors_of({{"a", dtype, {4}, zeros(bytes)}})).find("a")->data.size() == bytes);
  }
}

TEST_CASE("safetensors: the product of a shape must not overflow") {
  // 2^32 * 2^32 wraps to 0, 2^63 * 2 to 0, 2^61 * 8 bits to 0.
  refused({"tensor 'a'", "2^61"},
          R"({"a": {"dtype": "U8", "shape": [4294967296, 4294967296], "data_offsets": [0, 0]}})", 0);
  refused({"tensor 'a'", "2^61"},
          R"({"a": {"dtype": "U8", "shape": [9223372036854775808, 2], "data_offsets": [0, 0]}})", 0);
  refused({"tensor 'a'", "2^61"}, R"({"a": {"dtype": "U8", "shape": [2305843009213693952], "data_offsets": [0, 0]}})",
          0);
  refused({"tensor 'a'", "2^61"},
          R"({"a": {"dtype": "U8", "shape": [4294967296, 4294967296, 0], "data_offsets": [0, 0]}})", 0);
}

TEST_CASE("safetensors: offsets lie in the data section, in order, without overlap or gap") {
  refused({"tensor 'a'", "[0, 5]", "has 4 bytes"}, R"({"a": {"dtype": "U8", "shape": [5], "data_offsets": [0, 5]}})",
          4);
  refused({"tensor 'a'", "[2, 1]"}, R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [2, 1]}})", 4);
  refused({"tensor 'a'", "18446744073709551615"},
          R"({"a": {"dtype": "U8", "shape": [4], "data_offsets": [18446744073709551612, 18446744073709551615]}})", 4);
  refused({"tensor 'a'", "begins at byte 1", "gap"}, R"({"a": {"dtype": "U8", "shape": [3], "data_offsets": [1, 4]}})",
          4);
  refused({"cover 3 bytes", "of 4"}, R"({"a": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]}})", 4);
  refused(
      {"tensor 'b'", "begins at byte 2", "inside", "'a'"},
      R"({"a": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]}, "b": {"dtype": "U8", "shape": [2], "data_offsets": [2, 4]}})",
      4);
  refused(
      {"tensor 'b'", "begins at byte 3", "gap", "'a'"},
      R"({"a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}, "b": {"dtype": "U8", "shape": [1], "data_offsets": [3, 4]}})",
      4);
  refused(
      {"begins at byte 0", "inside"},
      R"({"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}, "b": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}})",
      4);
}

TEST_CASE("safetensors: names in messages are printable and short") {
  refused({"'\\x1b[2J\\x0a'"}, R"({"\u001b[2J\n": 3})", 0);
  const std::string name(100'000, 'n');
  const auto bytes = safetensors_file("{\"" + name + "\": 3}", {});
  try {
    (void)parse(bytes);
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(std::string(e.what()).size() < 400);
  }
}

TEST_CASE("safetensors: files are mapped, and the mapping outlives the object") {
  const test::TempFolder folder;
  const auto path = folder.path() / "x.safetensors";
  test::write_file(path, test::safetensors_of({{"a", "U8", {3}, {std::byte{1}, std::byte{2}, std::byte{3}}}}));
  std::shared_ptr<const void> mapping;
  std::span<const std::byte> data;
  {
    const SafetensorsFile file = SafetensorsFile::open(path);
    CHECK(file.name() == path.string());
    mapping = file.mapping();
    data = file.find("a")->data;
  }
  REQUIRE(mapping != nullptr);
  CHECK(data[2] == std::byte{3});
}

TEST_CASE("safetensors: what cannot be opened is an io_error with the path and the reason") {
  const test::TempFolder folder;
  const auto missing = folder.path() / "missing.safetensors";
  expect_error(ErrorCode::io_error, {missing.string(), "No such file"}, [&] { (void)SafetensorsFile::open(missing); });
  expect_error(ErrorCode::io_error, {folder.path().string(), "not a regular file"},
               [&] { (void)SafetensorsFile::open(folder.path()); });
  test::write_file(folder.path() / "empty", "");
  expect_error(ErrorCode::bad_checkpoint, {"empty", "0 bytes long"},
               [&] { (void)SafetensorsFile::open(folder.path() / "empty"); });
}

TEST_CASE("safetensors: every golden file is read") {
  std::size_t tensors = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test::test_data() / "golden")) {
    tensors += SafetensorsFile::open(entry.path() / "model.safetensors").tensors().size();
    CHECK(SafetensorsFile::open(entry.path() / "cases.safetensors").metadata().size() >= 3);
  }
  CHECK(tensors == 6 * 15 + 14);  // Kimi K3's full-rank gate has one tensor less
}

}  // namespace
}  // namespace kdart
