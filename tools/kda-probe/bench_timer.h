// Times work on a stream by events around it, many times over.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "kdart/backend.h"
#include "kdart/owned.h"

namespace kdart::probe {

// How long and how often to measure.
struct Sampling {
  std::optional<std::uint32_t> repeats;  // exactly so many samples; unset: up to `most`, as `budget_s` allows
  std::uint32_t most = 50;
  std::uint32_t least = 5;    // samples that are taken whatever they cost
  double budget_s = 10.0;     // no further sample once the samples have taken this long
  double sample_ms = 2.0;     // what one sample should take at least
  double warm_up_ms = 100.0;  // before the first sample, the search for the number of calls included
};

// Microseconds per call, a value per sample.
struct Timing {
  std::vector<double> device_us;  // between an event before the calls and one after
  std::vector<double> wall_us;    // the host's clock, from before the first call is submitted until all are done
  std::vector<double> submit_us;  // the host's clock, until the last one is submitted
  std::uint32_t calls_per_sample = 0;
};

class EventTimer {
 public:
  EventTimer(std::shared_ptr<GpuBackend> backend, Stream stream);

  // `submit` submits one call to the stream. First finds how many calls a sample takes, then warms up, then measures.
  // Where a sample has several calls, one more goes before the first event, so that the device does not wait for the host
  // when the clock starts. Throws what the calls throw.
  [[nodiscard]] Timing measure(const std::function<void()>& submit, const Sampling& sampling);

 private:
  struct Sample {
    double device_us, wall_us, submit_us;  // per call
  };
  Sample sample(const std::function<void()>& submit, std::uint32_t calls);
  std::uint32_t find_calls(const std::function<void()>& submit, double sample_ms);

  std::shared_ptr<GpuBackend> backend_;
  Stream stream_;
  OwnedEvent start_, end_;
};

}  // namespace kdart::probe
