// Takes a layer through a sequence on the device under test and compares what it leaves with the float64 truth.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kdart/layer.h"
#include "kdart/owned.h"
#include "tests/support/device.h"

namespace kdart::test {

// One sequence and the states it starts from, on the host.
struct Input {
  std::uint32_t tokens = 0;
  std::vector<bf16> hidden;      // [tokens, hidden_size]
  std::vector<float> recurrent;  // [H, D, D] key-major
  std::vector<float> conv;       // [3 * qkv, 4], slot 0 is 0
};
[[nodiscard]] Input random_input(const KdaConfig& config, std::uint32_t tokens, std::uint64_t seed);
// Tokens [first, first + tokens) of `input`, starting from its states.
[[nodiscard]] Input slice(const Input& input, std::uint32_t first, std::uint32_t tokens);

// What a run leaves, on the host.
struct Output {
  std::vector<bf16> out;
  std::vector<float> recurrent;
  std::vector<float> conv;  // slot 0 is 0
};
// "" when every bit agrees; else which tensor differs, where first and in how many elements.
[[nodiscard]] std::string difference(const Output& a, const Output& b);

struct Truth {
  std::vector<float> out, recurrent, conv;  // float64, rounded once
};
[[nodiscard]] Truth truth_of(const KdaWeights& weights, const Input& input);

// kda.md's figures; NaN when anything is not finite.
struct Figures {
  double out = 0;
  double recurrent = 0;
  double conv_excess = 0;  // passes when <= 0
};
[[nodiscard]] Figures measure(const Output& output, const Truth& truth);
// Catch2 checks of all three.
void check_figures(const Figures& figures, double out_bound, double recurrent_bound);

enum class Call : std::uint8_t { decode, decode_k, prefill };
struct Piece {
  Call call;
  std::uint32_t tokens;
};
using Pieces = std::vector<Piece>;
[[nodiscard]] Pieces decode_each(std::uint32_t tokens);
[[nodiscard]] Pieces decode_cycle(std::uint32_t tokens);  // decode_k of 1, 2, 3, 5, 8, 16, 21, 1, ..
[[nodiscard]] Pieces prefill_whole(std::uint32_t tokens);
[[nodiscard]] Pieces prefill_cut(std::uint32_t cut, std::uint32_t tokens);

// The chunks that a layer of this geometry can use on a device: 16, and 32 where shared memory is enough for it.
[[nodiscard]] std::vector<std::uint32_t> usable_chunks(const KdaConfig& config, const GpuBackend& device);

// A layer with a stream, a state and a workspace of its own.
class LayerRunner {
 public:
  LayerRunner(const std::shared_ptr<const KdaDeviceWeights>& weights, std::uint32_t max_tokens, KdaOptions options = {},
              std::uint32_t max_tokens_per_launch = 0);

  [[nodiscard]] Output run(const Input& input, const Pieces& pieces);

  // The same in steps, for tests that do something in between.
  void start(const Input& input);                        // states and hidden go to the device
  void submit(const Piece& piece, std::uint32_t first);  // calls the layer for tokens [first, first + piece.tokens)
  [[nodiscard]] Output finish();                         // waits and fetches; out of all tokens

  [[nodiscard]] const KdaLayer& layer() const { return layer_; }
  [[nodiscard]] const std::shared_ptr<GpuBackend>& backend() const { return backend_; }
  [[nodiscard]] Stream stream() const { return stream_.get(); }
  [[nodiscard]] KdaState& state() { return state_; }
  [[nodiscard]] KdaWorkspace& workspace() { return workspace_; }
  [[nodiscard]] DevicePtr hidden(std::uint32_t row) const;
  [[nodiscard]] DevicePtr out(std::uint32_t row) const;

 private:
  std::shared_ptr<GpuBackend> backend_;
  OwnedStream stream_;
  KdaLayer layer_;
  KdaState state_;
  KdaWorkspace workspace_;
  Buffer hidden_, out_;
  std::uint32_t tokens_ = 0;
};

// Both states of a sequence, on the host, in kdart's layouts.
struct HostState {
  std::vector<float> recurrent, conv;
};
[[nodiscard]] HostState fetch(const KdaState& state);
// The same from two plain addresses, slot 0 of the window cleared as an export would.
[[nodiscard]] HostState fetch(GpuBackend& backend, const KdaConfig& config, const StateSnapshot& snapshot);
[[nodiscard]] std::string difference(const HostState& a, const HostState& b);

template <class T>
[[nodiscard]] std::vector<T> download(GpuBackend& backend, DevicePtr source, std::size_t elements) {
  std::vector<T> result(elements);
  backend.copy_d2h(result.data(), source, elements * sizeof(T));
  return result;
}
template <class T>
[[nodiscard]] Buffer upload(const std::shared_ptr<GpuBackend>& backend, const std::vector<T>& source) {
  Buffer result(backend, source.size() * sizeof(T));
  backend->copy_h2d(result.get(), source.data(), result.bytes());
  return result;
}

}  // namespace kdart::test
