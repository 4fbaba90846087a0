#include "tools/reference/cases.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>

#include "tests/support/expect_error.h"
#include "tests/support/mini_model.h"

namespace kdart::reference {
namespace {

using test::expect_error;

// A file of one case "c" of three tokens.
struct CaseFile {
  KdaConfig config = test::tiny_config();
  std::vector<test::MiniTensor> tensors;
  std::map<std::string, std::string> metadata;

  CaseFile() {
    const std::uint64_t dim = config.head_dim;
    add("hidden", "BF16", {3, config.hidden_size});
    add("recurrent_in", "F32", {config.heads, dim, dim});
    add("conv_in", "F32", {config.conv_channels(), 3});
    add("out", "F32", {3, config.hidden_size});
    add("recurrent_out", "F32", {config.heads, dim, dim});
    add("conv_out", "F32", {config.conv_channels(), 3});
  }
  void add(const std::string& member, const std::string& dtype, std::vector<std::uint64_t> shape,
           const std::string& name = "c") {
    std::uint64_t elements = 1;
    for (const auto extent : shape) elements *= extent;
    tensors.push_back({name + "." + member, dtype, shape, std::vector<std::byte>(elements * (dtype == "F32" ? 4 : 2))});
  }
  [[nodiscard]] std::vector<Case> parse() const {
    return parse_cases(test::safetensors_of(tensors, metadata), "mem", config);
  }
};

void refused(const CaseFile& file, std::initializer_list<std::string_view> parts) {
  expect_error(ErrorCode::bad_checkpoint, parts, [&] { (void)file.parse(); });
}

TEST_CASE("cases: members, the 4-slot window and the bounds are read") {
  CaseFile file;
  file.metadata["bounds.c"] = "0.01 0.02 3e-2 0.5";
  file.metadata["format"] = "pt";
  std::vector<float> window(file.config.conv_channels() * 3);
  for (std::size_t i = 0; i < window.size(); ++i) window[i] = static_cast<float>(i + 1);
  file.tensors[2].bytes = test::bytes_of(std::span<const float>(window));
  const auto cases = file.parse();
  REQUIRE(cases.size() == 1);
  const Case& c = cases[0];
  CHECK(c.name == "c");
  CHECK(c.tokens == 3);
  CHECK(c.hidden.size() == 3 * 16);
  CHECK(c.recurrent_in.size() == file.config.recurrent_elements());
  CHECK(c.conv_in.size() == file.config.conv_elements());
  CHECK(std::vector<float>(c.conv_in.begin(), c.conv_in.begin() + 8) == std::vector<float>{0, 1, 2, 3, 0, 4, 5, 6});
  CHECK(c.bounds.decode_out == 0.01);
  CHECK(c.bounds.decode_state == 0.02);
  CHECK(c.bounds.prefill_out == 0.03);
  CHECK(c.bounds.prefill_state == 0.5);
}

TEST_CASE("cases: without metadata the base bounds hold, wider under 32 tokens") {
  CHECK(CaseFile().parse()[0].bounds.decode_out == base_bounds(3).decode_out);
  const Bounds base = base_bounds(32);
  CHECK(base.decode_out == 0.0048);
  CHECK(base.decode_state == 0.0045);
  CHECK(base.prefill_out == 0.0055);
  CHECK(base.prefill_state == 0.0055);
  const Bounds few = base_bounds(31);
  CHECK(few.decode_out == Catch::Approx(1.6 * 0.0048));
  CHECK(few.decode_state == Catch::Approx(1.6 * 0.0045));
  CHECK(few.prefill_out == Catch::Approx(1.6 * 0.0055));
  CHECK(few.prefill_state == Catch::Approx(1.6 * 0.0055));
}

TEST_CASE("cases: names may hold dots, and cases keep the file's order") {
  CaseFile file;
  for (auto& tensor : file.tensors) tensor.name = "z.first" + tensor.name.substr(1);
  const auto first = file.tensors;
  CaseFile second;
  for (const auto& tensor : second.tensors)
    file.tensors.push_back({"a" + tensor.name.substr(1), tensor.dtype, tensor.shape, tensor.bytes});
  const auto cases = file.parse();
  REQUIRE(cases.size() == 2);
  CHECK(cases[0].name == "z.first");
  CHECK(cases[1].name == "a");
}

TEST_CASE("cases: what is missing, unknown or misshapen is named") {
  for (std::size_t i = 0; i < 6; ++i) {
    CaseFile file;
    const std::string name = file.tensors[i].name;
    file.tensors.erase(file.tensors.begin() + static_cast<std::ptrdiff_t>(i));
    refused(file, {"mem", "'" + name + "'", "missing"});

    CaseFile shape;
    shape.tensors[i].shape.insert(shape.tensors[i].shape.begin(), 1);
    refused(shape, {"'" + name + "'", "its shape is [1, "});

    CaseFile dtype;
    dtype.tensors[i].dtype = dtype.tensors[i].dtype == "F32" ? "I32" : "F16";
    refused(dtype, {"'" + name + "'", "its dtype is", "expected"});
  }
  CaseFile unknown;
  unknown.add("beta", "F32", {1});
  refused(unknown, {"'c.beta'", "hidden, recurrent_in"});
  unknown.tensors.back().name = "hidden";
  refused(unknown, {"'hidden'"});
  unknown.tensors.back().name = ".hidden";
  refused(unknown, {"'.hidden'"});
  CaseFile empty;
  empty.tensors.clear();
  refused(empty, {"no case"});
  CaseFile no_tokens;
  no_tokens.tensors[0].shape[0] = 0;
  no_tokens.tensors[0].bytes.clear();
  refused(no_tokens, {"'c.hidden'", "[0, 16]", "at least one token"});
  CaseFile shorter;  // out has fewer rows than hidden
  shorter.tensors[3].shape[0] = 2;
  shorter.tensors[3].bytes.resize(2 * 16 * 4);
  refused(shorter, {"'c.out'", "[2, 16]", "expected [3, 16]"});
}

TEST_CASE("cases: bounds are four positive finite numbers for a case that is there") {
  for (const char* bad : {"", "1 2 3", "1 2 3 4 5", "1 2 3 x", "1 2 3 4x", "1 2 3 -4", "1 2 3 0", "1 2 3 nan",
                          "1 2 3 inf", "1,2,3,4", "1 2 3 1e999", "0x1 2 3 4", "1 2 3 4\n"}) {
    INFO(bad);
    CaseFile file;
    file.metadata["bounds.c"] = bad;
    refused(file, {"'bounds.c'", "four positive numbers"});
  }
  CaseFile other;
  other.metadata["bounds.d"] = "1 1 1 1";
  refused(other, {"'bounds.d'", "not there"});
  CaseFile spaces;
  spaces.metadata["bounds.c"] = "  1  2 3   4 ";
  CHECK(spaces.parse()[0].bounds.prefill_state == 4);
}

TEST_CASE("cases: a file is read as its bytes are") {
  const test::TempFolder folder;
  const CaseFile file;
  test::write_file(folder.path() / "x", test::safetensors_of(file.tensors));
  CHECK(load_cases(folder.path() / "x", file.config).size() == 1);
  expect_error(ErrorCode::io_error, {"missing"}, [&] { (void)load_cases(folder.path() / "missing", file.config); });
}

TEST_CASE("relative_l2 is over the whole tensor and never hides a NaN") {
  const float nan = std::nanf("");
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> truth{3, 0, 4};
  CHECK(relative_l2(std::vector<float>{3, 0, 4}, truth) == 0);
  CHECK(relative_l2(std::vector<float>{3, 0.5F, 4}, truth) == Catch::Approx(0.1));
  CHECK(std::isnan(relative_l2(std::vector<float>{3, nan, 4}, truth)));
  CHECK(std::isnan(relative_l2(std::vector<float>{3, infinity, 4}, truth)));
  CHECK(std::isnan(relative_l2(truth, std::vector<float>{3, nan, 4})));
  CHECK(std::isnan(relative_l2(std::vector<float>{infinity}, std::vector<float>{infinity})));
  CHECK(relative_l2(std::vector<float>{0, 0}, std::vector<float>{0, 0}) == 0);
  CHECK(relative_l2(std::vector<float>{0, 1}, std::vector<float>{0, 0}) == std::numeric_limits<double>::infinity());
  const std::vector<float> huge(4, 3e38F);  // sums in float64
  CHECK(relative_l2(std::vector<float>(4, 1.5e38F), huge) == Catch::Approx(0.5));
  expect_error(ErrorCode::invalid_argument, {"2 elements", "3"},
               [&] { (void)relative_l2(std::vector<float>(2), truth); });
}

TEST_CASE("conv_max_excess is per element, and slot 0 does not count") {
  const std::vector<float> truth{9, 1, -2, 0};
  const auto excess = [&](float a, float b, float c) {
    return conv_max_excess(std::vector<float>{-7, a, b, c}, truth);
  };
  CHECK(excess(1, -2, 0) == Catch::Approx(-1e-5));
  CHECK(excess(1 + 0x1p-8F, -2, 0) < 0);          // just inside 2^-8 |truth| + 1e-5
  CHECK(excess(1 + 0x1p-8F + 2e-5F, -2, 0) > 0);  // just outside
  CHECK(excess(1, -2 - 0x1p-7F - 2e-5F, 0) > 0);
  CHECK(excess(1, -2, 0.9e-5F) < 0);
  CHECK(excess(1, -2, 1.1e-5F) > 0);
  CHECK(std::isnan(excess(1, std::nanf(""), 0)));
  CHECK(std::isnan(excess(1, std::numeric_limits<float>::infinity(), 0)));
  CHECK_FALSE(std::isnan(conv_max_excess(std::vector<float>{std::nanf(""), 1, -2, 0}, truth)));
}

}  // namespace
}  // namespace kdart::reference
