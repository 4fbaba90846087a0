// A HIP device as a kdart backend: backends/common/device.h over the module API, and what only HIP has.
#pragma once

#include <memory>
#include <string_view>

#include "backends/common/device.h"
#include "backends/hip/traits.h"
#include "kdart/gemm_service.h"
#include "kdart/hip.h"

namespace kdart {

extern template class common::DriverBackend<hip::HipApi>;

namespace hip {

class HipBackend final : public common::DriverBackend<HipApi>, private HipInterop {
 public:
  // Throws Error: unsupported for a device that cannot be used, what the runtime answers.
  HipBackend(std::shared_ptr<const Library> library, const HipSnapshot& snapshot, const OpenOptions& options);

 private:
  void* do_service(std::string_view id) override;
  std::unique_ptr<GemmService> open_gemm() override;

  // HipInterop
  Stream adopt_stream(void* stream) override;
  void* native_stream(Stream stream) const override;
  void* native_kernel(KernelHandle kernel) const override;

  // Throws invalid_argument for a stream that is not of this device.
  void require_own(hipStream_t stream) const;
};

}  // namespace hip
}  // namespace kdart
