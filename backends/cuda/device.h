// A CUDA device as a kdart backend: backends/common/device.h over the driver API, and what only CUDA has.
#pragma once

#include <memory>
#include <string_view>

#include "backends/common/device.h"
#include "backends/cuda/traits.h"
#include "kdart/cuda.h"
#include "kdart/gemm_service.h"

namespace kdart {

extern template class common::DriverBackend<cuda::CudaApi>;

namespace cuda {

class CudaBackend final : public common::DriverBackend<CudaApi>, private CudaInterop {
 public:
  // Throws Error: unsupported for a device that cannot be used, what the driver answers.
  CudaBackend(std::shared_ptr<const Library> library, const CudaSnapshot& snapshot, const OpenOptions& options);
  // In the caller's context.
  CudaBackend(std::shared_ptr<const Library> library, const CudaSnapshot& snapshot, CUcontext adopted,
              const OpenOptions& options);

 private:
  friend class CublasLtGemm;

  void* do_service(std::string_view id) override;
  std::unique_ptr<GemmService> open_gemm() override;

  // CudaInterop
  Stream adopt_stream(void* stream) override;
  void* native_stream(Stream stream) const override;
  void* native_context() const noexcept override;
  void* native_kernel(KernelHandle kernel) const override;

  // Throws invalid_argument for a stream that is not of this context.
  void require_own(CUstream stream) const;
};

}  // namespace cuda
}  // namespace kdart
