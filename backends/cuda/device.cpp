#include "backends/cuda/device.h"

#include <utility>

#include "backends/common/calls.h"
#include "backends/cuda/gemm.h"

namespace kdart {

template class common::DriverBackend<cuda::CudaApi>;

namespace cuda {
namespace {

CUdevice device_of(const Library& library, const CudaSnapshot& snapshot) {
  CUdevice device = 0;
  check_cuda(library.functions().device_get(&device, static_cast<int>(snapshot.index)), "asking for a CUDA device");
  return device;
}

}  // namespace

CudaBackend::CudaBackend(std::shared_ptr<const Library> library, const CudaSnapshot& snapshot,
                         const OpenOptions& options)
    : DriverBackend(snapshot, options) {
  const CUdevice device = device_of(*library, snapshot);
  start(std::make_unique<Context>(std::move(library), device), snapshot);
}

CudaBackend::CudaBackend(std::shared_ptr<const Library> library, const CudaSnapshot& snapshot, CUcontext adopted,
                         const OpenOptions& options)
    : DriverBackend(snapshot, options) {
  const CUdevice device = device_of(*library, snapshot);
  start(std::make_unique<Context>(std::move(library), device, adopted), snapshot);
}

void* CudaBackend::do_service(std::string_view id) {
  if (id == CudaInterop::service_id) return static_cast<CudaInterop*>(this);
  return DriverBackend::do_service(id);
}

std::unique_ptr<GemmService> CudaBackend::open_gemm() {
  return cuda::open_gemm(*this);
}

}  // namespace cuda
}  // namespace kdart
