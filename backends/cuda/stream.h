// Streams, events, and waiting for them.
#pragma once

#include <memory>

#include "backends/cuda/api.h"
#include "backends/cuda/context.h"
#include "backends/cuda/graph.h"
#include "backends/cuda/launched.h"
#include "kdart/backend.h"

namespace kdart::cuda {

// Runs in order with itself alone: not with the legacy default stream.
class CudaStream {
 public:
  explicit CudaStream(const Context& context);
  // The caller's.
  CudaStream(const Context& context, CUstream adopted) noexcept : context_(&context), stream_(adopted) {}
  ~CudaStream();
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  [[nodiscard]] CUstream get() const noexcept { return stream_; }

  Launched launched;
  // The capture that it takes part in, or took part in last. Changed by the stream's caller, under CudaBackend's lock.
  std::shared_ptr<Capture> capture;
  [[nodiscard]] bool capturing() const noexcept { return capture != nullptr && capture->open(); }
  [[nodiscard]] bool owned() const noexcept { return owned_; }

 private:
  const Context* context_;
  CUstream stream_ = nullptr;
  bool owned_ = false;
};

class CudaEvent {
 public:
  explicit CudaEvent(const Context& context);
  ~CudaEvent();
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  [[nodiscard]] CUevent get() const noexcept { return event_; }

  std::shared_ptr<Capture> capture;  // that recorded it last, if that came after its last real record

 private:
  const Context* context_;
  CUevent event_ = nullptr;
};

}  // namespace kdart::cuda
