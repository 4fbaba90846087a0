// Streams and events.
#include "tests/fake_cuda/driver.h"

namespace kdart::fake_cuda {
namespace {

// Whether work given up to there has run; asking is what makes it run.
CUresult ask(Call& call, Stream& stream, std::uint64_t position) {
  Driver& driver = call.driver();
  if (stream.done < position && driver.not_ready > 0) {
    --driver.not_ready;
    return CUDA_ERROR_NOT_READY;
  }
  if (!driver.run(stream, position)) return CUDA_ERROR_NOT_READY;
  return call.finish();
}

CUresult wait(Call& call, Stream& stream, std::uint64_t position) {
  Driver& driver = call.driver();
  driver.wait(call.lock(), [&] { return driver.run(stream, position); });
  return call.finish();
}

// What lies free in a pool beyond its threshold goes back to the device when a stream was waited for.
void trim_pools(Driver& driver) {
  for (const auto& [handle, pool] : driver.pools.alive) {
    if (pool->reserved > pool->threshold)
      Driver::trim(driver.devices[static_cast<std::size_t>(pool->device)], *pool,
                   static_cast<std::size_t>(pool->threshold));
  }
}

// A stream in a capture cannot be waited for, and trying to ends the capture.
bool spoils_capture(Stream& stream) {
  if (stream.capture == nullptr) return false;
  stream.capture->invalid = true;
  return true;
}

}  // namespace

CUresult entry::stream_create(CUstream* stream, unsigned int flags) {
  KDART_FAKE_CALL(stream_create);
  const auto made = driver.streams.make();
  made->context = &call.context();
  made->blocking = (flags & CU_STREAM_NON_BLOCKING) == 0;
  *stream = reinterpret_cast<CUstream>(made.get());
  return CUDA_SUCCESS;
}

CUresult entry::stream_destroy(CUstream stream) {
  KDART_FAKE_RELEASE(stream_destroy, stream);
  const auto found = driver.streams.find(stream);
  if (found == nullptr) return call.violation(CUDA_ERROR_INVALID_HANDLE, "of a stream that is not alive");
  if (found->capture != nullptr) {
    driver.violation("a stream was destroyed while it was captured");
    found->capture->invalid = true;
  }
  driver.run(*found);
  driver.streams.end(found);
  return call.finish();
}

CUresult entry::stream_query(CUstream stream) {
  KDART_FAKE_CALL(stream_query);
  CUresult result = CUDA_SUCCESS;
  const auto queue = call.stream(stream, result);
  if (queue == nullptr) return result;
  if (spoils_capture(*queue)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return ask(call, *queue, queue->given());
}

CUresult entry::stream_synchronize(CUstream stream) {
  KDART_FAKE_CALL(stream_synchronize);
  CUresult result = CUDA_SUCCESS;
  const auto queue = call.stream(stream, result);
  if (queue == nullptr) return result;
  if (spoils_capture(*queue)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  result = wait(call, *queue, queue->given());
  trim_pools(driver);
  return result;
}

CUresult entry::stream_wait_event(CUstream stream, CUevent event, unsigned int) {
  KDART_FAKE_CALL(stream_wait_event);
  CUresult result = CUDA_SUCCESS;
  const auto queue = call.stream(stream, result);
  if (queue == nullptr) return result;
  const auto waited = driver.events.find(event);
  if (waited == nullptr) return call.violation(CUDA_ERROR_INVALID_HANDLE, "for an event that is not alive");
  if (waited->capture == nullptr) {
    if (queue->capture != nullptr) {
      queue->capture->invalid = true;
      return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (waited->stream != nullptr)
      queue->pending.push_back({.after = waited->stream, .after_position = waited->position});
    return CUDA_SUCCESS;
  }
  if (waited->capture->over) return CUDA_ERROR_CAPTURED_EVENT;
  if (queue->capture != nullptr && queue->capture != waited->capture) {
    queue->capture->invalid = waited->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (queue->capture == nullptr) queue->frontier.clear();
  queue->capture = waited->capture;
  queue->frontier.insert(waited->frontier.begin(), waited->frontier.end());
  return CUDA_SUCCESS;
}

CUresult entry::stream_get_ctx(CUstream stream, CUcontext* context) {
  KDART_FAKE_CALL(stream_get_ctx);
  if (reinterpret_cast<std::uintptr_t>(stream) <= 2) {
    *context = reinterpret_cast<CUcontext>(&call.context());
    return CUDA_SUCCESS;
  }
  const auto found = driver.streams.find(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *context = reinterpret_cast<CUcontext>(found->context);
  return CUDA_SUCCESS;
}

// --- events -----------------------------------------------------------------------------------------------------------

CUresult entry::event_create(CUevent* event, unsigned int) {
  KDART_FAKE_CALL(event_create);
  const auto made = driver.events.make();
  made->context = &call.context();
  *event = reinterpret_cast<CUevent>(made.get());
  return CUDA_SUCCESS;
}

CUresult entry::event_destroy(CUevent event) {
  KDART_FAKE_RELEASE(event_destroy, event);
  const auto found = driver.events.find(event);
  if (found == nullptr) return call.violation(CUDA_ERROR_INVALID_HANDLE, "of an event that is not alive");
  driver.events.end(found);
  return call.finish();
}

CUresult entry::event_record(CUevent event, CUstream stream) {
  KDART_FAKE_CALL(event_record);
  CUresult result = CUDA_SUCCESS;
  const auto queue = call.stream(stream, result);
  if (queue == nullptr) return result;
  const auto target = driver.events.find(event);
  if (target == nullptr) return call.violation(CUDA_ERROR_INVALID_HANDLE, "of an event that is not alive");
  target->capture = queue->capture;
  target->stream.reset();
  if (queue->capture != nullptr) {
    target->frontier = queue->frontier;
    return CUDA_SUCCESS;
  }
  const std::uint64_t position = queue->given() + 1;
  queue->pending.push_back({.run = [target, position, stream = queue.get()](Driver& d) {
    if (target->stream.get() == stream && target->position == position) target->time = d.clock;
  }});
  target->stream = queue;
  target->position = position;
  return CUDA_SUCCESS;
}

CUresult entry::event_query(CUevent event) {
  KDART_FAKE_CALL(event_query);
  const auto asked = driver.events.find(event);
  if (asked == nullptr) return call.violation(CUDA_ERROR_INVALID_HANDLE, "of an event that is not alive");
  if (asked->capture != nullptr) return CUDA_ERROR_CAPTURED_EVENT;
  if (asked->stream == nullptr) return CUDA_SUCCESS;
  return ask(call, *asked->stream, asked->position);
}

CUresult entry::event_synchronize(CUevent event) {
  KDART_FAKE_CALL(event_synchronize);
  const auto asked = driver.events.find(event);
  if (asked == nullptr) return call.violation(CUDA_ERROR_INVALID_HANDLE, "of an event that is not alive");
  if (asked->capture != nullptr) return CUDA_ERROR_CAPTURED_EVENT;
  if (asked->stream == nullptr) return CUDA_SUCCESS;
  const std::shared_ptr<Stream> stream = asked->stream;
  return wait(call, *stream, asked->position);
}

// Each operation takes a microsecond.
CUresult entry::event_elapsed_time(float* ms, CUevent start, CUevent end) {
  KDART_FAKE_CALL(event_elapsed_time);
  const auto first = driver.events.find(start);
  const auto last = driver.events.find(end);
  if (first == nullptr || last == nullptr)
    return call.violation(CUDA_ERROR_INVALID_HANDLE, "between events that are not alive");
  for (const auto& event : {first, last}) {
    if (event->stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (event->stream->done < event->position) return CUDA_ERROR_NOT_READY;
  }
  *ms = static_cast<float>(last->time - first->time) / 1000.0F;
  return CUDA_SUCCESS;
}

}  // namespace kdart::fake_cuda
