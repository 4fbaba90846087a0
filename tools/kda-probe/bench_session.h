// Calls of one kind, checked before they are timed.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "bench_work.h"
#include "kdart/owned.h"

namespace kdart::probe {

// "" when `first` is a result and `second` has its bits; else what is wrong. `before` is the recurrent state that both
// runs started from.
[[nodiscard]] std::string wrong_with(const BenchRun& first, const BenchRun& second, const std::vector<float>& before);

class BenchSession {
 public:
  // `stream` is the one that `work` submits to.
  BenchSession(std::shared_ptr<GpuBackend> backend, Stream stream, std::unique_ptr<BenchWork> work)
      : backend_(std::move(backend)), stream_(stream), work_(std::move(work)) {}

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
  // Set 0 from its first state: poisons its rows, submits by `submit_set` and fetches what is left.
  template <class Submit>
  BenchRun run_first(const Submit& submit_set);

  std::shared_ptr<GpuBackend> backend_;
  Stream stream_;
  std::unique_ptr<BenchWork> work_;
  std::vector<OwnedGraph> graphs_;
  std::size_t next_ = 0;
};

}  // namespace kdart::probe
