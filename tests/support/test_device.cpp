#include "tests/support/test_device.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "core/runtime/embedded_kernel_set.h"
#include "core/runtime/sha256.h"
#include "tests/support/device.h"
#include "tests/support/sample_set.h"

namespace kdart::detail {
#if defined(KDART_TEST_KERNELS_CPU)
extern const EmbeddedKernelSet kernel_set_device_cpu;
#endif
#if defined(KDART_TEST_KERNELS_CUDA)
extern const EmbeddedKernelSet kernel_set_device_cuda;
#endif
#if defined(KDART_TEST_KERNELS_HIP)
extern const EmbeddedKernelSet kernel_set_device_hip;
#endif
#if defined(KDART_TEST_KERNELS_VULKAN)
extern const EmbeddedKernelSet kernel_set_device_vulkan;
#endif
}  // namespace kdart::detail

namespace kdart::test {
namespace {

const detail::EmbeddedKernelSet& embedded(std::string_view backend) {
#if defined(KDART_TEST_KERNELS_CPU)
  if (backend == "cpu") return detail::kernel_set_device_cpu;
#endif
#if defined(KDART_TEST_KERNELS_CUDA)
  if (backend == "cuda") return detail::kernel_set_device_cuda;
#endif
#if defined(KDART_TEST_KERNELS_HIP)
  if (backend == "hip") return detail::kernel_set_device_hip;
#endif
#if defined(KDART_TEST_KERNELS_VULKAN)
  if (backend == "vulkan") return detail::kernel_set_device_vulkan;
#endif
  throw std::runtime_error("there are no test kernels for the backend " + std::string(backend));
}

}  // namespace

TestKernels TestKernels::of(std::string_view backend) {
  const detail::EmbeddedKernelSet& set = embedded(backend);
  TestKernels kernels{Manifest::parse(set.manifest.text(), "test manifest"), {}};
  for (const detail::EmbeddedFile& file : set.image_files()) {
    const auto bytes = file.bytes();
    kernels.files.emplace(file.name, std::vector<std::byte>(bytes.begin(), bytes.end()));
  }
  return kernels;
}

void TestKernels::set_image(std::vector<std::byte> bytes, std::size_t image) {
  ManifestImage& stated = manifest.images.at(image);
  stated.bytes = bytes.size();
  stated.sha256 = detail::sha256_hex(bytes);
  files.at(stated.file) = std::move(bytes);
}

std::shared_ptr<const KernelSet> TestKernels::make() const {
  return std::make_shared<MemorySet>(kernels::device_contract(), manifest, files);
}

TestDevice::TestDevice(const OpenOptions& options) : TestDevice(open_test_device(options)) {}

TestDevice::TestDevice(std::shared_ptr<GpuBackend> backend)
    : gpu(std::move(backend)),
      kernels(gpu->load(TestKernels::of(gpu->info().backend).make())),
      spun_(upload(std::vector<std::uint32_t>(1, 1))) {
  gpu->prepare((*this)["affine"], {64, 1, 1}, 0);
  for (const char* name : {"many_args", "spin"}) gpu->prepare((*this)[name], {1, 1, 1}, 0);
}

Buffer TestDevice::upload(std::span<const std::uint32_t> values) const {
  Buffer buffer(gpu, values.size_bytes());
  gpu->copy_h2d(buffer.get(), values.data(), values.size_bytes());
  return buffer;
}

std::vector<std::uint32_t> TestDevice::download(const Buffer& buffer) const {
  std::vector<std::uint32_t> values(buffer.bytes() / sizeof(std::uint32_t));
  gpu->copy_d2h(values.data(), buffer.get(), buffer.bytes());
  return values;
}

void TestDevice::affine(DevicePtr data, std::uint32_t count, std::uint32_t factor, std::uint32_t term,
                        Stream stream) const {
  KernelLaunch(*gpu, (*this)["affine"])
      .args(kernels::AffineArgs{.data = data, .count = count, .factor = factor, .term = term})
      .launch(stream);
}

// Many short launches rather than a long one: lavapipe ends each loop after 65,535 turns, and watchdogs end long launches.
void TestDevice::submit_spins(Stream stream, std::uint32_t count) const {
  for (std::uint32_t i = 0; i < count; ++i) {
    KernelLaunch(*gpu, (*this)["spin"])
        .args(kernels::SpinArgs{.state = spun_.get(), .iterations = 50000})
        .launch(stream);
  }
}

double TestDevice::spins_per_ms() const {
  static double measured = 0;
  if (measured > 0) return measured;
  const OwnedStream stream(gpu);
  const auto time = [&](std::uint32_t count) {
    const auto begin = std::chrono::steady_clock::now();
    submit_spins(stream.get(), count);
    gpu->synchronize(stream.get());
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  };
  time(1);  // what a first launch costs
  // Long enough for a device to leave its idle clocks; then the faster of two, as other work may come in between.
  std::uint32_t count = 1;
  while (time(count) < 10) count *= 2;
  measured = count / std::min(time(count), time(count));
  return measured;
}

void TestDevice::spin(Stream stream, std::uint32_t milliseconds) const {
  submit_spins(stream, static_cast<std::uint32_t>(std::min(milliseconds, 300U) * spins_per_ms()) + 1);
}

bool TestDevice::canary() const {
  constexpr std::uint32_t blocks = 2, threads = 32, rounds = 5;
  const OwnedStream stream(gpu);
  const Buffer out = upload(std::vector<std::uint32_t>(std::size_t{blocks} * threads, 0));
  KernelLaunch(*gpu, (*this)["rotate"])
      .args(kernels::RotateArgs{.out = out.get(), .blocks = blocks, .threads = threads, .rounds = rounds})
      .launch(stream.get());
  gpu->synchronize(stream.get());
  const std::vector<std::uint32_t> values = download(out);
  for (std::uint32_t i = 0; i < values.size(); ++i) {
    if (values[i] != (i % threads + rounds) % threads) return false;
  }
  return true;
}

}  // namespace kdart::test
