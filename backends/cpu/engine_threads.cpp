// A block as one operating system thread per thread, with a std::barrier between them. Hundreds of times slower than
// fibers, and the one form of a block that ThreadSanitizer follows: it finds the barrier that a kernel forgot.
#include <barrier>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "backends/cpu/errors.h"
#include "backends/cpu/executor.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/threads.h"

namespace kdart::cpu {
namespace {

class ThreadEngine final : public BlockEngine {
 public:
  ThreadEngine() = default;
  ~ThreadEngine() override;
  void run_block(const LaunchOperation& launch, BlockIndex block, void* shared) override;

 private:
  void grow(std::uint32_t threads);
  void work(std::uint32_t index);
  void run_thread(std::uint32_t index) noexcept;

  std::mutex mutex_;
  std::condition_variable start_, finish_;
  std::uint64_t block_number_ = 0;  // the block being run; a team thread runs each number once
  std::uint32_t team_size_ = 0;     // how many threads the block has: team threads from there on sit it out
  std::uint32_t running_ = 0;
  bool stopping_ = false;
  std::optional<Error> error_;

  // Of the current block. Written before it starts, read by its threads.
  const LaunchOperation* launch_ = nullptr;
  BlockIndex block_{};
  void* shared_ = nullptr;
  std::optional<std::barrier<>> barrier_;

  std::vector<std::thread> team_;
};

void barrier(kdart_cpu_thread* self) {
  static_cast<std::barrier<>*>(self->engine)->arrive_and_wait();
}

ThreadEngine::~ThreadEngine() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  start_.notify_all();
  for (std::thread& thread : team_) thread.join();
}

void ThreadEngine::grow(std::uint32_t threads) {
  while (team_.size() < threads) {
    const auto index = static_cast<std::uint32_t>(team_.size());
    team_.reserve(team_.size() + 1);
    team_.push_back(start_thread("kdart-cpu-team", [this, index] { work(index); }));
  }
}

void ThreadEngine::run_block(const LaunchOperation& launch, BlockIndex block, void* shared) {
  const auto threads = static_cast<std::uint32_t>(launch.block.threads());
  grow(threads);
  launch_ = &launch;
  block_ = block;
  shared_ = shared;
  barrier_.emplace(threads);
  std::unique_lock lock(mutex_);
  team_size_ = threads;
  running_ = threads;
  ++block_number_;
  start_.notify_all();
  finish_.wait(lock, [this] { return running_ == 0; });
  if (error_) throw Error(*std::exchange(error_, std::nullopt));
}

void ThreadEngine::work(std::uint32_t index) {
  std::uint64_t done = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    start_.wait(lock, [&] { return stopping_ || (block_number_ != done && index < team_size_ && running_ > 0); });
    if (stopping_) return;
    done = block_number_;
    lock.unlock();
    run_thread(index);
    lock.lock();
    if (--running_ == 0) finish_.notify_one();
  }
}

void ThreadEngine::run_thread(std::uint32_t index) noexcept {
  kdart_cpu_thread thread{};
  describe_block(thread, *launch_, block_, shared_);
  set_thread_index(thread, index);
  thread.barrier = barrier;
  thread.engine = &*barrier_;
  try {
    launch_->kernel->thread_entry()(launch_->arguments.data(), &thread);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = kernel_fault(*launch_, block_);
  }
  barrier_->arrive_and_drop();  // threads that go on do not wait for one that returned
}

}  // namespace

std::unique_ptr<BlockEngine> make_thread_engine() {
  try {
    return std::make_unique<ThreadEngine>();
  } catch (...) {
    throw current_error("setting up a team of threads");
  }
}

}  // namespace kdart::cpu
