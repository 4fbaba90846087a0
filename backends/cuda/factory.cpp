// The CUDA backend's entry in the registry.

#include <memory>
#include <new>

#include "backends/cuda/device.h"
#include "backends/cuda/facts.h"
#include "backends/cuda/loader.h"
#include "core/runtime/fail.h"
#include "core/runtime/messages.h"
#include "kdart/registry.h"

namespace kdart {
namespace cuda {
namespace {

class CudaFactory final : public BackendFactory {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "cuda"; }

  [[nodiscard]] BackendStatus status(const OpenOptions& options) const override {
    BackendStatus status;
    status.backend = name();
    try {
      const auto library = Library::open(options);
      status.driver_library = library->file();
      const std::uint32_t count = device_count(*library);
      for (std::uint32_t i = 0; i < count; ++i) status.devices.push_back(describe_device(read_snapshot(*library, i)));
      if (count == 0) {
        status.error = ErrorCode::no_device;
        status.message = no_device_text(*library);
      }
    } catch (const Error& error) {
      status.devices.clear();
      status.error = error.code();
      status.message = error.what();
    } catch (const std::bad_alloc&) {
      detail::fail(ErrorCode::out_of_host_memory, "listing the CUDA devices: the host is out of memory");
    }
    return status;
  }

  [[nodiscard]] std::shared_ptr<GpuBackend> open(std::uint32_t index, const OpenOptions& options) const override {
    const auto library = Library::open(options);
    const std::uint32_t count = device_count(*library);
    if (count == 0) detail::fail(ErrorCode::no_device, "{}", no_device_text(*library));
    if (index >= count) {
      detail::fail(ErrorCode::no_device, "there is no device cuda:{}: {} device{} found, the last is cuda:{}{}", index,
                   count, count == 1 ? " was" : "s were", count - 1, visible());
    }
    return std::make_shared<CudaBackend>(library, read_snapshot(*library, index), options);
  }

 private:
  static std::string visible() {
    const std::string note = visibility_note();
    return note.empty() ? note : "; " + note;
  }
  static std::string no_device_text(const Library& library) {
    return detail::format("the CUDA driver {} has no device{}", detail::quote(library.file()), visible());
  }
};

}  // namespace
}  // namespace cuda

namespace detail {

BackendFactory& cuda_backend_factory();
BackendFactory& cuda_backend_factory() {
  static cuda::CudaFactory factory;  // stateless
  return factory;
}

}  // namespace detail
}  // namespace kdart
