// Runs one layer through the probe's modes on one device and compares every run with the truth.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "figures.h"
#include "kdart/layer.h"
#include "kdart/owned.h"
#include "modes.h"
#include "tools/reference/cases.h"
#include "tools/reference/reference.h"

namespace kdart::probe {

// One case in one mode.
struct ResultRow {
  std::string case_name;
  Mode mode = Mode::decode;
  std::uint32_t tokens = 0;
  KdaRoute route = KdaRoute::reference;
  Figures figures;
  std::optional<bool> bits_equal_decode;     // decode_k only
  std::optional<bool> bits_equal_recurrent;  // decode and decode_k, where both recurrent kernels can run
  OutBounds bounds;
  bool pass = false;
  double seconds_per_token = 0.0;
  // Of what the run left; of prefill_split, of the hashes of all its runs behind one another.
  std::string out_sha256, state_sha256;
};

// Called when a layer call has finished, with the number of tokens it took. Empty: the calls of a run are submitted one
// behind the other and waited for once.
using OnTokens = std::function<void(std::uint32_t tokens)>;

class LayerRunner {
 public:
  // Uploads the weights; they may be freed afterwards. `workspace` holds at least longest_piece(modes, tokens) of every
  // mode and case that is run later. Throws what KdaLayer's constructor throws.
  LayerRunner(const std::shared_ptr<GpuBackend>& backend, KdaWorkspace workspace, const KdaWeights& weights,
              const KdaOptions& options);

  [[nodiscard]] const KdaLayer& layer() const noexcept { return layer_; }

  // One row per mode, in the order of `modes`; none for a mode that needs a longer sequence. The case must have the
  // layer's geometry. Throws what the layer and the device throw.
  [[nodiscard]] std::vector<ResultRow> run(const reference::Case& input, const std::vector<Mode>& modes,
                                           const OnTokens& on_tokens);

  // Tokens that run() will report through `on_tokens`.
  [[nodiscard]] std::uint64_t work(std::uint32_t tokens, const std::vector<Mode>& modes) const;

 private:
  struct Sequence;  // a case on the device

  RunResult execute(const KdaLayer& layer, const Sequence& sequence, const Pieces& pieces, const OnTokens& on_tokens);
  void submit(const KdaLayer& layer, const Sequence& sequence, const Piece& piece, std::uint64_t first);
  ResultRow run_decode(const Sequence& sequence, const RunResult& decoded, const OnTokens& on_tokens);
  ResultRow run_decode_k(const Sequence& sequence, const RunResult& decoded, const OnTokens& on_tokens);
  ResultRow run_prefill(const Sequence& sequence, Mode mode, const OnTokens& on_tokens);
  [[nodiscard]] std::optional<bool> equals_other_recurrent(const Sequence& sequence, const Pieces& pieces,
                                                           const RunResult& run, const OnTokens& on_tokens);

  std::shared_ptr<GpuBackend> backend_;
  OwnedStream stream_;
  KdaWorkspace workspace_;
  std::shared_ptr<const KdaDeviceWeights> weights_;
  KdaLayer layer_;
  std::optional<KdaLayer> other_;  // the same layer with the other recurrent kernel, where the set has both
  KdaState state_;
};

// Seeded random input for a layer, with its truth from the float64 reference and the base bounds. `rows` (ascending, below
// `tokens`): those of the result that the truth has; empty: all.
[[nodiscard]] reference::Case random_case(const KdaWeights& weights, std::uint32_t tokens, std::uint64_t seed,
                                          std::vector<std::uint64_t> rows = {},
                                          const reference::OnTokens& on_tokens = {});

}  // namespace kdart::probe
