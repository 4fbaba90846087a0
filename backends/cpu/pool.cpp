#include "backends/cpu/pool.h"

#include <algorithm>

#include "backends/cpu/errors.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/platform.h"
#include "backends/cpu/threads.h"

namespace kdart::cpu {

Pool::Pool(std::uint32_t threads, CpuEngine engine) : engine_(engine) {
  const std::uint32_t helpers = std::max(threads, 1U) - 1;
  executors_.reserve(helpers);
  workers_.reserve(helpers);
  try {
    for (std::uint32_t i = 0; i < helpers; ++i) {
      Executor& executor = *executors_.emplace_back(std::make_unique<Executor>(engine));
      workers_.push_back(start_thread("kdart-cpu-pool", [this, &executor] { work(executor); }));
    }
  } catch (...) {
    stop();
    throw current_error("starting the CPU pool");
  }
}

Pool::~Pool() {
  stop();
}

void Pool::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void Pool::run(const LaunchOperation& launch, Executor& own) {
  Job job;
  job.launch = &launch;
  job.blocks = launch.grid.threads();
  if (job.blocks == 1 || workers_.empty()) {
    own.run(launch, 0, job.blocks);
    return;
  }
  // Some chunks per thread, so that a late thread or a slow block costs little; not too many, for grids of tiny blocks.
  job.chunk = std::clamp<std::uint64_t>(job.blocks / (std::uint64_t{threads()} * 16), 1, 1024);
  publish(job);
  help(job, own);
  retire(job);
  if (job.error) throw Error(*job.error);
}

void Pool::help(Job& job, Executor& executor) noexcept {
  for (;;) {
    const std::uint64_t first = job.next.fetch_add(job.chunk, std::memory_order_relaxed);
    if (first >= job.blocks) return;
    try {
      executor.run(*job.launch, first, std::min(first + job.chunk, job.blocks));
    } catch (...) {
      job.next.store(job.blocks, std::memory_order_relaxed);
      const std::lock_guard lock(mutex_);
      if (!job.error) job.error = current_error("running a kernel");
    }
  }
}

void Pool::publish(Job& job) {
  std::uint32_t sleepers = 0;
  {
    const std::lock_guard lock(mutex_);
    job.following = jobs_;
    jobs_ = &job;
    published_.fetch_add(1, std::memory_order_release);
    sleepers = asleep_;
  }
  const std::uint64_t chunks = (job.blocks + job.chunk - 1) / job.chunk;
  for (std::uint64_t n = std::min<std::uint64_t>(sleepers, chunks - 1); n > 0; --n) wake_.notify_one();
}

// Takes the job out of the list, so that no more helpers join, and waits for those in it.
void Pool::retire(Job& job) {
  {
    const std::lock_guard lock(mutex_);
    Job** link = &jobs_;
    while (*link != &job) link = &(*link)->following;
    *link = job.following;
  }
  const auto alone = [&job] { return job.helpers.load(std::memory_order_acquire) == 0; };
  if (spin_until(alone)) return;
  std::unique_lock lock(mutex_);
  done_.wait(lock, alone);
}

Pool::Job* Pool::find_job() noexcept {
  for (Job* job = jobs_; job != nullptr; job = job->following) {
    if (job->has_blocks()) return job;
  }
  return nullptr;
}

void Pool::work(Executor& executor) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (Job* job = find_job()) {
      job->helpers.fetch_add(1, std::memory_order_relaxed);
      lock.unlock();
      help(*job, executor);
      lock.lock();
      // The owner may leave as soon as it sees 0; from here on the job is not touched.
      if (job->helpers.fetch_sub(1, std::memory_order_release) == 1) done_.notify_all();
      continue;
    }
    if (stopping_) return;
    const std::uint64_t seen = published_.load(std::memory_order_relaxed);
    lock.unlock();
    const bool more = spin_until([&] { return published_.load(std::memory_order_relaxed) != seen; });
    lock.lock();
    if (more || find_job() != nullptr || stopping_) continue;
    ++asleep_;
    wake_.wait(lock, [this] { return stopping_ || find_job() != nullptr; });
    --asleep_;
  }
}

}  // namespace kdart::cpu
