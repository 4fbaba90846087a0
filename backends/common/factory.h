// The registry's entry of a backend whose driver numbers its devices.
#pragma once

#include <memory>
#include <new>
#include <string>
#include <string_view>

#include "core/runtime/fail.h"
#include "core/runtime/messages.h"
#include "kdart/registry.h"

namespace kdart::common {

// `Vendor` has a name, a driver's name, Library, and the functions of its facts.h: device_count, read_snapshot,
// describe_device, visibility_note.
template <class Vendor>
class DriverFactory final : public BackendFactory {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return Vendor::name; }

  [[nodiscard]] BackendStatus status(const OpenOptions& options) const override {
    BackendStatus status;
    status.backend = name();
    try {
      const auto library = Vendor::Library::open(options);
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
      detail::fail(ErrorCode::out_of_host_memory, "listing the {} devices: the host is out of memory", Vendor::api);
    }
    return status;
  }

  [[nodiscard]] std::shared_ptr<GpuBackend> open(std::uint32_t index, const OpenOptions& options) const override {
    const auto library = Vendor::Library::open(options);
    const std::uint32_t count = device_count(*library);
    if (count == 0) detail::fail(ErrorCode::no_device, "{}", no_device_text(*library));
    if (index >= count) {
      detail::fail(ErrorCode::no_device, "there is no device {}:{}: {} device{} found, the last is {}:{}{}", name(),
                   index, count, count == 1 ? " was" : "s were", name(), count - 1, visible());
    }
    return std::make_shared<typename Vendor::Backend>(library, read_snapshot(*library, index), options);
  }

 private:
  static std::string visible() {
    const std::string note = Vendor::visible();
    return note.empty() ? note : "; " + note;
  }
  static std::string no_device_text(const typename Vendor::Library& library) {
    return detail::format("{} {} has no device{}", Vendor::driver, detail::quote(library.file()), visible());
  }
};

}  // namespace kdart::common
