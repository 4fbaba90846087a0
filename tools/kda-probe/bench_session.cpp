#include "bench_session.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/runtime/format.h"

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

// Of the rows out, in either width.
std::string wrong_with_rows(const BenchRun& run) {
  if (std::string text = not_finite("out", run.out); !text.empty()) return text;
  if (std::string text = not_finite("out", run.wide_out); !text.empty()) return text;
  const auto same_as_first = [](const auto& values) {
    return !values.empty() && std::all_of(values.begin(), values.end(), [&](auto x) { return x == values.front(); });
  };
  if (same_as_first(run.out)) {
    return detail::format("all {} values of out are {}", run.out.size(), to_float(run.out.front()));
  }
  if (same_as_first(run.wide_out)) {
    return detail::format("all {} values of out are {}", run.wide_out.size(), run.wide_out.front());
  }
  return {};
}

std::string wrong_with_one(const BenchRun& run, const std::vector<float>& before) {
  if (run.recurrent.empty() || (run.out.empty() && run.wide_out.empty())) return "there is no result";
  if (std::string text = wrong_with_rows(run); !text.empty()) return text;
  if (std::string text = not_finite("the recurrent state", run.recurrent); !text.empty()) return text;
  if (std::string text = not_finite("the convolution state", without_first_slots(run.conv)); !text.empty()) return text;
  if (run.recurrent == before) return "the recurrent state is as it was before the call";
  return {};
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

}  // namespace

std::string wrong_with(const BenchRun& first, const BenchRun& second, const std::vector<float>& before) {
  if (std::string text = wrong_with_one(first, before); !text.empty()) return text;
  if (std::string text = wrong_with_one(second, before); !text.empty()) return "second run: " + text;
  const bool same = bits_equal(first, second) && same_bits(first.wide_out, second.wide_out);
  return same ? "" : "two runs from the same state differ";
}

void BenchSession::capture() {
  std::vector<OwnedGraph> graphs;
  graphs.reserve(work_->sets());
  for (std::size_t i = 0; i < work_->sets(); ++i) {
    backend_->begin_capture(stream_);
    try {
      work_->call(i);
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
    work_->call(next_);
  } else {
    backend_->launch_graph(graphs_[next_].get(), stream_);
  }
  next_ = (next_ + 1) % work_->sets();
}

std::string BenchSession::check() {
  const BenchRun first = run_first([&] { work_->call(0); });
  const BenchRun second = run_first([&] {
    next_ = 0;
    submit();
  });
  std::string wrong = wrong_with(first, second, work_->start());
  if (!wrong.empty() && !graphs_.empty()) wrong += " (the second run is the replay of a graph)";
  return wrong;
}

std::string BenchSession::check_last() {
  backend_->synchronize(stream_);
  const std::string wrong = wrong_with_rows(work_->fetch_out((next_ + work_->sets() - 1) % work_->sets()));
  return wrong.empty() ? wrong : "after the last sample, " + wrong;
}

template <class Submit>
BenchRun BenchSession::run_first(const Submit& submit_set) {
  backend_->synchronize(stream_);
  work_->rewind();
  submit_set();
  backend_->synchronize(stream_);
  return work_->fetch();
}

}  // namespace kdart::probe
