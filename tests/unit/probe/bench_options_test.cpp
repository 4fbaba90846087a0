#include "bench_options.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "exit_codes.h"

namespace kdart::probe {
namespace {

using Catch::Matchers::ContainsSubstring;
using Words = std::vector<std::string>;

std::vector<std::string> names_of(const std::vector<Geometry>& geometries) {
  std::vector<std::string> names;
  for (const Geometry& geometry : geometries) names.push_back(geometry.name);
  return names;
}

TEST_CASE("no geometry means all that have a name", "[probe]") {
  const auto chosen = geometries({});
  CHECK(names_of(chosen) == Words{"kimi-linear", "kimi-k3", "glm-5.3-flash"});
  CHECK(chosen[1].config == named_geometry("kimi-k3"));
}

TEST_CASE("three numbers in a row are a geometry of its own", "[probe]") {
  const auto chosen = geometries({"kimi-linear", "2", "64", "128", "4", "128", "256"});
  CHECK(names_of(chosen) == Words{"kimi-linear", "2,64,128", "4,128,256"});
  const KdaConfig& config = chosen[1].config;
  CHECK(config.heads == 2);
  CHECK(config.head_dim == 64);
  CHECK(config.hidden_size == 128);
  CHECK(config.decay_rank == 64);
  CHECK(config.output_gate_rank == 64);
  CHECK_NOTHROW(config.validate());
}

TEST_CASE("a geometry that is none is a usage error that says why", "[probe]") {
  struct Wrong {
    Words words;
    std::string says;
  };
  const Wrong wrong =
      GENERATE(Wrong{{"nosuch"}, "kimi-k3"}, Wrong{{""}, "kimi-k3"}, Wrong{{"2"}, "missing"},
               Wrong{{"2", "64"}, "missing"}, Wrong{{"2", "64", "kimi-k3"}, "missing"}, Wrong{{"2", "96", "128"}, "96"},
               Wrong{{"0", "64", "128"}, "heads"}, Wrong{{"2", "64", "100"}, "100"},
               Wrong{{"2", "64", "128", "nosuch"}, "nosuch"}, Wrong{{"-2", "64", "128"}, "-2"});
  try {
    const auto chosen = geometries(wrong.words);
    FAIL("accepted " << chosen.size() << " geometries");
  } catch (const Failure& failure) {
    CHECK(failure.code() == "usage");
    CHECK(failure.exit() == ExitCode::usage);
    CHECK_THAT(failure.what(), ContainsSubstring("--geometry") && ContainsSubstring(wrong.says));
  }
}

TEST_CASE("what is timed by default depends on the type of the device", "[probe]") {
  BenchOptions options;
  options.modes = {Mode::decode, Mode::decode_k, Mode::prefill};
  CHECK(bench_cases(options, DeviceType::cpu) ==
        std::vector<BenchCase>{{Mode::decode, 1}, {Mode::decode_k, 4}, {Mode::prefill, 64}});
  CHECK(bench_cases(options, DeviceType::discrete) == std::vector<BenchCase>{{Mode::decode, 1},
                                                                             {Mode::decode_k, 4},
                                                                             {Mode::decode_k, 16},
                                                                             {Mode::prefill, 512},
                                                                             {Mode::prefill, 2048},
                                                                             {Mode::prefill, 8192}});
}

TEST_CASE("tokens are those of prefill, and of decode_k where it is the only mode", "[probe]") {
  BenchOptions options;
  options.tokens = {3, 5};
  options.modes = {Mode::decode, Mode::decode_k, Mode::prefill};
  CHECK(bench_cases(options, DeviceType::cpu) ==
        std::vector<BenchCase>{{Mode::decode, 1}, {Mode::decode_k, 4}, {Mode::prefill, 3}, {Mode::prefill, 5}});
  options.modes = {Mode::decode_k};
  CHECK(bench_cases(options, DeviceType::cpu) == std::vector<BenchCase>{{Mode::decode_k, 3}, {Mode::decode_k, 5}});
  options.modes = {Mode::decode};
  CHECK(bench_cases(options, DeviceType::cpu) == std::vector<BenchCase>{{Mode::decode, 1}});
}

TEST_CASE("batches take the place of calls", "[probe]") {
  BenchOptions options;
  options.of = BenchOf::core;
  options.modes = {Mode::decode};
  options.batches = {1, 32};
  CHECK(bench_cases(options, DeviceType::cpu) == std::vector<BenchCase>{{Mode::decode, 1, 1}, {Mode::decode, 1, 32}});
}

}  // namespace
}  // namespace kdart::probe
