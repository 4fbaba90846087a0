// One kind of layer call with all it needs on the device, checked before it is timed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench_options.h"
#include "bench_results.h"
#include "figures.h"
#include "kdart/layer.h"
#include "kdart/owned.h"

namespace kdart::probe {

// A layer per copy of the weights.
using BenchLayers = std::vector<KdaLayer>;

// What takes part in one call of a row: sets of inputs of this size, and a workspace.
[[nodiscard]] std::uint64_t input_set_bytes(const KdaConfig& config, std::uint32_t tokens) noexcept;
[[nodiscard]] std::uint64_t workspace_bytes(const KdaConfig& config, std::uint32_t tokens, const DeviceLimits& limits);

// "" when `first` is a result and `second` has its bits; else what is wrong. `before` is the recurrent state that both
// runs started from.
[[nodiscard]] std::string wrong_with(const RunResult& first, const RunResult& second, const std::vector<float>& before);

class BenchSession {
 public:
  // `layers` (not empty, and it outlives the session) and `input_sets` (at least 1, of paired_sets) sets of random inputs
  // take turns.
  BenchSession(const BenchLayers& layers, Stream stream, BenchCase what, std::uint32_t input_sets, std::uint64_t seed);

  // Captures the call of every set. From then on submit() replays instead of calling. Throws what capture throws.
  void capture();
  // The next call of the rotation.
  void submit();
  // Runs the first set's call twice from the same state, and compares. With graphs: once as a call, once as a replay.
  // Returns what wrong_with says.
  [[nodiscard]] std::string check();
  // "" when the rows that the last call wrote are finite: what is timed has not run into NaN.
  [[nodiscard]] std::string check_last();

 private:
  struct Set {
    KdaState state;
    Buffer hidden, out;
  };
  Set make_set(std::uint64_t seed) const;
  void call(std::size_t index);
  // Set 0 from its first state: poisons out, submits by `submit_set` and fetches what is left.
  template <class Submit>
  RunResult run_first(const Submit& submit_set);

  const BenchLayers& layers_;
  std::shared_ptr<GpuBackend> backend_;
  Stream stream_;
  BenchCase what_;
  KdaWorkspace workspace_;
  std::vector<float> recurrent_, conv_;  // what set 0 starts from
  std::vector<Set> sets_;
  std::vector<OwnedGraph> graphs_;
  std::size_t next_ = 0;
};

}  // namespace kdart::probe
