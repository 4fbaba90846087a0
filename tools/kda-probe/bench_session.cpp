#include "bench_session.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "core/runtime/format.h"
#include "tools/reference/random_model.h"

namespace kdart::probe {
namespace {

constexpr std::size_t window = 4;  // slots per channel of a convolution state, the first of which means nothing

template <class T>
bool finite(T x) {
  if constexpr (std::is_same_v<T, bf16>) {
    return std::isfinite(to_float(x));
  } else {
    return std::isfinite(x);
  }
}

template <class T>
std::string not_finite(std::string_view what, const std::vector<T>& values) {
  const auto wrong = std::count_if(values.begin(), values.end(), [](T x) { return !finite(x); });
  if (wrong == 0) return {};
  return detail::format("{} of {} values of {} are not finite, or were never written", wrong, values.size(), what);
}

std::vector<float> without_first_slots(const std::vector<float>& conv) {
  std::vector<float> result;
  result.reserve(conv.size());
  for (std::size_t i = 0; i < conv.size(); ++i) {
    if (i % window != 0) result.push_back(conv[i]);
  }
  return result;
}

std::string wrong_with_one(const RunResult& run, const std::vector<float>& before) {
  if (run.out.empty() || run.recurrent.empty()) return "there is no result";
  if (std::string text = not_finite("out", run.out); !text.empty()) return text;
  if (std::string text = not_finite("the recurrent state", run.recurrent); !text.empty()) return text;
  if (std::string text = not_finite("the convolution state", without_first_slots(run.conv)); !text.empty()) return text;
  const auto same_as_first = [&](bf16 x) { return x == run.out.front(); };
  if (std::all_of(run.out.begin(), run.out.end(), same_as_first)) {
    return detail::format("all {} values of out are {}", run.out.size(), to_float(run.out.front()));
  }
  if (run.recurrent == before) return "the recurrent state is as it was before the call";
  return {};
}

}  // namespace

std::uint64_t input_set_bytes(const KdaConfig& config, std::uint32_t tokens) noexcept {
  return state_bytes(config) + 2 * row_bytes(config, tokens);
}

std::uint64_t workspace_bytes(const KdaConfig& config, std::uint32_t tokens, const DeviceLimits& limits) {
  return KdaWorkspace::bytes(config, tokens, limits.max_tokens_per_launch);
}

std::string wrong_with(const RunResult& first, const RunResult& second, const std::vector<float>& before) {
  if (std::string text = wrong_with_one(first, before); !text.empty()) return text;
  if (std::string text = wrong_with_one(second, before); !text.empty()) return "second run: " + text;
  return bits_equal(first, second) ? "" : "two runs from the same state differ";
}

BenchSession::BenchSession(const BenchLayers& layers, Stream stream, BenchCase what, std::uint32_t input_sets,
                           std::uint64_t seed)
    : layers_(layers),
      backend_(layers.front().backend()),
      stream_(stream),
      what_(what),
      workspace_(backend_, layers.front().config(), what.tokens, backend_->info().limits.max_tokens_per_launch),
      recurrent_(reference::random_recurrent(layers.front().config(), seed)),
      conv_(reference::random_conv(layers.front().config(), seed)) {
  sets_.reserve(input_sets);
  for (std::uint32_t i = 0; i < input_sets; ++i) sets_.push_back(make_set(seed + i));
}

BenchSession::Set BenchSession::make_set(std::uint64_t seed) const {
  const KdaConfig& config = layers_.front().config();
  const std::uint64_t bytes = row_bytes(config, what_.tokens);
  Set set{KdaState(backend_, config), Buffer(backend_, bytes), Buffer(backend_, bytes)};
  const std::vector<bf16> hidden = reference::random_hidden(config, what_.tokens, seed);
  backend_->copy_h2d(set.hidden.get(), hidden.data(), bytes);
  set.state.import_recurrent(reference::random_recurrent(config, seed));
  set.state.import_conv(reference::random_conv(config, seed));
  return set;
}

void BenchSession::call(std::size_t index) {
  const KdaLayer& layer = layers_[index % layers_.size()];
  Set& set = sets_[index];
  const DevicePtr hidden = set.hidden.get();
  const DevicePtr out = set.out.get();
  if (what_.mode == Mode::decode) {
    layer.decode(hidden, set.state, workspace_, stream_, out);
  } else if (what_.mode == Mode::decode_k) {
    layer.decode_k(hidden, what_.tokens, set.state, workspace_, {}, stream_, out);
  } else {
    layer.prefill(hidden, what_.tokens, set.state, workspace_, stream_, out);
  }
}

void BenchSession::capture() {
  std::vector<OwnedGraph> graphs;
  graphs.reserve(sets_.size());
  for (std::size_t i = 0; i < sets_.size(); ++i) {
    backend_->begin_capture(stream_);
    try {
      call(i);
    } catch (...) {
      try {
        OwnedGraph(backend_, backend_->end_capture(stream_));
      } catch (const Error&) {  // the capture is over either way, and the first error is the one to tell
      }
      throw;
    }
    graphs.emplace_back(backend_, backend_->end_capture(stream_));
  }
  graphs_ = std::move(graphs);
}

void BenchSession::submit() {
  if (graphs_.empty()) {
    call(next_);
  } else {
    backend_->launch_graph(graphs_[next_].get(), stream_);
  }
  next_ = (next_ + 1) % sets_.size();
}

std::string BenchSession::check() {
  const RunResult first = run_first([&] { call(0); });
  const RunResult second = run_first([&] {
    next_ = 0;
    submit();
  });
  std::string wrong = wrong_with(first, second, recurrent_);
  if (!wrong.empty() && !graphs_.empty()) wrong += " (the second run is the replay of a graph)";
  return wrong;
}

std::string BenchSession::check_last() {
  backend_->synchronize(stream_);
  const Set& last = sets_[(next_ + sets_.size() - 1) % sets_.size()];
  std::vector<bf16> out(last.out.bytes() / sizeof(bf16));
  backend_->copy_d2h(out.data(), last.out.get(), last.out.bytes());
  const std::string wrong = not_finite("out", out);
  return wrong.empty() ? wrong : "after the last sample, " + wrong;
}

template <class Submit>
RunResult BenchSession::run_first(const Submit& submit_set) {
  Set& set = sets_.front();
  backend_->synchronize(stream_);
  set.state.import_recurrent(recurrent_);
  set.state.import_conv(conv_);
  backend_->fill(set.out.get(), 0xFFFF, sizeof(bf16), set.out.bytes() / sizeof(bf16), stream_);  // NaN everywhere
  submit_set();
  backend_->synchronize(stream_);

  RunResult result;
  result.out.resize(set.out.bytes() / sizeof(bf16));
  result.recurrent.resize(recurrent_.size());
  result.conv.resize(conv_.size());
  backend_->copy_d2h(result.out.data(), set.out.get(), set.out.bytes());
  set.state.export_recurrent(std::span<float>(result.recurrent));
  set.state.export_conv(std::span<float>(result.conv));
  return result;
}

}  // namespace kdart::probe
