// The device under test, where it has to have the CPU's bits.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <string>

#include "tests/support/device.h"

namespace kdart::test {

// Skips where there is nothing to compare, or where the arithmetic is not the CPU's.
[[nodiscard]] inline std::shared_ptr<GpuBackend> open_exact_device() {
  std::shared_ptr<GpuBackend> device = open_test_device();
  const std::string& backend = device->info().backend;
  if (backend == "cpu") SKIP("the CPU is what the other devices are compared with");
  if (backend == "vulkan") SKIP("Vulkan divides and takes roots within 2.5 units in the last place (docs/vulkan.md)");
  return device;
}

}  // namespace kdart::test
