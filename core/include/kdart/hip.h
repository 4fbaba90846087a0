// Sharing HIP objects with the program that made them. No HIP header is needed here: handles are what hip_runtime_api.h
// calls them, as pointers. Only in a library that was built with the HIP backend.
//
// HIP has one context for each device: kdart's objects and the program's live in the same one, and open_device("hip:N") is
// all that sharing a device takes. N counts as hipGetDeviceCount does.
#pragma once

#include <string_view>

#include "kdart/backend.h"
#include "kdart/export.h"

namespace kdart {

// A service of the HIP backend: `backend.service<kdart::HipInterop>()`. Valid while the backend lives. Any thread.
class KDART_API HipInterop {
 public:
  static constexpr std::string_view service_id = "hip.interop/1";

  // A handle for the caller's hipStream_t, for every call that takes one. Also for null, the device's default stream, and
  // for hipStreamPerThread, which is another stream on each thread. destroy_stream waits for its work and forgets it, and
  // does not destroy it; the hipStream_t must outlive the handle. While the caller captures it, launches, async d2d copies,
  // fills, records and waits go into the caller's graph, which the kernel set has to outlive; kdart's own rules of a capture
  // do not see that one. Throws Error(invalid_argument) for a stream of another device, where the runtime (ROCm 5.6 or
  // later) tells it.
  [[nodiscard]] virtual Stream adopt_stream(void* stream) = 0;
  // The hipStream_t behind a handle, to order work of the caller's own with. Throws invalid_handle.
  [[nodiscard]] virtual void* native_stream(Stream stream) const = 0;
  // The hipFunction_t behind a handle; its arguments are the contract's, packed. Throws invalid_handle.
  [[nodiscard]] virtual void* native_kernel(KernelHandle kernel) const = 0;

 protected:
  HipInterop() = default;
  ~HipInterop() = default;
  HipInterop(const HipInterop&) = default;
  HipInterop& operator=(const HipInterop&) = default;
};

}  // namespace kdart
