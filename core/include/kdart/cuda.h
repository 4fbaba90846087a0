// Sharing CUDA objects with the program that made them. No CUDA header is needed here: handles are what cuda.h calls them,
// as pointers. Only in a library that was built with the CUDA backend.
#pragma once

#include <memory>
#include <string_view>

#include "kdart/backend.h"
#include "kdart/export.h"

namespace kdart {

// kdart in the caller's CUcontext instead of the device's primary one. Precondition: it lives; drivers crash on one that was
// destroyed. It is not destroyed here and must outlive the backend and everything that keeps the backend alive. Its id is
// "cuda:N", N the context's device. The driver is looked for as by open_device: the copy that the process has. Throws
// Error: invalid_argument (null, or one that the driver refuses), and what open_device throws.
[[nodiscard]] KDART_API std::shared_ptr<GpuBackend> adopt_cuda_context(void* context, const OpenOptions& options = {});

// A service of the CUDA backend: `backend.service<kdart::CudaInterop>()`. Valid while the backend lives. Any thread.
class KDART_API CudaInterop {
 public:
  static constexpr std::string_view service_id = "cuda.interop/1";

  // A handle for the caller's CUstream, for every call that takes one. Also for null and CU_STREAM_LEGACY, the context's
  // default stream, and for CU_STREAM_PER_THREAD, which is another stream on each thread. destroy_stream waits for its work
  // and forgets it, and does not destroy it; the CUstream must outlive the handle. While the caller captures it, launches,
  // async d2d copies, fills, records and waits go into the caller's graph, which the kernel set has to outlive; kdart's own
  // rules of a capture do not see that one. Throws Error(invalid_argument) for a stream of another context.
  [[nodiscard]] virtual Stream adopt_stream(void* stream) = 0;
  // The CUstream behind a handle, to order work of the caller's own with. Throws invalid_handle.
  [[nodiscard]] virtual void* native_stream(Stream stream) const = 0;
  // The CUfunction behind a handle; its arguments are the contract's, packed. Throws invalid_handle.
  [[nodiscard]] virtual void* native_kernel(KernelHandle kernel) const = 0;
  // The CUcontext that all of the backend's objects belong to.
  [[nodiscard]] virtual void* native_context() const noexcept = 0;

 protected:
  CudaInterop() = default;
  ~CudaInterop() = default;
  CudaInterop(const CudaInterop&) = default;
  CudaInterop& operator=(const CudaInterop&) = default;
};

}  // namespace kdart
