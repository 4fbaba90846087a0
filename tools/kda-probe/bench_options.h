// What `bench layer` and `bench core` are asked to time, and the list of cases that comes of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "geometry.h"
#include "kdart/device_info.h"
#include "kdart/layer.h"
#include "modes.h"

namespace kdart::probe {

// Whole calls of the layer, or those of its core, whose inputs are projected already.
enum class BenchOf : std::uint8_t { layer, core };

struct BenchOptions {
  BenchOf of = BenchOf::layer;
  std::vector<Geometry> geometries;
  std::string device = "cpu:0";
  std::vector<Mode> modes;             // of decode, decode_k, prefill
  std::vector<std::uint32_t> tokens;   // per prefill call, or of decode_k where that is the only mode; empty: defaults
  std::vector<std::uint32_t> batches;  // of core in mode decode: time the recurrent kernel with so many rows instead
  bool graph = false;                  // time replays of a captured call as well
  std::optional<std::uint32_t> repeats;  // samples per row; unset: 50, fewer where they would take too long
  std::uint64_t seed = 0;
  KdaRoute route = KdaRoute::automatic;
  KdaGemm gemm = KdaGemm::automatic;
  std::vector<std::string> without;
  std::optional<std::filesystem::path> kernel_set;
};

struct LaunchBenchOptions {
  std::string device = "cpu:0";
  std::optional<std::uint32_t> repeats;  // samples per row; unset: what 5 seconds allow
  std::optional<std::filesystem::path> kernel_set;
};

// One kind of call.
struct BenchCase {
  Mode mode;
  std::uint32_t tokens;     // per call
  std::uint32_t batch = 0;  // 0: a call for one sequence; else the recurrent kernel alone, a token of so many sequences
  friend bool operator==(const BenchCase&, const BenchCase&) = default;
};
// Those of each geometry, in the order of `options.modes`.
[[nodiscard]] std::vector<BenchCase> bench_cases(const BenchOptions& options, DeviceType type);

}  // namespace kdart::probe
