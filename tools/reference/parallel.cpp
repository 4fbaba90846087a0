#include "tools/reference/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace kdart::reference {
namespace {

constexpr double operations_per_thread = 1e6;  // well above what starting one takes

std::size_t thread_count(std::size_t count, double operations) {
  const double most = std::min(static_cast<double>(count), operations / operations_per_thread);
  const auto cores = static_cast<double>(std::max(1U, std::thread::hardware_concurrency()));
  return static_cast<std::size_t>(std::clamp(most, 1.0, cores));
}

}  // namespace

void parallel_for(std::size_t count, double operations, const std::function<void(std::size_t)>& work) {
  const std::size_t threads = thread_count(count, operations);
  if (threads == 1) {
    for (std::size_t i = 0; i < count; ++i) work(i);
    return;
  }
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr first;
  const auto take_pieces = [&] {
    try {
      for (std::size_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      if (!first) first = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    others.reserve(threads - 1);
    try {
      while (others.size() < threads - 1) others.emplace_back(take_pieces);
    } catch (const std::system_error&) {  // no more threads to be had: those that there are do it all
    }
    take_pieces();
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace kdart::reference
