// A progress bar on standard error, for a person who waits. Silent when standard error is no terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace kdart::probe {

class Progress {
 public:
  Progress();
  ~Progress();  // erases the bar
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // False where there is nobody to see it.
  [[nodiscard]] bool enabled() const noexcept { return enabled_; }
  // Starts a stretch of `total` steps under this heading; 0: their number is unknown.
  void start(std::string label, std::uint64_t total);
  void advance(std::uint64_t steps);

 private:
  void draw();

  bool enabled_;
  bool drawn_ = false;
  std::string label_;
  std::uint64_t total_ = 0, done_ = 0;
  std::chrono::steady_clock::time_point next_;  // no drawing before it
};

}  // namespace kdart::probe
