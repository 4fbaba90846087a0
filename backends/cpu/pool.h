// The threads that all streams of a device share.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "backends/cpu/executor.h"
#include "kdart/device_info.h"
#include "kdart/error.h"

namespace kdart::cpu {

// Spreads the blocks of a launch over its threads and the caller's. Any number of threads may call run at once.
class Pool {
 public:
  // `threads` is how many run a launch, the caller's included; at least 1. Throws Error(out_of_host_memory).
  Pool(std::uint32_t threads, CpuEngine engine);
  ~Pool();  // no run may be in progress
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Runs every block of the launch; returns when the last has ended. `own` is the calling thread's executor. Throws the
  // first error of any block (see BlockEngine::run_block); blocks not begun by then are left out.
  void run(const LaunchOperation& launch, Executor& own);

  [[nodiscard]] CpuEngine engine() const noexcept { return engine_; }
  [[nodiscard]] std::uint32_t threads() const noexcept { return static_cast<std::uint32_t>(workers_.size()) + 1; }

 private:
  // A launch in progress: lives on the caller's stack, in the list while it has blocks to give out.
  struct Job {
    const LaunchOperation* launch = nullptr;
    std::uint64_t blocks = 0;
    std::uint64_t chunk = 1;
    std::atomic<std::uint64_t> next{0};     // first block not given out yet
    std::atomic<std::uint32_t> helpers{0};  // pool threads in it
    std::optional<Error> error;             // the first; under the pool's mutex
    Job* following = nullptr;
    [[nodiscard]] bool has_blocks() const noexcept { return next.load(std::memory_order_relaxed) < blocks; }
  };

  void stop() noexcept;
  void work(Executor& executor);
  void help(Job& job, Executor& executor) noexcept;
  [[nodiscard]] Job* find_job() noexcept;  // under the mutex
  void publish(Job& job);
  void retire(Job& job);

  const CpuEngine engine_;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  Job* jobs_ = nullptr;
  std::atomic<std::uint64_t> published_{0};  // counts jobs, so that a spinning thread sees a new one
  std::uint32_t asleep_ = 0;
  bool stopping_ = false;
  std::vector<std::unique_ptr<Executor>> executors_;
  std::vector<std::thread> workers_;
};

}  // namespace kdart::cpu
