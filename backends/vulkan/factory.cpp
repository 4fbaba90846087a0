// The Vulkan backend's entry in the registry.

#include <memory>
#include <new>

#include "backends/vulkan/device.h"
#include "backends/vulkan/list.h"
#include "backends/vulkan/loader.h"
#include "core/runtime/fail.h"
#include "kdart/registry.h"

namespace kdart {
namespace vulkan {
namespace {

class VulkanFactory final : public BackendFactory {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "vulkan"; }

  [[nodiscard]] BackendStatus status(const OpenOptions& options) const override {
    BackendStatus status;
    status.backend = name();
    try {
      const auto library = std::make_shared<const Library>(options);
      status.driver_library = library->file();
      const Instance instance(library, options);
      for (const ListedDevice& listed : list_devices(instance, options)) status.devices.push_back(listed.plan.info);
      if (status.devices.empty()) {
        status.error = ErrorCode::no_device;
        status.message = no_device_text(library->file());
      }
    } catch (const Error& error) {
      status.error = error.code();
      status.message = error.what();
    } catch (const std::bad_alloc&) {
      detail::fail(ErrorCode::out_of_host_memory, "listing the Vulkan devices: the host is out of memory");
    }
    return status;
  }

  [[nodiscard]] std::shared_ptr<GpuBackend> open(std::uint32_t index, const OpenOptions& options) const override {
    const auto library = std::make_shared<const Library>(options);
    auto instance = std::make_shared<const Instance>(library, options);
    const std::vector<ListedDevice> devices = list_devices(*instance, options);
    if (devices.empty()) detail::fail(ErrorCode::no_device, "{}", no_device_text(library->file()));
    if (index >= devices.size()) {
      detail::fail(ErrorCode::no_device, "there is no device vulkan:{}: {} device{} found, the last is vulkan:{} ({})",
                   index, devices.size(), devices.size() == 1 ? " was" : "s were", devices.size() - 1,
                   devices.back().plan.info.name);
    }
    return std::make_shared<VulkanBackend>(std::move(instance), devices[index], options);
  }

 private:
  static std::string no_device_text(const std::string& file) {
    return detail::format("the Vulkan loader {} and its drivers are there, and none of them has a device", file);
  }
};

}  // namespace
}  // namespace vulkan

namespace detail {

BackendFactory& vulkan_backend_factory();
BackendFactory& vulkan_backend_factory() {
  static vulkan::VulkanFactory factory;  // stateless
  return factory;
}

}  // namespace detail
}  // namespace kdart
