// The driver's own call for a launch: what KernelLaunch is measured against.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "kdart/backend.h"
#include "kdart/kda_kernels.h"

namespace kdart::probe {

// cuLaunchKernel of one kernel with parameters that are prepared once, on a stream of kdart's; the driver's library is looked
// up anew, and nothing of kdart stands between. One thread; the backend and the kernel's set outlive it.
class BareLaunch {
 public:
  // Null where the backend does not hand out the driver's objects; `reason` then says so. Throws driver_missing when the
  // library that the backend uses does not open or lacks a call.
  [[nodiscard]] static std::unique_ptr<BareLaunch> find(GpuBackend& backend, KernelHandle kernel, Stream stream,
                                                        const kernels::FillArgs& args, std::string& reason);
  BareLaunch(const BareLaunch&) = delete;
  BareLaunch& operator=(const BareLaunch&) = delete;

  // The device's context on top of the calling thread's, and off again.
  void push_context() const;
  void pop_context() const;
  // True when the calling thread has a context current, whosever.
  [[nodiscard]] bool context_is_current() const;

  // One launch; the device's context is current. Throws driver_error.
  void launch() const;

 private:
  BareLaunch() = default;
  struct Calls {
    int (*launch)(void* kernel, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                  unsigned int shared_bytes, void* stream, void** parameters, void** extra) = nullptr;
    int (*push)(void* context) = nullptr;
    int (*pop)(void** context) = nullptr;
    int (*current)(void** context) = nullptr;
  };
  Calls calls_;
  void* context_ = nullptr;
  void* kernel_ = nullptr;
  void* stream_ = nullptr;
  kernels::FillArgs args_{};
  std::array<void*, 3> parameters_{};
  Dim3 grid_, block_;
  std::uint32_t shared_bytes_ = 0;
};

}  // namespace kdart::probe
