// Streams and events.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "backends/cpu/executor.h"
#include "backends/cpu/memory.h"
#include "backends/cpu/operation.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/threads.h"
#include "kdart/error.h"

namespace kdart::cpu {

class Capture;

// A queue of operations and the thread that runs them in order. Operations are numbered from 1; the stream has passed
// number n when operation n has ended. An operation that fails does not stop the queue: the first failure is kept for
// whoever waits next, and what follows still runs, so that no wait hangs.
class CpuStream {
 public:
  // What outlives every stream of a device.
  struct Device {
    Pool& pool;
    Memory& memory;
    std::function<void(const Error&)> sticky;  // told of device faults, from the stream's thread; must not throw
  };

  // Throws Error(out_of_host_memory). `device` must outlive the stream.
  explicit CpuStream(Device& device);
  ~CpuStream();
  CpuStream(const CpuStream&) = delete;
  CpuStream& operator=(const CpuStream&) = delete;

  // Queues one operation and returns its number. One caller at a time. Blocks while very many are queued; that ends by
  // itself, since nothing queued waits for anything that is not. Throws Error(out_of_host_memory).
  std::uint64_t submit(Operation operation);

  [[nodiscard]] std::uint64_t submitted() const noexcept { return submitted_.load(std::memory_order_acquire); }
  [[nodiscard]] bool passed(std::uint64_t sequence) const noexcept {
    return completed_.load(std::memory_order_seq_cst) >= sequence;
  }
  [[nodiscard]] bool idle() const noexcept { return passed(submitted()); }

  // Waits until the stream has passed `sequence`; false when the deadline came first. Any thread.
  bool wait(std::uint64_t sequence, Deadline deadline);

  // The first failure since the last call, and forgets it.
  [[nodiscard]] std::optional<Error> take_error();
  // The kept failure if it is of an operation up to `sequence`.
  [[nodiscard]] std::optional<Error> error_up_to(std::uint64_t sequence) const;

  // Runs what is queued, then ends the thread. Idempotent; nothing may be submitted afterwards.
  void stop() noexcept;

  // The capture this stream takes part in, over or not; see graph.h. Belongs to the stream's caller.
  std::shared_ptr<Capture> capture;

 private:
  void work() noexcept;
  [[nodiscard]] bool take(std::vector<Operation>& batch);
  void execute(Operation& operation, std::uint64_t sequence) noexcept;
  void complete(std::uint64_t sequence) noexcept;
  void fail(const Error& error, std::uint64_t sequence) noexcept;

  void perform(std::monostate, std::uint64_t) {}
  void perform(const LaunchOperation& launch, std::uint64_t) { device_.pool.run(launch, executor_); }
  void perform(const CopyOperation& copy, std::uint64_t);
  void perform(const StagedCopyOperation& copy, std::uint64_t);
  void perform(const Copy2dOperation& copy, std::uint64_t);
  void perform(const FillOperation& fill, std::uint64_t);
  void perform(const RecordOperation& record, std::uint64_t);
  void perform(const WaitOperation& wait, std::uint64_t sequence);
  void perform(const FreeOperation& free, std::uint64_t) { device_.memory.release(free.memory); }
  void perform(const GraphOperation& graph, std::uint64_t sequence);

  Device& device_;
  Executor executor_;

  mutable std::mutex mutex_;
  std::condition_variable work_, progress_, space_;
  std::vector<Operation> pending_;
  std::atomic<std::uint64_t> submitted_{0}, completed_{0};
  std::atomic<std::uint32_t> waiters_{0};
  bool asleep_ = false;
  bool stopping_ = false;
  std::optional<Error> error_;
  std::uint64_t error_sequence_ = 0;

  std::thread thread_;
};

// An event: the place of its latest record, and the time when it was passed.
class CpuEvent {
 public:
  // Makes `stream`'s next place the latest record, and queues what notes the time.
  static void record(const std::shared_ptr<CpuEvent>& event, const std::shared_ptr<CpuStream>& stream);
  // The stream's thread has come to a record. Only the latest counts.
  void reached(std::uint64_t generation) noexcept;

  // The latest record; an empty Position when there is none.
  [[nodiscard]] Position latest() const;
  // When the latest record was passed; nothing when there is none, or not yet.
  [[nodiscard]] std::optional<std::chrono::steady_clock::time_point> time() const;

  // The capture that recorded this event last, if that came after its last real record.
  std::shared_ptr<Capture> capture;

 private:
  mutable std::mutex mutex_;
  Position latest_;
  std::uint64_t generation_ = 0;
  std::uint64_t reached_ = 0;
  std::chrono::steady_clock::time_point time_{};
};

}  // namespace kdart::cpu
