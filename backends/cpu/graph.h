// Capturing operations instead of queueing them.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "backends/cpu/operation.h"

namespace kdart::cpu {

// A capture in progress, shared by the streams in it and the events recorded in it. They keep pointing at it when it is
// over, and take no notice of it then; so ending a capture touches no stream of another thread.
class Capture {
 public:
  [[nodiscard]] bool open() const noexcept { return open_.load(std::memory_order_acquire); }
  // Appends one operation of any stream in the capture.
  void add(Operation operation);
  // Ends the capture and gives what it holds.
  [[nodiscard]] std::shared_ptr<const CpuGraph> finish();
  void abort() noexcept;

 private:
  std::mutex mutex_;
  std::atomic<bool> open_{true};
  std::shared_ptr<CpuGraph> graph_ = std::make_shared<CpuGraph>();
};

}  // namespace kdart::cpu
