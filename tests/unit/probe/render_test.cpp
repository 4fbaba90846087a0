#include "render.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <limits>
#include <nlohmann/json.hpp>

#include "table.h"

namespace kdart::probe {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using Json = nlohmann::ordered_json;

std::vector<std::string> keys(const Json& object) {
  std::vector<std::string> result;
  for (const auto& item : object.items()) result.push_back(item.key());
  return result;
}

ResultRow row(Mode mode, bool pass) {
  ResultRow r;
  r.case_name = "sample";
  r.mode = mode;
  r.tokens = 17;
  r.figures = {0.001, 0.002, -0.25, true};
  r.bounds = {0.0048, 0.0045};
  r.pass = pass;
  r.seconds_per_token = 0.5;
  r.out_sha256 = "0a";
  r.state_sha256 = "0b";
  return r;
}

LayerResult layer_result(std::vector<ResultRow> rows) {
  return {"cpu:0", "a/model", 3, {"kda", "1", "cpu", "embedded"}, "recurrent_smem", std::move(rows)};
}

TEST_CASE("JSON of layer has the documented members in the documented order", "[probe]") {
  const Json json = Json::parse(to_json(Result(layer_result({row(Mode::decode, true)}))));
  CHECK(keys(json) == std::vector<std::string>{"schema", "command", "device", "model", "layer", "kernel_set",
                                               "recurrent_kernel", "prefill_gemm", "sample_rows", "truth_seconds",
                                               "results", "pass"});
  CHECK(json["schema"] == "kdart.probe/1");
  CHECK(json["command"] == "layer");
  CHECK(json["layer"] == 3);
  CHECK(json["kernel_set"] == Json{{"name", "kda"}, {"version", "1"}});
  CHECK(json["pass"] == true);
  const Json& result = json["results"][0];
  CHECK(keys(result) == std::vector<std::string>{"case", "mode", "tokens", "route", "out_rel_l2", "recurrent_rel_l2",
                                                 "conv_max_excess", "finite", "bits_equal_decode",
                                                 "bits_equal_recurrent", "bounds", "pass", "seconds_per_token",
                                                 "out_sha256", "state_sha256"});
  CHECK(result["route"] == "reference");
  CHECK(result["out_rel_l2"] == 0.001);
  CHECK(result["conv_max_excess"] == -0.25);
  CHECK(result["out_sha256"] == "0a");
  CHECK(result["state_sha256"] == "0b");
  CHECK(result["bits_equal_decode"].is_null());
  CHECK(result["bits_equal_recurrent"].is_null());
  CHECK(result["bounds"] == Json{{"out", 0.0048}, {"recurrent", 0.0045}});
}

TEST_CASE("the rows that were compared stand in JSON and their number in text", "[probe]") {
  LayerResult result = layer_result({row(Mode::prefill, true)});
  const Json all = Json::parse(to_json(Result(result)));
  CHECK(all["sample_rows"].is_null());
  CHECK(all["truth_seconds"].is_null());
  result.sample_rows = {0, 3, 16};
  result.truth_seconds = 1.5;
  const Json some = Json::parse(to_json(Result(result)));
  CHECK(some["sample_rows"] == Json::array({0, 3, 16}));
  CHECK(some["truth_seconds"] == 1.5);
  CHECK_THAT(to_text(Result(result)), ContainsSubstring("3 of 17"));
}

TEST_CASE("a figure that is not finite is null in JSON and said in text", "[probe]") {
  ResultRow r = row(Mode::prefill, false);
  r.figures.out_rel_l2 = std::numeric_limits<double>::quiet_NaN();
  r.figures.recurrent_rel_l2 = std::numeric_limits<double>::infinity();
  r.figures.finite = false;
  const Result result = layer_result({r});
  const Json json = Json::parse(to_json(result));
  CHECK(json["results"][0]["out_rel_l2"].is_null());
  CHECK(json["results"][0]["recurrent_rel_l2"].is_null());
  CHECK(json["results"][0]["finite"] == false);
  CHECK(json["pass"] == false);
  CHECK_THAT(to_text(result), ContainsSubstring("not finite") && EndsWith("\nFAIL (0 of 1 checks)\n"));
}

TEST_CASE("one failed row fails the whole, and no row at all is no success", "[probe]") {
  CHECK(layer_result({row(Mode::decode, true)}).pass());
  CHECK_FALSE(layer_result({row(Mode::decode, true), row(Mode::prefill, false)}).pass());
  CHECK_FALSE(layer_result({}).pass());
  CHECK_THAT(to_text(Result(layer_result({row(Mode::decode, true), row(Mode::decode_k, true)}))),
             EndsWith("\nPASS (2 of 2 checks)\n"));
  CHECK_THAT(to_text(Result(layer_result({row(Mode::decode, true), row(Mode::prefill, false)}))),
             EndsWith("\nFAIL (1 of 2 checks)\n"));
}

TEST_CASE("JSON of a geometry has no layer number", "[probe]") {
  LayerResult result = layer_result({row(Mode::decode, true)});
  result.layer.reset();
  CHECK(Json::parse(to_json(Result(result)))["layer"].is_null());
}

TEST_CASE("JSON of kernels", "[probe]") {
  const Result result = KernelsResult{{"kda", "1", "cpu", "embedded"},
                                      "x86-64-v3",
                                      {"a.so", "x86-64-v3"},
                                      {{"b.so", "x86-64-v4", "the device is x86-64-v3"}},
                                      {{"gate", std::nullopt, 0, 56}, {"fill", 12, 16, 24}},
                                      {"recurrent_smem"}};
  const Json json = Json::parse(to_json(result));
  CHECK(keys(json) == std::vector<std::string>{"schema", "command", "set", "version", "backend", "origin", "target",
                                               "image", "rejected", "kernels", "missing"});
  CHECK(json["set"] == "kda");
  CHECK(json["image"] == Json{{"file", "a.so"}, {"target", "x86-64-v3"}});
  CHECK(json["rejected"][0] == Json{{"file", "b.so"}, {"target", "x86-64-v4"}, {"reason", "the device is x86-64-v3"}});
  CHECK(json["kernels"][0] ==
        Json{{"name", "gate"}, {"registers", nullptr}, {"shared_bytes", 0}, {"argument_bytes", 56}});
  CHECK(json["kernels"][1]["registers"] == 12);
  CHECK(json["missing"] == Json::array({"recurrent_smem"}));
  CHECK_THAT(to_text(result), ContainsSubstring("missing: recurrent_smem\n"));
}

TEST_CASE("JSON of an error", "[probe]") {
  const Failure failure("io_error", "no such file", ExitCode::input);
  const Json json = Json::parse(to_json(failure, "layer"));
  CHECK(json == Json{{"schema", "kdart.probe/1"},
                     {"command", "layer"},
                     {"error", {{"code", "io_error"}, {"message", "no such file"}, {"exit", 5}}}});
  CHECK(Json::parse(to_json(failure, std::nullopt))["command"].is_null());
}

TEST_CASE("a backend without a device is listed with its reason", "[probe]") {
  BackendStatus absent;
  absent.backend = "other";
  absent.error = ErrorCode::driver_missing;
  absent.message = "tried libother.so.1";
  const Result result = ListResult{{absent}};
  const Json json = Json::parse(to_json(result));
  CHECK(json["backends"][0]["devices"].empty());
  CHECK(json["backends"][0]["error"] == Json{{"code", "driver_missing"}, {"message", "tried libother.so.1"}});
  CHECK_THAT(to_text(result), ContainsSubstring("other: driver_missing: tried libother.so.1"));
}

TEST_CASE("bytes that are not UTF-8 still give valid JSON", "[probe]") {
  const Failure failure("io_error", "cannot read \xFF\xFE", ExitCode::input);
  CHECK_NOTHROW(Json::parse(to_json(failure, "layer")));
}

TEST_CASE("a table aligns by characters and leaves no blank at a line's end", "[probe]") {
  Table table({{"name", Align::left}, {"n", Align::right}, {"x", Align::left}});
  table.add({"caf\xC3\xA9", "1", "yes"});
  table.add({"longer", "200", ""});
  CHECK(table.text() ==
        "name      n  x\n"
        "caf\xC3\xA9      1  yes\n"
        "longer  200\n");
}

}  // namespace
}  // namespace kdart::probe
