// The bench of launches on the CPU, and how its results look.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include "bench_render.h"
#include "commands.h"
#include "kdart/forwarding_backend.h"
#include "kdart/kda_kernels.h"
#include "kdart/registry.h"
#include "render.h"

namespace kdart::probe {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using Json = nlohmann::ordered_json;

// Loses the launches that it is given, or those of a capture.
class Losing final : public ForwardingBackend {
 public:
  static std::shared_ptr<Losing> over(std::shared_ptr<GpuBackend> inner, bool in_captures) {
    return std::shared_ptr<Losing>(new Losing(std::move(inner), in_captures));
  }
  ~Losing() override { shut_down(); }

 protected:
  void do_launch(Native kernel, const LaunchRecord& record, Native stream) override {
    if (in_captures_ && !capturing_) ForwardingBackend::do_launch(kernel, record, stream);
  }
  void do_begin_capture(Native stream) override {
    capturing_ = true;
    ForwardingBackend::do_begin_capture(stream);
  }

 private:
  Losing(std::shared_ptr<GpuBackend> inner, bool in_captures)
      : ForwardingBackend(std::move(inner)), in_captures_(in_captures) {}
  bool in_captures_;
  bool capturing_ = false;
};

LaunchBenchResult run(const std::shared_ptr<GpuBackend>& backend, std::uint32_t repeats) {
  LaunchBenchOptions options;
  options.repeats = repeats;
  return run_bench_launch(backend, KernelSet::embedded(kernels::kda_contract(), "cpu"), options);
}

TEST_CASE("launches are timed as often as was asked and in a graph too", "[probe]") {
  const LaunchBenchResult result = run(open_device("cpu:0"), 4);
  CHECK(result.exit() == ExitCode::ok);
  REQUIRE(result.rows.size() == 1);
  const LaunchRow& row = result.rows.front();
  CHECK_FALSE(row.context);
  CHECK(row.kdart_us.size() == 4);
  CHECK(smallest(row.kdart_us) > 0.0);
  CHECK(row.bare_us.empty());
  CHECK_THAT(row.bare_missing, ContainsSubstring("cpu:0"));
  CHECK(result.graph.timing.device_us.size() == 4);
  CHECK(result.graph.us_per_kernel() > 0.0);
}

TEST_CASE("what does not run gets no time", "[probe]") {
  const LaunchBenchResult lost = run(Losing::over(open_device("cpu:0"), false), 2);
  REQUIRE(lost.rows.size() == 1);
  REQUIRE(lost.rows[0].error);
  CHECK_THAT(lost.rows[0].error->message, ContainsSubstring("256 of 256 elements are not 1"));
  CHECK(lost.rows[0].kdart_us.empty());
  CHECK(lost.exit() != ExitCode::ok);

  const LaunchBenchResult in_graph = run(Losing::over(open_device("cpu:0"), true), 2);
  CHECK_FALSE(in_graph.rows[0].error);
  REQUIRE(in_graph.graph.error);
  CHECK(in_graph.graph.timing.device_us.empty());
  CHECK(in_graph.exit() != ExitCode::ok);
}

LaunchBenchResult sample() {
  LaunchBenchResult result;
  result.device.id = "fake:0";
  result.device.name = "A device";
  result.kernels = {{"kda", "1", "fake", "embedded"}, ImageName{"a.bin", "t1"}, {}};
  result.launches_per_sample = 500;
  LaunchRow current;
  current.context = ContextState::current;
  current.kdart_us = {2.2, 2.0, 2.1};
  current.bare_us = {2.0, 2.0, 3.0};
  LaunchRow none;
  none.context = ContextState::none;
  none.error = BenchError{"driver_error", "it says \"why\", and more", ExitCode::other};
  result.rows = {current, none};
  result.graph.kernels = 500;
  result.graph.timing = {{700.0, 650.0, 600.0}, {}, {}, 2};
  return result;
}

TEST_CASE("JSON of launches has both figures their ratio and all samples", "[probe]") {
  const Json json = Json::parse(to_json(Result(sample())));
  CHECK(json["command"] == "bench launch");
  CHECK(json["kernel"] == "fill");
  CHECK(json["launches_per_sample"] == 500);
  const Json& row = json["results"][0];
  CHECK(row["context"] == "current");
  CHECK(row["kdart_us"] == 2.1);
  CHECK(row["bare_us"] == 2.0);
  CHECK(row["ratio"] == 2.1 / 2.0);
  CHECK(row["samples"] == 3);
  CHECK(row["kdart_samples_us"] == Json::array({2.2, 2.0, 2.1}));
  CHECK(row["bare_samples_us"] == Json::array({2.0, 2.0, 3.0}));
  CHECK(row["bare_missing"].is_null());
  CHECK(row["error"].is_null());
  const Json& failed = json["results"][1];
  CHECK(failed["kdart_us"].is_null());
  CHECK(failed["ratio"].is_null());
  CHECK(failed["error"]["exit"] == 70);
  CHECK(json["graph"]["kernels"] == 500);
  CHECK(json["graph"]["us_per_kernel"] == 1.3);
  CHECK(json["graph"]["samples_us"] == Json::array({700.0, 650.0, 600.0}));
  CHECK(json["pass"] == false);
  CHECK(sample().exit() == ExitCode::other);
}

TEST_CASE("the tables of launches", "[probe]") {
  LaunchBenchResult result = sample();
  const std::string text = launch_text(result);
  CHECK_THAT(text, ContainsSubstring("current            2.100  2.000            2.000  2.000  1.050        3"));
  CHECK_THAT(text, ContainsSubstring("none: driver_error: it says"));
  CHECK_THAT(text, ContainsSubstring("1.300 us per kernel"));
  const std::string csv = launch_csv(result);
  CHECK_THAT(csv, StartsWith("device,context,kdart_us,kdart_min_us,bare_us,bare_min_us,ratio,samples,"));
  CHECK_THAT(csv, ContainsSubstring("\nfake:0,current,2.1,2,2,2,1.05,3,,,\n"));
  CHECK_THAT(csv, ContainsSubstring("\nfake:0,none,,,,,,0,,driver_error,\"it says \"\"why\"\", and more\"\n"));
  CHECK_THAT(csv, ContainsSubstring("\nfake:0,graph,1.3,1.2,,,,3,,,\n"));
  CHECK_THAT(launch_markdown(result), ContainsSubstring("| current | 2.100 | 2.000 | 2.000 | 2.000 | 1.050 | 3 |"));

  result.rows.resize(1);
  result.rows[0] = {std::nullopt, {3.0}, {}, "there is none", {}};
  CHECK_THAT(launch_text(result), ContainsSubstring("no figure of the driver's own: there is none"));
  CHECK_THAT(launch_csv(result), ContainsSubstring("\nfake:0,,3,3,,,,1,there is none,,\n"));
  const Json json = Json::parse(to_json(Result(result)));
  CHECK(json["results"][0]["context"].is_null());
  CHECK(json["results"][0]["bare_us"].is_null());
  CHECK(json["results"][0]["bare_missing"] == "there is none");
  CHECK(json["pass"] == true);
}

}  // namespace
}  // namespace kdart::probe
