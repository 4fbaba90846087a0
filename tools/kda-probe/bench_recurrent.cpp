// The recurrent kernel alone: one token of each of many sequences, as a batched decode will launch it.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "bench_figures.h"
#include "bench_work.h"
#include "kdart/kda_kernels.h"
#include "kdart/launch.h"
#include "tools/reference/random_model.h"
#include "tools/reference/scalar.h"

namespace kdart::probe {
namespace {

using kernels::RecurrentArgs;
using kernels::RecurrentSmemArgs;

constexpr std::string_view smem = "recurrent_smem";

class RecurrentWork final : public BenchWork {
 public:
  RecurrentWork(const KdaLayer& layer, Stream stream, std::uint32_t rows, std::uint32_t sets, std::uint64_t seed)
      : backend_(layer.backend()),
        kernels_(layer.kernels()),
        kernel_(kernels_->get(std::string(layer.recurrent_kernel()))),
        in_smem_(layer.recurrent_kernel() == smem),
        config_(layer.config()),
        stream_(stream),
        rows_(rows),
        state_(reference::random_recurrent(layer.config(), seed)),
        start_(state_) {
    if (rows_ > 1) start_.insert(start_.end(), state_.begin(), state_.end());
    for (std::uint32_t i = 0; i < sets; ++i) sets_.push_back(make_set(seed + i));
  }

  [[nodiscard]] std::size_t sets() const noexcept override { return sets_.size(); }
  [[nodiscard]] const std::vector<float>& start() const noexcept override { return start_; }

  void call(std::size_t index) override {
    const Set& set = sets_[index];
    if (in_smem_) {
      RecurrentSmemArgs args = arguments<RecurrentSmemArgs>(set);
      args.v_per_block = kernels_->tunable(smem, "v_per_block", 32);
      KernelLaunch(backend_, kernel_).args(args).launch(stream_);
    } else {
      KernelLaunch(backend_, kernel_).args(arguments<RecurrentArgs>(set)).launch(stream_);
    }
  }

  void rewind() override {
    fill_states(sets_.front());
    const Buffer& out = sets_.front().out;
    backend_->fill(out.get(), 0xFFFFFFFF, sizeof(float), out.bytes() / sizeof(float), stream_);  // NaN everywhere
  }

  // The first and the last sequence's state stand for all: a batch of them may be gigabytes.
  [[nodiscard]] BenchRun fetch() override {
    BenchRun run = fetch_out(0);
    run.recurrent.resize(start_.size());
    const std::uint64_t bytes = state_.size() * sizeof(float);
    for (std::size_t i = 0; i < run.recurrent.size() / state_.size(); ++i) {
      const std::uint64_t row = i == 0 ? 0 : rows_ - 1;
      backend_->copy_d2h(run.recurrent.data() + i * state_.size(), sets_.front().states.get().offset(row * bytes),
                         bytes);
    }
    return run;
  }

  [[nodiscard]] BenchRun fetch_out(std::size_t set) override {
    BenchRun run;
    run.wide_out.resize(sets_[set].out.bytes() / sizeof(float));
    backend_->copy_d2h(run.wide_out.data(), sets_[set].out.get(), sets_[set].out.bytes());
    return run;
  }

 private:
  struct Set {
    Buffer states, in, out;  // `in`: q, k, v, gate, beta one behind the other
  };

  [[nodiscard]] std::uint64_t row_elements() const { return std::uint64_t{rows_} * config_.qkv(); }

  Set make_set(std::uint64_t seed) const {
    const std::vector<float> in = inputs(seed);
    Set set{Buffer(backend_, rows_ * state_.size() * sizeof(float)), Buffer(backend_, in.size() * sizeof(float)),
            Buffer(backend_, row_elements() * sizeof(float))};
    backend_->copy_h2d(set.in.get(), in.data(), in.size() * sizeof(float));
    fill_states(set);
    return set;
  }

  // Every sequence starts from the same state; their inputs differ.
  void fill_states(const Set& set) const {
    const std::uint64_t one = state_.size() * sizeof(float);
    backend_->copy_h2d(set.states.get(), state_.data(), one);
    for (std::uint64_t done = one; done < set.states.bytes(); done *= 2) {
      const std::uint64_t bytes = std::min(done, set.states.bytes() - done);
      backend_->copy_d2d(set.states.get().offset(done), set.states.get(), bytes);
    }
  }

  // Such as a layer's front end gives: q and k about as long as 1, a decay of some percent, beta between 0 and 1.
  [[nodiscard]] std::vector<float> inputs(std::uint64_t seed) const {
    KdaConfig row = config_;
    row.hidden_size = 4 * config_.qkv() + config_.heads;
    std::vector<float> values;
    for (const bf16 x : reference::random_hidden(row, rows_, seed)) values.push_back(to_float(x));
    const std::uint64_t n = row_elements();
    const float unit = 1.0F / std::sqrt(static_cast<float>(config_.head_dim));
    for (std::uint64_t i = 0; i < 2 * n; ++i) values[i] *= unit;
    for (std::uint64_t i = 3 * n; i < 4 * n; ++i) values[i] = -0.05F * std::abs(values[i]);
    for (std::uint64_t i = 4 * n; i < values.size(); ++i) {
      values[i] = static_cast<float>(reference::sigmoid(static_cast<double>(values[i])));
    }
    return values;
  }

  template <class Args>
  [[nodiscard]] Args arguments(const Set& set) const {
    const auto at = [&](std::uint64_t i) { return set.in.get().offset(i * row_elements() * sizeof(float)); };
    const std::uint32_t width = config_.qkv();
    Args args{};
    args.q = at(0), args.k = at(1), args.v = at(2), args.gate = at(3), args.beta = at(4);
    args.state = set.states.get();
    args.out = set.out.get();
    args.slot_stride = config_.recurrent_elements();
    args.slot_count = args.rows = rows_;
    args.key_heads = args.value_heads = args.beta_stride = config_.heads;
    args.key_dim = args.value_dim = config_.head_dim;
    args.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.head_dim)));
    args.q_stride = args.k_stride = args.v_stride = args.gate_stride = args.out_stride = width;
    return args;
  }

  std::shared_ptr<GpuBackend> backend_;
  std::shared_ptr<LoadedSet> kernels_;
  KernelHandle kernel_;
  bool in_smem_;
  KdaConfig config_;
  Stream stream_;
  std::uint32_t rows_;
  std::vector<float> state_;  // of every sequence of every set, at first
  std::vector<float> start_;  // the first and the last sequence's
  std::vector<Set> sets_;
};

}  // namespace

std::unique_ptr<BenchWork> make_recurrent_work(const KdaLayer& layer, Stream stream, std::uint32_t rows,
                                               std::uint32_t sets, std::uint64_t seed) {
  return std::make_unique<RecurrentWork>(layer, stream, rows, sets, seed);
}

}  // namespace kdart::probe
