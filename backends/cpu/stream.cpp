#include "backends/cpu/stream.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <variant>

#include "backends/cpu/addresses.h"
#include "backends/cpu/device.h"
#include "backends/cpu/errors.h"
#include "backends/cpu/graph.h"
#include "backends/cpu/platform.h"

namespace kdart::cpu {
namespace {

// Operations a stream holds before submit blocks: some ten megabytes, and far more than keeps the thread busy.
constexpr std::size_t max_pending = 32768;

template <class T>
void fill_elements(void* dst, T value, std::uint64_t count) {
  std::fill_n(static_cast<T*>(dst), count, value);
}

}  // namespace

CpuStream::CpuStream(Device& device) : device_(device), executor_(device.pool.engine()) {
  thread_ = start_thread("kdart-cpu-strm", [this] { work(); });
}

CpuStream::~CpuStream() {
  stop();
}

void CpuStream::stop() noexcept {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_one();
  thread_.join();
}

std::uint64_t CpuStream::submit(Operation operation) {
  std::unique_lock lock(mutex_);
  space_.wait(lock, [this] { return pending_.size() < max_pending; });
  try {
    pending_.push_back(std::move(operation));
  } catch (...) {
    throw current_error("queueing an operation");
  }
  const std::uint64_t sequence = submitted_.load(std::memory_order_relaxed) + 1;
  submitted_.store(sequence, std::memory_order_release);
  const bool wake = asleep_;
  lock.unlock();
  if (wake) work_.notify_one();
  return sequence;
}

bool CpuStream::wait(std::uint64_t sequence, Deadline deadline) {
  const auto done = [&] { return passed(sequence); };
  if (spin_until(done)) return true;
  // The stream's thread looks for waiters after it has moved on, and they look at it after they have announced
  // themselves: in whatever order that happens, one of the two sees the other.
  std::unique_lock lock(mutex_);
  waiters_.fetch_add(1);
  bool passed_in_time = true;
  if (deadline) {
    passed_in_time = progress_.wait_until(lock, *deadline, done);
  } else {
    progress_.wait(lock, done);
  }
  waiters_.fetch_sub(1);
  return passed_in_time;
}

std::optional<Error> CpuStream::take_error() {
  const std::lock_guard lock(mutex_);
  return std::exchange(error_, std::nullopt);
}

std::optional<Error> CpuStream::error_up_to(std::uint64_t sequence) const {
  const std::lock_guard lock(mutex_);
  if (error_ && error_sequence_ <= sequence) return error_;
  return {};
}

void CpuStream::work() noexcept {
  std::vector<Operation> batch;
  std::uint64_t sequence = 0;
  while (take(batch)) {
    for (Operation& operation : batch) {
      execute(operation, ++sequence);
      operation.emplace<std::monostate>();  // what it owns is let go before anybody is told that it is over
      complete(sequence);
    }
    batch.clear();
  }
}

// Everything queued, in exchange for the empty vector of the last time, so that neither side allocates. False: stopped.
bool CpuStream::take(std::vector<Operation>& batch) {
  spin_until(
      [this] { return submitted_.load(std::memory_order_relaxed) != completed_.load(std::memory_order_relaxed); });
  std::unique_lock lock(mutex_);
  asleep_ = true;
  work_.wait(lock, [this] { return stopping_ || !pending_.empty(); });
  asleep_ = false;
  if (pending_.empty()) return false;
  const bool was_full = pending_.size() >= max_pending;
  pending_.swap(batch);
  lock.unlock();
  if (was_full) space_.notify_all();
  return true;
}

void CpuStream::execute(Operation& operation, std::uint64_t sequence) noexcept {
  try {
    std::visit([&](const auto& what) { perform(what, sequence); }, operation);
  } catch (...) {
    fail(current_error("running a queued operation"), sequence);
  }
}

void CpuStream::complete(std::uint64_t sequence) noexcept {
  completed_.store(sequence, std::memory_order_seq_cst);
  if (waiters_.load(std::memory_order_seq_cst) == 0) return;
  {
    const std::lock_guard lock(mutex_);
  }
  progress_.notify_all();
}

void CpuStream::fail(const Error& error, std::uint64_t sequence) noexcept {
  if (is_sticky(error.code())) device_.sticky(error);
  const std::lock_guard lock(mutex_);
  if (error_) return;
  error_ = error;
  error_sequence_ = sequence;
}

void CpuStream::perform(const CopyOperation& copy, std::uint64_t) {
  std::memcpy(copy.dst, copy.src, copy.bytes);
}

void CpuStream::perform(const StagedCopyOperation& copy, std::uint64_t) {
  std::memcpy(copy.dst, copy.staged.get(), copy.bytes);
}

void CpuStream::perform(const Copy2dOperation& copy, std::uint64_t) {
  for (std::uint64_t row = 0; row < copy.height; ++row) {
    std::memcpy(copy.dst + row * copy.dst_pitch, copy.src + row * copy.src_pitch, copy.width);
  }
}

void CpuStream::perform(const FillOperation& fill, std::uint64_t) {
  switch (fill.width) {
    case 1:
      std::memset(fill.dst, static_cast<int>(fill.value & 0xffU), fill.count);
      break;
    case 2:
      fill_elements(fill.dst, static_cast<std::uint16_t>(fill.value & 0xffffU), fill.count);
      break;
    default:
      fill_elements(fill.dst, fill.value, fill.count);
      break;
  }
}

void CpuStream::perform(const RecordOperation& record, std::uint64_t) {
  record.event->reached(record.generation);
}

// What failed before the place we waited for has failed for this stream too.
void CpuStream::perform(const WaitOperation& wait, std::uint64_t sequence) {
  wait.position.stream->wait(wait.position.sequence, {});
  if (const auto error = wait.position.stream->error_up_to(wait.position.sequence)) fail(*error, sequence);
}

void CpuStream::perform(const GraphOperation& graph, std::uint64_t sequence) {
  for (const Operation& operation : graph.graph->operations) {
    std::visit([&](const auto& what) { perform(what, sequence); }, operation);
  }
}

// --- events -----------------------------------------------------------------------------------------------------------

void CpuEvent::record(const std::shared_ptr<CpuEvent>& event, const std::shared_ptr<CpuStream>& stream) {
  std::uint64_t generation = 0;
  {
    const std::lock_guard lock(event->mutex_);
    generation = event->generation_ + 1;
  }
  const std::uint64_t sequence = stream->submit(RecordOperation{event, generation});
  const std::lock_guard lock(event->mutex_);
  event->generation_ = generation;
  event->latest_ = Position{stream, sequence};
  event->capture.reset();
}

// The place may be passed before record() has returned: the generation that is reached is kept, not compared here.
void CpuEvent::reached(std::uint64_t generation) noexcept {
  const auto now = std::chrono::steady_clock::now();
  const std::lock_guard lock(mutex_);
  if (generation < reached_) return;  // an older record, in a slower stream
  reached_ = generation;
  time_ = now;
}

Position CpuEvent::latest() const {
  const std::lock_guard lock(mutex_);
  return latest_;
}

std::optional<std::chrono::steady_clock::time_point> CpuEvent::time() const {
  const std::lock_guard lock(mutex_);
  if (generation_ == 0 || reached_ != generation_) return {};
  return time_;
}

// --- the backend's stream group ---------------------------------------------------------------------------------------

GpuBackend::Native CpuBackend::do_create_stream() {
  std::shared_ptr<CpuStream> stream;
  try {
    stream = std::make_shared<CpuStream>(parts_->stream_device);
  } catch (...) {
    throw current_error("creating a stream");
  }
  return parts_->streams.insert(std::move(stream));
}

void CpuBackend::do_destroy_stream(Native stream) {
  CpuStream& queue = stream_of(stream);
  queue.stop();
  queue.capture.reset();
  parts_->streams.remove(stream);
}

// Operations are handed over as they are queued.
void CpuBackend::do_flush(Native) {}

bool CpuBackend::do_synchronize(Native stream, Timeout timeout) {
  CpuStream& queue = stream_of(stream);
  if (!queue.wait(queue.submitted(), deadline_after(timeout))) return false;
  if (const auto error = queue.take_error()) throw Error(*error);
  return true;
}

GpuBackend::Native CpuBackend::do_create_event() {
  return parts_->events.insert(std::make_shared<CpuEvent>());
}

void CpuBackend::do_destroy_event(Native event) {
  parts_->events.remove(event);
}

void CpuBackend::do_record(Native event, Native stream) {
  const std::shared_ptr<CpuEvent> held = parts_->events.get(event);
  if (detail::running(stream_of(stream).capture) != nullptr) {
    held->capture = stream_of(stream).capture;
    return;
  }
  CpuEvent::record(held, parts_->streams.get(stream));
}

void CpuBackend::do_wait(Native stream, Native event) {
  CpuEvent& waited = *detail::object_at<CpuEvent>(event);
  CpuStream& queue = stream_of(stream);
  if (waited.capture != nullptr && waited.capture->open()) {
    queue.capture = waited.capture;  // the stream joins
    return;
  }
  const Position position = waited.latest();
  // A stream is in order with itself, and a place that has been passed without a failure has nothing to tell.
  if (position.stream == nullptr || position.stream.get() == &queue) return;
  if (position.stream->passed(position.sequence) && !position.stream->error_up_to(position.sequence)) return;
  queue.submit(WaitOperation{position});
}

bool CpuBackend::do_wait_host(Native event, Timeout timeout) {
  const Position position = detail::object_at<CpuEvent>(event)->latest();
  if (position.stream == nullptr) return true;
  if (!position.stream->wait(position.sequence, deadline_after(timeout))) return false;
  if (const auto error = position.stream->error_up_to(position.sequence)) throw Error(*error);
  return true;
}

bool CpuBackend::do_query(Native event) {
  const Position position = detail::object_at<CpuEvent>(event)->latest();
  return position.stream == nullptr || position.stream->passed(position.sequence);
}

double CpuBackend::do_elapsed_ms(Native start, Native end) {
  const auto from = detail::object_at<CpuEvent>(start)->time();
  const auto to = detail::object_at<CpuEvent>(end)->time();
  if (!from || !to) {
    throw Error(ErrorCode::invalid_argument, "elapsed_ms needs two events whose latest records have been passed");
  }
  return std::chrono::duration<double, std::milli>(*to - *from).count();
}

}  // namespace kdart::cpu
