#include "tests/support/device.h"

#include <atomic>
#include <string>

#include "tests/support/options.h"

namespace kdart::test {
namespace {

std::atomic<bool> opened{false};

}  // namespace

std::shared_ptr<GpuBackend> open_test_device(const OpenOptions& options) {
  std::shared_ptr<GpuBackend> device = open_device(test_device(), options);
  opened = true;
  return device;
}

bool has_opened_device_of(std::string_view backend) {
  const std::string& device = test_device();
  return opened && device.substr(0, device.find(':')) == backend;
}

}  // namespace kdart::test
