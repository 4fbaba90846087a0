// What a benchmark times: calls of one kind, with all that they need on the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench_options.h"
#include "figures.h"
#include "kdart/layer.h"
#include "kdart/owned.h"

namespace kdart::probe {

// A layer per copy of the weights.
using BenchLayers = std::vector<KdaLayer>;

// What a call left behind.
struct BenchRun : RunResult {
  std::vector<float> wide_out;  // in place of `out` where rows are f32
};

// Sets of operands that take turns, so that no call finds its own in a cache. Not for more than one thread.
class BenchWork {
 public:
  virtual ~BenchWork() = default;
  BenchWork(const BenchWork&) = delete;
  BenchWork& operator=(const BenchWork&) = delete;

  [[nodiscard]] virtual std::size_t sets() const noexcept = 0;
  // Submits the call of one set.
  virtual void call(std::size_t set) = 0;
  // Puts set 0's states back to where they were at first and NaN into all of its rows out. Its stream is idle.
  virtual void rewind() = 0;
  // Set 0's states and rows out. The stream is idle. What is too much to look at is left out.
  [[nodiscard]] virtual BenchRun fetch() = 0;
  // The rows out of a set. The stream is idle.
  [[nodiscard]] virtual BenchRun fetch_out(std::size_t set) = 0;
  // What `recurrent` of fetch() is before the first call.
  [[nodiscard]] virtual const std::vector<float>& start() const noexcept = 0;

 protected:
  BenchWork() = default;
};

// What is timed with `what`: "prefill", "decode_k_core", "recurrent_smem".
[[nodiscard]] std::string call_name(BenchOf of, const BenchCase& what, const KdaLayer& layer);

// Device memory of one set of operands, and what all sets share.
[[nodiscard]] std::uint64_t input_set_bytes(const KdaConfig& config, BenchOf of, const BenchCase& what) noexcept;
[[nodiscard]] std::uint64_t shared_bytes(const KdaConfig& config, const BenchCase& what, const DeviceLimits& limits);

// Makes `sets` (at least 1) sets of random operands. `layers` (not empty) outlive the work; set i uses layer i modulo their
// number. Throws what alloc and copies throw.
[[nodiscard]] std::unique_ptr<BenchWork> make_work(BenchOf of, const BenchLayers& layers, Stream stream, BenchCase what,
                                                   std::uint32_t sets, std::uint64_t seed);
// The recurrent kernel alone: what make_work gives for a batch.
[[nodiscard]] std::unique_ptr<BenchWork> make_recurrent_work(const KdaLayer& layer, Stream stream, std::uint32_t rows,
                                                             std::uint32_t sets, std::uint64_t seed);

}  // namespace kdart::probe
