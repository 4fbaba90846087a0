// The CUDA backend's entry in the registry.

#include "backends/common/factory.h"
#include "backends/cuda/device.h"
#include "backends/cuda/facts.h"
#include "backends/cuda/loader.h"

namespace kdart {
namespace cuda {
namespace {

struct Vendor {
  using Library = cuda::Library;
  using Backend = CudaBackend;
  static constexpr std::string_view name = "cuda", api = "CUDA", driver = "the CUDA driver";
  static std::string visible() { return visibility_note(); }
};

}  // namespace
}  // namespace cuda

namespace detail {

BackendFactory& cuda_backend_factory();
BackendFactory& cuda_backend_factory() {
  static common::DriverFactory<cuda::Vendor> factory;  // stateless
  return factory;
}

}  // namespace detail
}  // namespace kdart
