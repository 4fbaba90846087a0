#include "tests/support/device.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "tests/support/options.h"

namespace kdart::test {
namespace {

std::atomic<bool> opened{false};
std::atomic<bool> flushes{false};

}  // namespace

std::shared_ptr<GpuBackend> open_test_device(const OpenOptions& options) {
  std::shared_ptr<GpuBackend> device = open_device(test_device(), options);
  opened = true;
  const std::vector<std::string>& features = device->info().features;
  flushes = std::find(features.begin(), features.end(), "denormals_may_flush") != features.end();
  return device;
}

bool has_opened_device_of(std::string_view backend) {
  const std::string& device = test_device();
  return opened && device.substr(0, device.find(':')) == backend;
}

bool denormals_may_flush() {
  return flushes;
}

}  // namespace kdart::test
