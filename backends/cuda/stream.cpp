#include "backends/cuda/stream.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "backends/cuda/device.h"

namespace kdart::cuda {
namespace {

// Asks until the answer is no longer CUDA_ERROR_NOT_READY, which it gives when the time is up first.
template <class Query>
CUresult wait_until(const Query& query, std::chrono::nanoseconds timeout) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  constexpr std::chrono::nanoseconds longest_pause = std::chrono::milliseconds(1);
  for (std::chrono::nanoseconds pause(0);;) {
    const CUresult result = query();
    const std::chrono::nanoseconds waited = Clock::now() - start;
    if (result != CUDA_ERROR_NOT_READY || waited >= timeout) return result;
    if (waited > std::chrono::microseconds(100)) pause = std::min(longest_pause, waited / 8);
    if (pause.count() != 0) std::this_thread::sleep_for(std::min(pause, timeout - waited));
  }
}

}  // namespace

CudaStream::CudaStream(const Context& context) : context_(&context) {
  check_cuda(context.cu().stream_create(&stream_, CU_STREAM_NON_BLOCKING), "creating a stream");
  owned_ = true;
}

CudaStream::~CudaStream() {
  if (owned_) static_cast<void>(context_->cu().stream_destroy(stream_));
}

CudaEvent::CudaEvent(const Context& context) : context_(&context) {
  check_cuda(context.cu().event_create(&event_, CU_EVENT_DEFAULT), "creating an event");
}

CudaEvent::~CudaEvent() {
  static_cast<void>(context_->cu().event_destroy(event_));
}

// --- the backend's stream group ---------------------------------------------------------------------------------------

bool CudaBackend::wait_for(CudaStream& stream, Timeout timeout) {
  const std::uint32_t launches = stream.launched.count();
  if (timeout) {
    const CUresult result = wait_until([&] { return cu().stream_query(stream.get()); }, *timeout);
    if (result == CUDA_ERROR_NOT_READY) return false;
    check(result, "waiting for a stream");
  } else {
    check(cu().stream_synchronize(stream.get()), "waiting for a stream");
  }
  stream.launched.forget(launches);
  return true;
}

void CudaBackend::wait_for_all() {
  for (const auto& stream : parts_->streams.all()) {
    const std::shared_lock lock(parts_->captures);
    if (stream->capture != nullptr && stream->capture->open()) continue;
    if (!is_captured_by_owner(*stream)) static_cast<void>(wait_for(*stream, std::nullopt));
  }
}

bool CudaBackend::is_captured_by_owner(const CudaStream& stream) const {
  if (stream.owned()) return false;
  int status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult asked = cu().stream_is_capturing(stream.get(), &status);
  // The default stream, for which nobody may wait while a stream that it would wait for is captured.
  if (asked == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) return true;
  check(asked, "asking whether a stream is captured");
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

GpuBackend::Native CudaBackend::do_create_stream() {
  const Current current(*context_);
  return naming_culprits("creating a stream",
                         [&] { return parts_->streams.insert(std::make_shared<CudaStream>(*context_)); });
}

void CudaBackend::do_destroy_stream(Native stream) {
  const Current current(*context_);
  try {
    static_cast<void>(wait_for(stream_of(stream), std::nullopt));
  } catch (const Error& error) {
    if (!is_sticky(error.code())) throw;  // on a finished device nothing runs any more
    set_sticky(error);                    // while it is known what the stream had been given
  }
  parts_->streams.remove(stream);
}

// The driver has everything as soon as it is given.
void CudaBackend::do_flush(Native) {}

bool CudaBackend::do_synchronize(Native stream, Timeout timeout) {
  const Current current(*context_);
  return wait_for(stream_of(stream), timeout);
}

bool CudaBackend::do_is_captured_elsewhere(Native stream) {
  const Current current(*context_);
  return is_captured_by_owner(stream_of(stream));
}

GpuBackend::Native CudaBackend::do_create_event() {
  const Current current(*context_);
  return naming_culprits("creating an event",
                         [&] { return parts_->events.insert(std::make_shared<CudaEvent>(*context_)); });
}

void CudaBackend::do_destroy_event(Native event) {
  const Current current(*context_);
  parts_->events.remove(event);
}

void CudaBackend::do_record(Native event, Native stream) {
  const Current current(*context_);
  CudaEvent& target = event_of(event);
  CudaStream& queue = stream_of(stream);
  check(cu().event_record(target.get(), queue.get()), "recording an event");
  target.capture = queue.capturing() ? queue.capture : nullptr;
}

void CudaBackend::do_wait(Native stream, Native event) {
  const Current current(*context_);
  CudaEvent& waited = event_of(event);
  CudaStream& queue = stream_of(stream);
  check(cu().stream_wait_event(queue.get(), waited.get(), 0), "making a stream wait for an event");
  if (waited.capture == nullptr || !waited.capture->open() || queue.capture == waited.capture) return;
  const std::unique_lock lock(parts_->captures);
  queue.capture = waited.capture;  // the stream joins
}

bool CudaBackend::do_wait_host(Native event, Timeout timeout) {
  const Current current(*context_);
  const CUevent waited = event_of(event).get();
  const CUresult result =
      timeout ? wait_until([&] { return cu().event_query(waited); }, *timeout) : cu().event_synchronize(waited);
  if (result == CUDA_ERROR_NOT_READY) return false;
  check(result, "waiting for an event");
  return true;
}

bool CudaBackend::do_query(Native event) {
  const Current current(*context_);
  const CUresult result = cu().event_query(event_of(event).get());
  if (result == CUDA_ERROR_NOT_READY) return false;
  check(result, "asking about an event");
  return true;
}

double CudaBackend::do_elapsed_ms(Native start, Native end) {
  const Current current(*context_);
  float ms = 0.0F;
  check(cu().event_elapsed_time(&ms, event_of(start).get(), event_of(end).get()),
        "reading the time between two events");
  return static_cast<double>(ms);
}

}  // namespace kdart::cuda
