// The least that a program which uses kdart does: it checks the version, catches an error, and moves bytes on a device.
#include <kdart/error.h>
#include <kdart/owned.h>
#include <kdart/registry.h>
#include <kdart/version.h>

#include <cstdio>
#include <cstring>

namespace {

bool unknown_backend_is_refused() {
  try {
    static_cast<void>(kdart::open_device("nothing:0"));
  } catch (const kdart::Error& error) {
    return error.code() == kdart::ErrorCode::driver_missing;
  }
  return false;
}

bool bytes_survive_the_device() {
  const auto gpu = kdart::open_device("cpu:0");
  const char sent[] = "there and back";
  char received[sizeof sent] = {};
  const kdart::Buffer buffer(gpu, sizeof sent);
  gpu->copy_h2d(buffer.get(), sent, sizeof sent);
  gpu->copy_d2h(received, buffer.get(), sizeof received);
  return std::memcmp(sent, received, sizeof sent) == 0;
}

}  // namespace

int main() {
  if (std::strcmp(kdart::version(), KDART_VERSION_STRING) != 0) return 1;
  if (!unknown_backend_is_refused()) return 2;
  if (!bytes_survive_the_device()) return 3;
  std::printf("kdart %s\n", kdart::version());
  return 0;
}
