#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "kdart/config.h"
#include "tests/support/expect_error.h"
#include "tests/support/options.h"

namespace kdart {
namespace {

using nlohmann::json;
using test::expect_error;

json kimi() {
  return json::parse(
      R"({"model_type": "kimi_linear", "hidden_size": 2304, "rms_norm_eps": 1e-05, "num_hidden_layers": 27,
    "linear_attn_config": {"head_dim": 128, "num_heads": 32, "short_conv_kernel_size": 4, "kda_layers": [1, 2, 3, 5]}})");
}

json glm() {
  json config = kimi();
  config["model_type"] = "glm5_next";
  config["linear_attn_config"]["kda_layers"] = {0, 1, 2, 4};
  config["linear_attn_config"]["gate_lower_bound"] = -5.0;
  return config;
}

ModelConfig parse(const json& config) {
  return ModelConfig::parse(config.dump());
}

// `spoil` changes one thing in a good file; parsing must then fail with these words.
template <typename Spoil>
void refused(std::initializer_list<std::string_view> parts, Spoil spoil) {
  json config = glm();
  spoil(config);
  INFO(config.dump());
  expect_error(ErrorCode::bad_checkpoint, parts, [&] { (void)parse(config); });
}

json& attention(json& config) {
  return config["linear_attn_config"];
}

TEST_CASE("config.json: fields at the top, layers counted from 1") {
  const ModelConfig config = parse(kimi());
  CHECK(config.model_type == "kimi_linear");
  CHECK(config.hidden_size == 2304);
  CHECK(config.heads == 32);
  CHECK(config.head_dim == 128);
  CHECK(config.conv_kernel == 4);
  CHECK(config.rms_norm_eps == 1e-5F);
  CHECK_FALSE(config.gate_lower_bound.has_value());
  CHECK_FALSE(config.full_rank_gate);
  CHECK(config.kda_layers == std::vector<std::uint32_t>{0, 1, 2, 4});
}

TEST_CASE("config.json: glm5_next counts layers from 0 and has a lower bound") {
  const ModelConfig config = parse(glm());
  CHECK(config.model_type == "glm5_next");
  CHECK(config.gate_lower_bound == -5.0F);
  CHECK(config.kda_layers == std::vector<std::uint32_t>{0, 1, 2, 4});
}

TEST_CASE("config.json: fields under text_config, the outer model type decides") {
  json text = kimi();
  attention(text)["gate_lower_bound"] = -5.0;
  attention(text)["use_full_rank_gate"] = true;
  json config{{"model_type", "kimi_k3"}, {"text_config", text}};
  const ModelConfig parsed = parse(config);
  CHECK(parsed.model_type == "kimi_k3");
  CHECK(parsed.hidden_size == 2304);
  CHECK(parsed.full_rank_gate);
  CHECK(parsed.kda_layers == std::vector<std::uint32_t>{0, 1, 2, 4});

  config["model_type"] = "glm5_next";  // the inner one still says kimi_linear
  config["text_config"]["linear_attn_config"]["kda_layers"] = {0, 4};
  CHECK(parse(config).kda_layers == std::vector<std::uint32_t>{0, 4});
  config["hidden_size"] = 99;  // some other part's: the text model's own counts
  CHECK(parse(config).hidden_size == 2304);
}

TEST_CASE("config.json: two attention configs must not differ") {
  json config = kimi();
  config["text_config"] = kimi();
  CHECK(parse(config).heads == 32);
  config["text_config"]["linear_attn_config"]["num_heads"] = 16;
  expect_error(ErrorCode::bad_checkpoint, {"linear_attn_config", "text_config"}, [&] { (void)parse(config); });
}

TEST_CASE("config.json: a text_config about something else leaves the top in force") {
  json config = kimi();
  config["text_config"] = {{"hidden_size", 8}};
  CHECK(parse(config).hidden_size == 2304);
  config["text_config"] = nullptr;
  CHECK(parse(config).hidden_size == 2304);
}

TEST_CASE("config.json: optional fields may be null") {
  json config = glm();
  attention(config)["gate_lower_bound"] = nullptr;
  attention(config)["use_full_rank_gate"] = nullptr;
  config["num_hidden_layers"] = nullptr;
  CHECK_FALSE(parse(config).gate_lower_bound.has_value());
  CHECK_FALSE(parse(config).full_rank_gate);
}

TEST_CASE("config.json: layers come out ascending") {
  json config = kimi();
  attention(config)["kda_layers"] = {26, 1, 13};
  CHECK(parse(config).kda_layers == std::vector<std::uint32_t>{0, 12, 25});
}

TEST_CASE("config.json: an unknown model type is named with the three that are known") {
  const std::initializer_list<std::string_view> known{"model_type", "kimi_linear, kimi_k3, glm5_next"};
  refused(known, [](json& c) { c["model_type"] = "qwen3_next"; });
  refused({"'qwen3_next'"}, [](json& c) { c["model_type"] = "qwen3_next"; });
  refused({"model_type is missing"}, [](json& c) { c.erase("model_type"); });
  refused({"model_type is 3"}, [](json& c) { c["model_type"] = 3; });
  refused({"model_type is null"}, [](json& c) { c["model_type"] = nullptr; });
}

TEST_CASE("config.json: the lower bound must be a number from -5 up to 0") {
  for (const json& bad : {json(3), json(0), json(0.0), json(-0.0), json(-5.0000001), json(-6), json("-5"), json(true),
                          json::array({-5}), json(-1e-60)}) {
    refused({"linear_attn_config.gate_lower_bound", "[-5, 0)"},
            [&](json& c) { attention(c)["gate_lower_bound"] = bad; });
  }
  for (const json& good : {json(-5), json(-5.0), json(-0.25)}) {
    json config = glm();
    attention(config)["gate_lower_bound"] = good;
    CHECK(parse(config).gate_lower_bound == static_cast<float>(good.get<double>()));
  }
}

TEST_CASE("config.json: sizes must be whole numbers, not things that look like them") {
  for (const json& bad : {json("128"), json(128.0), json(1.5), json(true), json(0), json(-1), json(4294967296),
                          json::array({128}), json::object()}) {
    refused({"hidden_size is", "whole number"}, [&](json& c) { c["hidden_size"] = bad; });
    refused({"linear_attn_config.head_dim is"}, [&](json& c) { attention(c)["head_dim"] = bad; });
    refused({"linear_attn_config.num_heads is"}, [&](json& c) { attention(c)["num_heads"] = bad; });
    refused({"linear_attn_config.short_conv_kernel_size is"},
            [&](json& c) { attention(c)["short_conv_kernel_size"] = bad; });
    refused({"num_hidden_layers is"}, [&](json& c) { c["num_hidden_layers"] = bad; });
  }
}

TEST_CASE("config.json: a missing field is named") {
  for (const char* field : {"hidden_size", "rms_norm_eps", "linear_attn_config"}) {
    refused({field, "missing"}, [&](json& c) { c.erase(field); });
  }
  for (const char* field : {"head_dim", "num_heads", "short_conv_kernel_size", "kda_layers"}) {
    refused({std::string("linear_attn_config.") + field, "missing"}, [&](json& c) { attention(c).erase(field); });
  }
  refused({"linear_attn_config is a", "an object"}, [](json& c) { c["linear_attn_config"] = json::array(); });
  refused({"text_config is"}, [](json& c) { c["text_config"] = "x"; });
}

TEST_CASE("config.json: rms_norm_eps must be positive and stay so as a float") {
  for (const json& bad : {json(0), json(-1e-5), json("1e-5"), json(true), json(1e-60), json(1e60)}) {
    refused({"rms_norm_eps", "positive finite"}, [&](json& c) { c["rms_norm_eps"] = bad; });
  }
}

TEST_CASE("config.json: use_full_rank_gate must be a boolean") {
  for (const json& bad : {json(1), json("true"), json::array()}) {
    refused({"use_full_rank_gate", "true or false"}, [&](json& c) { attention(c)["use_full_rank_gate"] = bad; });
  }
}

TEST_CASE("config.json: layer numbers are checked in the file's own base") {
  refused({"kda_layers[2] is 27", "between 0 and 26", "counts from 0"},
          [](json& c) { attention(c)["kda_layers"] = {0, 26, 27}; });
  refused({"kda_layers[0] is -1"}, [](json& c) { attention(c)["kda_layers"] = {-1}; });
  refused({"kda_layers[1] is 2.0"}, [](json& c) { attention(c)["kda_layers"] = {1, 2.0}; });
  refused({"kda_layers[0] is the string '1'"}, [](json& c) { attention(c)["kda_layers"] = {"1"}; });
  refused({"kda_layers[0] is true"}, [](json& c) { attention(c)["kda_layers"] = {true}; });
  refused({"kda_layers", "5 in it twice"}, [](json& c) { attention(c)["kda_layers"] = {5, 1, 5}; });
  refused({"kda_layers is empty"}, [](json& c) { attention(c)["kda_layers"] = json::array(); });
  refused({"kda_layers is 3", "list"}, [](json& c) { attention(c)["kda_layers"] = 3; });
  refused({"kda_layers[0]"}, [](json& c) {
    c.erase("num_hidden_layers");
    attention(c)["kda_layers"] = {4294967296};
  });

  json one_based = kimi();
  attention(one_based)["kda_layers"] = {0, 1};
  expect_error(ErrorCode::bad_checkpoint, {"kda_layers[0] is 0", "between 1 and 27", "counts from 1"},
               [&] { (void)parse(one_based); });
  attention(one_based)["kda_layers"] = {27};
  CHECK(parse(one_based).kda_layers == std::vector<std::uint32_t>{26});
  attention(one_based)["kda_layers"] = {28};
  expect_error(ErrorCode::bad_checkpoint, {"kda_layers[0] is 28"}, [&] { (void)parse(one_based); });
}

TEST_CASE("config.json: text that is not a JSON object is refused") {
  for (const char* text :
       {"", "{", "[]", "3", "null", "{\"a\":1,}", "{} {}", "\xff\xfe", "{\"a\": NaN}", "{\"a\": 1e999}"}) {
    INFO(text);
    expect_error(ErrorCode::bad_checkpoint, {"config.json"}, [&] { (void)ModelConfig::parse(text); });
  }
}

TEST_CASE("config.json: a key that stands twice is refused at any depth") {
  std::string text = glm().dump();
  text.insert(1, R"("hidden_size": 8, )");
  expect_error(ErrorCode::bad_checkpoint, {"'hidden_size'", "twice"}, [&] { (void)ModelConfig::parse(text); });
  const std::string inner = R"({"a": [{"x": 1}, {"x": 1}, {"b\u0061": 1, "ba": 2}]})";
  expect_error(ErrorCode::bad_checkpoint, {"'ba'", "twice"}, [&] { (void)ModelConfig::parse(inner); });
}

TEST_CASE("config.json: nesting and length are bounded") {
  const std::string deep = std::string(1'000'000, '[');
  expect_error(ErrorCode::bad_checkpoint, {"nests deeper", "64"}, [&] { (void)ModelConfig::parse(deep); });
  json config = kimi();
  config["pad"] = std::string(std::size_t{17} << 20, 'x');
  expect_error(ErrorCode::bad_checkpoint, {"bytes long", "limit"}, [&] { (void)parse(config); });
}

TEST_CASE("config.json: control characters do not reach the message") {
  refused({"\\x1b[31m"}, [](json& c) { c["model_type"] = "\x1b[31mred"; });
  refused({".."}, [](json& c) { c["model_type"] = std::string(10'000, 'y'); });
}

TEST_CASE("config.json: a parser's complaint is valid, short text, whatever the file holds") {
  for (const std::string& text : {std::string("{\"a\": \"\xFF\xFE"), "{\"a\": \"" + std::string(1'000'000, 'x')}) {
    const std::string message =
        expect_error(ErrorCode::bad_checkpoint, {"not valid JSON"}, [&] { (void)ModelConfig::parse(text); });
    CHECK(message.size() < 500);
    CHECK_NOTHROW((void)json(message).dump());  // throws for what is not UTF-8
  }
}

TEST_CASE("config.json: every golden model's file is read") {
  std::size_t read = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test::test_data() / "golden")) {
    std::ifstream file(entry.path() / "config.json");
    std::stringstream text;
    text << file.rdbuf();
    const ModelConfig config = ModelConfig::parse(text.str());
    CHECK(config.kda_layers == std::vector<std::uint32_t>{0});
    CHECK(config.full_rank_gate == (config.model_type == "kimi_k3"));
    ++read;
  }
  CHECK(read == 7);
}

}  // namespace
}  // namespace kdart
