// Capturing operations instead of queueing them.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "backends/cpu/operation.h"

namespace kdart::cpu {

// A capture in progress, shared by the streams in it and the events recorded in it (core/runtime/native_objects.h).
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
