// A CPU device with the kernels of image/test_kernels.cxx.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kdart/backend.h"
#include "kdart/owned.h"
#include "kdart/registry.h"
#include "tests/support/error_of.h"

namespace kdart::test {

// The images, each read from its file once per call.
[[nodiscard]] std::vector<std::byte> good_image();
[[nodiscard]] std::vector<std::byte> wrong_abi_image();
[[nodiscard]] std::vector<std::byte> image_without_table();

// What the kernels take, written by hand: the layouts that the image states are compared with it at load.
[[nodiscard]] const Contract& test_contract();

// A kernel set with one image for every x86-64 machine, whose manifest states each kernel of the contract and the right
// hash for `image`.
[[nodiscard]] std::shared_ptr<const KernelSet> test_set(std::span<const std::byte> image);

struct CpuTestDevice {
  explicit CpuTestDevice(CpuEngine engine = CpuEngine::fibers, std::uint32_t threads = 2);
  std::shared_ptr<GpuBackend> gpu;
  std::shared_ptr<LoadedSet> kernels;

  [[nodiscard]] KernelHandle operator[](std::string_view kernel) const { return kernels->get(kernel); }
  [[nodiscard]] Buffer upload(std::span<const std::uint32_t> values) const;
  [[nodiscard]] std::vector<std::uint32_t> download(const Buffer& buffer) const;
  // One launch whose result is checked: the device is usable.
  [[nodiscard]] bool canary() const;
};

}  // namespace kdart::test
