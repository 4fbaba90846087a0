// The figures of `bench layer` and `bench core`, as plain values; results.h has the whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
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

// Whether the device's context is the calling thread's current one before a launch, as in an engine that uses CUDA itself.
enum class ContextState : std::uint8_t { current, none };
[[nodiscard]] std::string_view to_string(ContextState state) noexcept;

// What submitting a launch costs the host.
struct LaunchRow {
  std::optional<ContextState> context;  // none on devices that know no contexts
  std::vector<double> kdart_us;         // per launch, by KernelLaunch; a value per sample
  std::vector<double> bare_us;          // per launch, by the driver's own call; empty where there is none
  std::string bare_missing;             // why
  std::optional<BenchError> error;

  [[nodiscard]] double ratio() const { return median(kdart_us) / median(bare_us); }
};

// What a launch costs the device in a captured graph.
struct GraphLaunchRow {
  std::uint32_t kernels = 0;
  Timing timing;  // of whole graphs
  std::optional<BenchError> error;

  [[nodiscard]] double us_per_kernel() const { return median(timing.device_us) / kernels; }
};

}  // namespace kdart::probe
