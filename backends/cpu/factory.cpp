// The CPU backend's entry in the registry: one device, always there.

#include <memory>

#include "backends/cpu/device.h"
#include "backends/cpu/errors.h"
#include "backends/cpu/facts.h"
#include "core/runtime/format.h"
#include "kdart/registry.h"

namespace kdart {
namespace cpu {
namespace {

class CpuFactory final : public BackendFactory {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "cpu"; }

  [[nodiscard]] BackendStatus status(const OpenOptions& options) const override {
    BackendStatus status;
    status.backend = name();
    try {
      status.devices.push_back(describe_device(take_snapshot(), options));
    } catch (const Error& error) {
      status.error = error.code();
      status.message = error.what();
    }
    return status;
  }

  [[nodiscard]] std::shared_ptr<GpuBackend> open(std::uint32_t index, const OpenOptions& options) const override {
    if (index != 0) {
      throw Error(ErrorCode::no_device,
                  detail::format("there is no device cpu:{}: the CPU backend has 1 device, cpu:0", index));
    }
    try {
      return std::make_shared<CpuBackend>(take_snapshot(), options);
    } catch (...) {
      throw current_error("opening cpu:0");
    }
  }
};

}  // namespace
}  // namespace cpu

namespace detail {

BackendFactory& cpu_backend_factory();
BackendFactory& cpu_backend_factory() {
  static cpu::CpuFactory factory;  // stateless
  return factory;
}

}  // namespace detail
}  // namespace kdart
