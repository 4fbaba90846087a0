// What `bench layer` is asked to time, and the list of cases that comes of it.
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

struct BenchOptions {
  std::vector<Geometry> geometries;
  std::string device = "cpu:0";
  std::vector<Mode> modes;            // of decode, decode_k, prefill
  std::vector<std::uint32_t> tokens;  // per prefill call, or of decode_k where that is the only mode; empty: defaults
  bool graph = false;                 // time replays of a captured call as well
  std::optional<std::uint32_t> repeats;  // samples per row; unset: 50, fewer where they would take too long
  std::uint64_t seed = 0;
  KdaRoute route = KdaRoute::automatic;
  std::vector<std::string> without;
  std::optional<std::filesystem::path> kernel_set;
};

// One kind of call.
struct BenchCase {
  Mode mode;
  std::uint32_t tokens;  // per call
  friend bool operator==(const BenchCase&, const BenchCase&) = default;
};
// Those of each geometry, in the order of `options.modes`.
[[nodiscard]] std::vector<BenchCase> bench_cases(const BenchOptions& options, DeviceType type);

}  // namespace kdart::probe
