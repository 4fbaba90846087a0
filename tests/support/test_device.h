// The device under test (--device), or another, with the small kernels of tests/device/kernels.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kdart/backend.h"
#include "kdart/device_kernels.h"
#include "kdart/kernel_set.h"
#include "kdart/launch.h"
#include "kdart/owned.h"
#include "tests/support/kernel_runner.h"

namespace kdart::test {

// The kernel set "device" for a backend, as the build made it. A test may change both parts before it makes a set of them.
struct TestKernels {
  Manifest manifest;
  std::map<std::string, std::vector<std::byte>> files;  // image bytes by file name

  // Throws std::runtime_error for a backend that has none in this build.
  [[nodiscard]] static TestKernels of(std::string_view backend);
  // Replaces the bytes of an image, of the only one say; the manifest then states their length and hash.
  void set_image(std::vector<std::byte> bytes, std::size_t image = 0);
  [[nodiscard]] const std::vector<std::byte>& image() const { return files.begin()->second; }
  [[nodiscard]] std::shared_ptr<const KernelSet> make() const;
};

// Its kernels affine, many_args and spin are prepared for the shapes that the contract gives them, so a capture takes them.
class TestDevice {
 public:
  // Opens the device that the program was told to use.
  explicit TestDevice(const OpenOptions& options = device_options());
  // One that is open already.
  explicit TestDevice(std::shared_ptr<GpuBackend> backend);

  std::shared_ptr<GpuBackend> gpu;
  std::shared_ptr<LoadedSet> kernels;

  [[nodiscard]] bool is(std::string_view backend) const { return gpu->info().backend == backend; }
  // Its memory is the host's: running out of it is a matter of every process on the machine.
  [[nodiscard]] bool shares_host_memory() const { return gpu->info().type == DeviceType::cpu; }
  [[nodiscard]] KernelHandle operator[](std::string_view kernel) const { return kernels->get(kernel); }

  [[nodiscard]] Buffer upload(std::span<const std::uint32_t> values) const;
  [[nodiscard]] std::vector<std::uint32_t> download(const Buffer& buffer) const;

  // data[i] = data[i] * factor + term for the whole buffer.
  void affine(const Buffer& data, std::uint32_t factor, std::uint32_t term, Stream stream) const {
    affine(data.get(), static_cast<std::uint32_t>(data.bytes() / 4), factor, term, stream);
  }
  void affine(DevicePtr data, std::uint32_t count, std::uint32_t factor, std::uint32_t term, Stream stream) const;
  // Launches that together take about so long, at most 300 ms. How long one takes is measured once per process.
  void spin(Stream stream, std::uint32_t milliseconds) const;
  // One launch with barriers and shared memory whose result is checked: the device is usable.
  [[nodiscard]] bool canary() const;

 private:
  [[nodiscard]] double spins_per_ms() const;
  void submit_spins(Stream stream, std::uint32_t count) const;

  Buffer spun_;  // the state of spin's generator
};

}  // namespace kdart::test
