#include "backends/hip/device.h"

#include <utility>

#include "backends/common/calls.h"

namespace kdart {

template class common::DriverBackend<hip::HipApi>;

namespace hip {

HipBackend::HipBackend(std::shared_ptr<const Library> library, const HipSnapshot& snapshot, const OpenOptions& options)
    : DriverBackend(snapshot, options) {
  start(std::make_unique<Context>(std::move(library), static_cast<int>(snapshot.index)), snapshot);
}

void* HipBackend::do_service(std::string_view id) {
  if (id == HipInterop::service_id) return static_cast<HipInterop*>(this);
  return DriverBackend::do_service(id);
}

// kdart's own kernels multiply.
std::unique_ptr<GemmService> HipBackend::open_gemm() {
  return nullptr;
}

}  // namespace hip
}  // namespace kdart
