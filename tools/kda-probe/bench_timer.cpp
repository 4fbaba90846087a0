#include "bench_timer.h"

#include <chrono>
#include <utility>

#include "bench_figures.h"

namespace kdart::probe {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t most_calls = 4096;  // per sample

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

}  // namespace

EventTimer::EventTimer(std::shared_ptr<GpuBackend> backend, Stream stream)
    : backend_(std::move(backend)), stream_(stream), start_(backend_), end_(backend_) {}

Timing EventTimer::measure(const std::function<void()>& submit, const Sampling& sampling) {
  Timing timing;
  const auto begin = Clock::now();
  const std::uint32_t calls = find_calls(submit, sampling.sample_ms);
  timing.calls_per_sample = calls;
  while (us_since(begin) < sampling.warm_up_ms * 1e3) sample(submit, calls);

  const std::uint32_t most = sampling.repeats.value_or(sampling.most);
  const auto start = Clock::now();
  for (std::uint32_t i = 0; i < most; ++i) {
    const bool may_stop = !sampling.repeats && i >= sampling.least;
    if (may_stop && us_since(start) > sampling.budget_s * 1e6) break;
    const Sample s = sample(submit, calls);
    timing.device_us.push_back(s.device_us);
    timing.wall_us.push_back(s.wall_us);
    timing.submit_us.push_back(s.submit_us);
  }
  return timing;
}

std::uint32_t EventTimer::find_calls(const std::function<void()>& submit, double sample_ms) {
  for (std::uint32_t calls = 1;;) {
    const double elapsed_ms = sample(submit, calls).device_us * calls * 1e-3;
    const std::uint32_t next = next_calls(calls, elapsed_ms, sample_ms, most_calls);
    if (next == calls) return calls;
    calls = next;
  }
}

EventTimer::Sample EventTimer::sample(const std::function<void()>& submit, std::uint32_t calls) {
  const std::uint32_t ahead = calls > 1 ? 1 : 0;
  const auto start = Clock::now();
  for (std::uint32_t i = 0; i < ahead; ++i) submit();
  backend_->record(start_.get(), stream_);
  for (std::uint32_t i = 0; i < calls; ++i) submit();
  backend_->record(end_.get(), stream_);
  const double submit_us = us_since(start);
  backend_->synchronize(stream_);
  const double wall_us = us_since(start);
  const double device_us = backend_->elapsed_ms(start_.get(), end_.get()) * 1e3;
  return {device_us / calls, wall_us / (calls + ahead), submit_us / (calls + ahead)};
}

}  // namespace kdart::probe
