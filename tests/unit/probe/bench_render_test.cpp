#include "bench_render.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include "render.h"

namespace kdart::probe {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;
using Json = nlohmann::ordered_json;

BenchRow timed_row() {
  BenchRow row;
  row.geometry = "2,64,128";
  row.mode = Mode::prefill;
  row.tokens = 8;
  row.graph = true;
  row.route = KdaRoute::reference;
  row.recurrent_kernel = "recurrent_smem";
  row.prefill_gemm = KdaPrefillGemm{.service = 5, .own = 2};
  row.call = "prefill";
  row.traffic = {1000, 200, 30};
  row.flops = 5000;
  row.floor_us = 10.0;
  row.rotation = {2, 1000, 4, 230};
  row.memory = {5000, 9000};
  row.timing = {{44.0, 40.0, 36.0}, {50.0, 52.0, 54.0}, {5.0, 6.0, 7.0}, 3};
  return row;
}

BenchRow failed_row(const std::string& code, ExitCode exit) {
  BenchRow row;
  row.geometry = "kimi-k3";
  row.tokens = 1;
  row.traffic = {1000, 200, 30};
  row.floor_us = 10.0;
  row.memory = {5000, 9};
  row.error = BenchError{code, "it says \"why\", and more", exit};
  return row;
}

BenchResult result_of(std::vector<BenchRow> rows) {
  BenchResult result;
  result.device.id = "fake:0";
  result.device.name = "A device";
  result.kernels = {{"kda", "1", "fake", "embedded"}, ImageName{"a.bin", "t1"}, {}};
  result.seed = 7;
  result.copy = {1'000'000, {{2.0, 4.0, 3.0}, {}, {}, 5}};
  result.rows = std::move(rows);
  return result;
}

std::string last_line(const std::string& text) {
  const std::size_t end = text.rfind('\n', text.size() - 2);
  return text.substr(end + 1);
}

TEST_CASE("JSON of a benchmark's row has every figure and all samples", "[probe]") {
  const Json json = Json::parse(to_json(Result(result_of({timed_row()}))));
  CHECK(json["schema"] == "kdart.probe/1");
  CHECK(json["command"] == "bench layer");
  CHECK(json["device"]["id"] == "fake:0");
  CHECK(json["kernel_set"]["name"] == "kda");
  CHECK(json["seed"] == 7);
  CHECK(json["repeats"].is_null());
  CHECK(json["pass"] == true);
  CHECK(json["copy_bandwidth"]["median_us"] == 3.0);
  CHECK(json["copy_bandwidth"]["bytes_per_second"] == 2.0 * 1e6 / 3.0 * 1e6);
  CHECK(json["copy_bandwidth"]["samples_us"] == Json::array({2.0, 4.0, 3.0}));
  const Json& row = json["results"][0];
  CHECK(row["geometry"] == "2,64,128");
  CHECK(row["mode"] == "prefill");
  CHECK(row["batch"] == 1);
  CHECK(row["call"] == "prefill");
  CHECK(row["graph"] == true);
  CHECK(row["route"] == "reference");
  CHECK(row["recurrent_kernel"] == "recurrent_smem");
  CHECK(row["prefill_gemm"] == Json{{"service", 5}, {"own", 2}});
  CHECK(row["median_us"] == 40.0);
  CHECK(row["min_us"] == 36.0);
  CHECK(row["us_per_token"] == 5.0);
  CHECK(row["p90_over_median"] == 1.1);
  CHECK(row["wall_us"] == 52.0);
  CHECK(row["submit_us"] == 6.0);
  CHECK(row["samples"] == 3);
  CHECK(row["calls_per_sample"] == 3);
  CHECK(row["bytes"] == Json{{"weights", 1000}, {"state", 200}, {"activations", 30}, {"total", 1230}});
  CHECK(row["over_floor"] == 4.0);
  CHECK(row["state_bytes_per_second"] == 200.0 / 40.0 * 1e6);
  CHECK(row["rotation"] ==
        Json{{"weight_sets", 2}, {"weight_set_bytes", 1000}, {"input_sets", 4}, {"input_set_bytes", 230}});
  CHECK(row["samples_us"] == Json::array({44.0, 40.0, 36.0}));
  CHECK(row["samples_wall_us"] == Json::array({50.0, 52.0, 54.0}));
  CHECK(row["error"].is_null());
}

TEST_CASE("a row that failed has its error and no time", "[probe]") {
  const BenchResult result = result_of({failed_row("out_of_device_memory", ExitCode::fault)});
  const Json json = Json::parse(to_json(Result(result)));
  const Json& row = json["results"][0];
  CHECK(row["error"] == Json{{"code", "out_of_device_memory"}, {"message", "it says \"why\", and more"}, {"exit", 6}});
  for (const char* figure :
       {"median_us", "min_us", "us_per_token", "p90_over_median", "wall_us", "submit_us", "over_floor",
        "state_bytes_per_second", "route", "recurrent_kernel", "prefill_gemm", "call"}) {
    INFO(figure);
    CHECK(row[figure].is_null());
  }
  CHECK(row["samples"] == 0);
  CHECK(row["samples_us"].empty());
  CHECK(row["memory"] == Json{{"needed", 5000}, {"free", 9}});
  CHECK(json["pass"] == false);
  CHECK_THAT(bench_text(result), ContainsSubstring("kimi-k3 decode of 1: out_of_device_memory: it says \"why\""));
}

TEST_CASE("a benchmark of the core says so and names the batch in its errors", "[probe]") {
  BenchRow row = failed_row("out_of_device_memory", ExitCode::fault);
  row.batch = 32;
  BenchResult result = result_of({row});
  result.of = BenchOf::core;
  CHECK(Json::parse(to_json(Result(result)))["command"] == "bench core");
  CHECK(Json::parse(to_json(Result(result)))["results"][0]["batch"] == 32);
  CHECK_THAT(bench_text(result), ContainsSubstring("kimi-k3 decode of 1 of each of 32 sequences: out_of_device"));
}

TEST_CASE("the exit code is that of the first error before that of a failed check", "[probe]") {
  const BenchRow wrong = failed_row("check_failed", ExitCode::check_failed);
  const BenchRow full = failed_row("out_of_device_memory", ExitCode::fault);
  const BenchRow other = failed_row("driver_error", ExitCode::other);
  CHECK(result_of({timed_row()}).exit() == ExitCode::ok);
  CHECK(result_of({timed_row(), wrong}).exit() == ExitCode::check_failed);
  CHECK(result_of({wrong, timed_row(), full, other}).exit() == ExitCode::fault);
  CHECK(result_of({other, full}).exit() == ExitCode::other);
  CHECK(result_of({}).exit() == ExitCode::check_failed);
}

TEST_CASE("the text of a benchmark ends in its table", "[probe]") {
  const std::string text = bench_text(result_of({failed_row("driver_error", ExitCode::other), timed_row()}));
  CHECK_THAT(text, ContainsSubstring("666.7 GB/s"));
  CHECK_THAT(last_line(text),
             StartsWith("2,64,128  prefill       8      1  yes    reference  prefill  5 service 2 own"));
  CHECK_THAT(last_line(text),
             ContainsSubstring(" 40.0 ") && ContainsSubstring(" 4.00 ") && ContainsSubstring(" 1.10 "));
}

TEST_CASE("CSV quotes what needs it and leaves unmeasured fields empty", "[probe]") {
  const std::string csv = bench_csv(result_of({failed_row("driver_error", ExitCode::other), timed_row()}));
  const std::size_t first = csv.find('\n') + 1;
  const std::size_t second = csv.find('\n', first) + 1;
  CHECK_THAT(csv, StartsWith("device,geometry,mode,tokens,batch,graph,call,route,gemm,median_us,min_us,us_per_token,"));
  CHECK_THAT(csv.substr(first, second - first), StartsWith("fake:0,kimi-k3,decode,1,1,no,,,,,,,,,,,,1230,") &&
                                                    EndsWith(",driver_error,\"it says \"\"why\"\", and more\"\n"));
  CHECK_THAT(
      csv.substr(second),
      StartsWith("fake:0,\"2,64,128\",prefill,8,1,yes,prefill,reference,5 service 2 own,40,36,5,52,6,1.1,3,3,1230,"));
}

TEST_CASE("Markdown has as many cells in every line of the table", "[probe]") {
  const std::string text = bench_markdown(result_of({timed_row(), failed_row("driver_error", ExitCode::other)}));
  std::vector<std::ptrdiff_t> bars;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = text.find('\n', start);
    const std::string line = text.substr(start, end - start);
    if (line.starts_with('|')) bars.push_back(std::count(line.begin(), line.end(), '|'));
    start = end + 1;
  }
  REQUIRE(bars.size() == 4);
  CHECK(std::count(bars.begin(), bars.end(), bars.front()) == 4);
  CHECK_THAT(text, StartsWith("fake:0 A device") && EndsWith("driver_error: it says \"why\", and more\n"));
}

}  // namespace
}  // namespace kdart::probe
