#include "bench_work.h"

#include <algorithm>
#include <span>

#include "bench_figures.h"
#include "tools/reference/random_model.h"

namespace kdart::probe {
namespace {

// What calls of the layer and of its core have in common: two states, rows in, bf16 rows out.
class SequenceWork : public BenchWork {
 public:
  [[nodiscard]] std::size_t sets() const noexcept override { return sets_.size(); }
  [[nodiscard]] const std::vector<float>& start() const noexcept override { return recurrent_; }

  void rewind() override {
    Set& set = sets_.front();
    set.state.import_recurrent(recurrent_);
    set.state.import_conv(conv_);
    backend_->fill(set.out.get(), 0xFFFF, sizeof(bf16), set.out.bytes() / sizeof(bf16), stream_);  // NaN everywhere
  }

  [[nodiscard]] BenchRun fetch() override {
    BenchRun run = fetch_out(0);
    run.recurrent.resize(recurrent_.size());
    run.conv.resize(conv_.size());
    sets_.front().state.export_recurrent(std::span<float>(run.recurrent));
    sets_.front().state.export_conv(std::span<float>(run.conv));
    return run;
  }

  [[nodiscard]] BenchRun fetch_out(std::size_t set) override {
    const Buffer& out = sets_[set].out;
    BenchRun run;
    run.out.resize(out.bytes() / sizeof(bf16));
    backend_->copy_d2h(run.out.data(), out.get(), out.bytes());
    return run;
  }

 protected:
  struct Set {
    KdaState state;
    Buffer in, out;
  };

  SequenceWork(const BenchLayers& layers, Stream stream, BenchCase what, std::uint64_t seed)
      : layers_(layers),
        backend_(layers.front().backend()),
        stream_(stream),
        what_(what),
        workspace_(backend_, layers.front().config(), what.tokens, backend_->info().limits.max_tokens_per_launch),
        recurrent_(reference::random_recurrent(layers.front().config(), seed)),
        conv_(reference::random_conv(layers.front().config(), seed)) {}

  // `in` has rows of `width` random numbers.
  void add_set(std::uint32_t width, std::uint64_t out_bytes, std::uint64_t seed) {
    KdaConfig rows = config();
    rows.hidden_size = width;
    const std::vector<bf16> in = reference::random_hidden(rows, what_.tokens, seed);
    const std::uint64_t bytes = in.size() * sizeof(bf16);
    Set set{KdaState(backend_, config()), Buffer(backend_, bytes), Buffer(backend_, out_bytes)};
    backend_->copy_h2d(set.in.get(), in.data(), bytes);
    set.state.import_recurrent(reference::random_recurrent(config(), seed));
    set.state.import_conv(reference::random_conv(config(), seed));
    sets_.push_back(std::move(set));
  }

  [[nodiscard]] const KdaConfig& config() const noexcept { return layers_.front().config(); }

  const BenchLayers& layers_;
  std::shared_ptr<GpuBackend> backend_;
  Stream stream_;
  BenchCase what_;
  KdaWorkspace workspace_;
  std::vector<float> recurrent_, conv_;  // what set 0 starts from
  std::vector<Set> sets_;
};

class LayerWork final : public SequenceWork {
 public:
  LayerWork(const BenchLayers& layers, Stream stream, BenchCase what, std::uint32_t sets, std::uint64_t seed)
      : SequenceWork(layers, stream, what, seed) {
    for (std::uint32_t i = 0; i < sets; ++i) add_set(config().hidden_size, row_bytes(config(), what.tokens), seed + i);
  }

  void call(std::size_t index) override {
    const KdaLayer& layer = layers_[index % layers_.size()];
    Set& set = sets_[index];
    if (what_.mode == Mode::decode) {
      layer.decode(set.in.get(), set.state, workspace_, stream_, set.out.get());
    } else if (what_.mode == Mode::decode_k) {
      layer.decode_k(set.in.get(), what_.tokens, set.state, workspace_, {}, stream_, set.out.get());
    } else {
      layer.prefill(set.in.get(), what_.tokens, set.state, workspace_, stream_, set.out.get());
    }
  }
};

class CoreWork final : public SequenceWork {
 public:
  CoreWork(const BenchLayers& layers, Stream stream, BenchCase what, std::uint32_t sets, std::uint64_t seed)
      : SequenceWork(layers, stream, what, seed) {
    const std::uint32_t width = 5 * config().qkv() + config().heads;
    for (std::uint32_t i = 0; i < sets; ++i) add_set(width, core_row_bytes(config(), what.tokens), seed + i);
  }

  void call(std::size_t index) override {
    const KdaLayer& layer = layers_[index % layers_.size()];
    Set& set = sets_[index];
    // The six inputs one behind the other.
    const std::uint64_t bytes = core_row_bytes(config(), what_.tokens);
    const auto at = [&](std::uint64_t i) { return set.in.get().offset(i * bytes); };
    const KdaCoreInputs inputs{.q = at(0), .k = at(1), .v = at(2), .f = at(3), .b = at(5), .z = at(4)};
    if (is_prefill(what_.mode)) {
      layer.prefill_core(inputs, what_.tokens, set.state, workspace_, stream_, set.out.get());
    } else {
      layer.decode_k_core(inputs, what_.tokens, set.state, workspace_, {}, stream_, set.out.get());
    }
  }
};

}  // namespace

std::string call_name(BenchOf of, const BenchCase& what, const KdaLayer& layer) {
  if (what.batch != 0) return std::string(layer.recurrent_kernel());
  if (of == BenchOf::layer) return std::string(to_string(what.mode));
  return is_prefill(what.mode) ? "prefill_core" : "decode_k_core";
}

std::uint64_t input_set_bytes(const KdaConfig& config, BenchOf of, const BenchCase& what) noexcept {
  if (what.batch != 0) {
    const Traffic moved = recurrent_traffic(config, what.batch);
    return moved.state / 2 + moved.activations;
  }
  if (of == BenchOf::layer) return state_bytes(config) + 2 * row_bytes(config, what.tokens);
  return state_bytes(config) + core_input_bytes(config, what.tokens) + core_row_bytes(config, what.tokens);
}

std::uint64_t shared_bytes(const KdaConfig& config, const BenchCase& what, const DeviceLimits& limits) {
  return what.batch != 0 ? 0 : KdaWorkspace::bytes(config, what.tokens, limits.max_tokens_per_launch);
}

std::unique_ptr<BenchWork> make_work(BenchOf of, const BenchLayers& layers, Stream stream, BenchCase what,
                                     std::uint32_t sets, std::uint64_t seed) {
  if (what.batch != 0) return make_recurrent_work(layers.front(), stream, what.batch, sets, seed);
  if (of == BenchOf::layer) return std::make_unique<LayerWork>(layers, stream, what, sets, seed);
  return std::make_unique<CoreWork>(layers, stream, what, sets, seed);
}

}  // namespace kdart::probe
