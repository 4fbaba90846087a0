// The HIP backend's entry in the registry.

#include "backends/common/factory.h"
#include "backends/hip/device.h"
#include "backends/hip/facts.h"
#include "backends/hip/loader.h"

namespace kdart {
namespace hip {
namespace {

struct Vendor {
  using Library = hip::Library;
  using Backend = HipBackend;
  static constexpr std::string_view name = "hip", api = "HIP", driver = "the HIP runtime";
  static std::string visible() { return visibility_note(); }
};

}  // namespace
}  // namespace hip

namespace detail {

BackendFactory& hip_backend_factory();
BackendFactory& hip_backend_factory() {
  static common::DriverFactory<hip::Vendor> factory;  // stateless
  return factory;
}

}  // namespace detail
}  // namespace kdart
