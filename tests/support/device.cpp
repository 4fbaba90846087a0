#include "tests/support/device.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "tests/support/options.h"

namespace kdart::test {
namespace {

std::atomic<bool> opened{false};
std::atomic<bool> missed{false};
std::atomic<bool> flushes{false};

// Whether this error says that the machine has no such device, and a machine need not have one. A backend that this build
// does not know is a mistake.
bool may_be_missing(const Error& error) {
  if (error.code() != ErrorCode::driver_missing && error.code() != ErrorCode::no_device) return false;
  const std::string backend = DeviceId::parse(test_device()).backend;
  if (backend == "cpu" || backend == required_backend()) return false;
  const std::vector<std::string_view> built = backend_names();
  return std::find(built.begin(), built.end(), backend) != built.end();
}

std::shared_ptr<GpuBackend> open_or_skip(const OpenOptions& options) {
  std::string reason;
  try {
    return open_device(test_device(), options);
  } catch (const Error& error) {
    if (!may_be_missing(error)) throw;
    reason = error.what();
  }
  missed = true;
  SKIP(reason);
  return nullptr;  // not reached
}

}  // namespace

std::shared_ptr<GpuBackend> open_test_device(const OpenOptions& options) {
  std::shared_ptr<GpuBackend> device = open_or_skip(options);
  opened = true;
  const std::vector<std::string>& features = device->info().features;
  flushes = std::find(features.begin(), features.end(), "denormals_may_flush") != features.end();
  return device;
}

bool has_missed_device() {
  return missed;
}

bool has_opened_device_of(std::string_view backend) {
  const std::string& device = test_device();
  return opened && device.substr(0, device.find(':')) == backend;
}

bool denormals_may_flush() {
  return flushes;
}

}  // namespace kdart::test
