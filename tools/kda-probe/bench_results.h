// The figures of `bench layer` and `bench core`, as plain values; results.h has the whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench_figures.h"
#include "bench_timer.h"
#include "exit_codes.h"
#include "kdart/layer.h"
#include "modes.h"

namespace kdart::probe {

// A large copy inside device memory: what the device's memory gives at best.
struct CopyBandwidth {
  std::uint64_t buffer_bytes = 0;  // copied per call: read once, written once
  Timing timing;
  [[nodiscard]] double median_us() const { return median(timing.device_us); }
  [[nodiscard]] double bytes_per_second() const { return 2.0 * static_cast<double>(buffer_bytes) / median_us() * 1e6; }
};

// How many copies of its operands a row took in turns, so that no call finds its own in a cache.
struct Rotation {
  std::uint32_t weight_sets = 0;
  std::uint64_t weight_set_bytes = 0;
  std::uint32_t input_sets = 0;
  std::uint64_t input_set_bytes = 0;  // states, rows in, rows out
};

struct BenchMemory {
  std::uint64_t needed = 0;  // by the row beyond what is live: at least one set, and the workspace
  std::uint64_t free = 0;
};

struct BenchError {
  std::string code, message;
  ExitCode exit = ExitCode::other;
};

struct BenchRow {
  std::string geometry;
  Mode mode = Mode::decode;
  std::uint32_t tokens = 0;
  std::uint32_t batch = 1;  // sequences
  bool graph = false;
  std::string call;               // what was timed: a function of the layer, or a kernel
  std::optional<KdaRoute> route;  // none when no layer could be made
  std::string recurrent_kernel;
  std::optional<KdaPrefillGemm> prefill_gemm{};  // of a prefill with its products
  Traffic traffic;
  std::uint64_t flops = 0;
  double floor_us = 0.0;
  Rotation rotation;
  BenchMemory memory;
  Timing timing;  // empty when there is an error
  std::optional<BenchError> error;

  [[nodiscard]] double median_us() const { return median(timing.device_us); }
  // At which the states moved.
  [[nodiscard]] double state_bytes_per_second() const { return static_cast<double>(traffic.state) / median_us() * 1e6; }
  // How far the slow samples are from the middle one: the 90th percentile over the median.
  [[nodiscard]] double deviation() const { return percentile(timing.device_us, 0.9) / median_us(); }
};

}  // namespace kdart::probe
