// Images on a real CUDA driver: code for another chip, PTX of another version, PTX alone.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/error_of.h"
#include "tests/support/launch_shapes.h"
#include "tests/support/test_device.h"

namespace kdart::test {
namespace {

// These run on a CUDA device alone, as tests/CMakeLists.txt has it; whoever runs them elsewhere is told.
void require_cuda(const TestDevice& device) {
  if (!device.is("cuda")) SKIP("the device under test is " << device.gpu->info().id << ", and this is about CUDA's");
}

// The set with only those of its images that `keep` takes.
template <class Keep>
TestKernels only(const Keep& keep) {
  TestKernels kernels = TestKernels::of("cuda");
  std::erase_if(kernels.manifest.images, [&](const ManifestImage& image) { return !keep(image); });
  REQUIRE(kernels.manifest.images.size() == 1);
  return kernels;
}

TestKernels ptx_alone() {
  return only([](const ManifestImage& image) { return image.format == ImageFormat::ptx; });
}

// A cubin whose code this device has no way to run.
TestKernels foreign_cubin(const TestDevice& device) {
  const std::string& target = device.gpu->info().target;
  const std::string foreign = target.starts_with("sm_12") ? "sm_80" : "sm_120";
  return only([&](const ManifestImage& image) { return image.target == foreign; });
}

std::string text_of(const TestKernels& kernels) {
  const std::vector<std::byte>& bytes = kernels.files.at(kernels.manifest.images[0].file);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void set_text(TestKernels& kernels, std::string_view text) {
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  kernels.set_image(std::vector<std::byte>(first, first + text.size()));
}

// PTX that says it is of version 99.0.
TestKernels ptx_of_the_future() {
  TestKernels kernels = ptx_alone();
  std::string text = text_of(kernels);
  const std::string_view directive = "\n.version ";
  const std::size_t at = text.find(directive);
  REQUIRE(at != std::string::npos);
  const std::size_t number = at + directive.size();
  text.replace(number, text.find('\n', number) - number, "99.0");
  set_text(kernels, text);
  return kernels;
}

Error refusal(const TestDevice& device, const TestKernels& kernels) {
  const auto set = kernels.make();
  return error_of([&] { static_cast<void>(device.gpu->load(set)); });
}

bool mentions(const Error& error, std::string_view part) {
  return std::string_view(error.what()).find(part) != std::string_view::npos;
}

// What the kernels of a set compute, in one list.
std::vector<std::uint32_t> results(const TestDevice& device, const LoadedSet& set) {
  const OwnedStream stream(device.gpu);
  std::vector<std::uint32_t> found;
  const auto collect = [&](const Buffer& buffer) {
    device.gpu->synchronize(stream.get());
    const std::vector<std::uint32_t> values = device.download(buffer);
    found.insert(found.end(), values.begin(), values.end());
  };
  const Shape shape{{3, 4, 2}, {5, 2, 3}};
  const Buffer ids = device.upload(std::vector<std::uint32_t>(std::size_t{12} * threads_of(shape), 0));
  KernelLaunch(*device.gpu, set.get("ids"))
      .arg(ids.get())
      .arg(threads_of(shape))
      .grid(shape.grid.x, shape.grid.y, shape.grid.z)
      .block(shape.block.x, shape.block.y, shape.block.z)
      .launch(stream.get());
  collect(ids);
  const Buffer rotated = device.upload(std::vector<std::uint32_t>(3 * 256, 0));
  KernelLaunch(*device.gpu, set.get("rotate"))
      .args(kernels::RotateArgs{.out = rotated.get(), .blocks = 3, .threads = 256, .rounds = 11})
      .launch(stream.get());
  collect(rotated);
  const Buffer data = device.upload(std::vector<std::uint32_t>(1000, 3));
  for (std::uint32_t i = 0; i < 100; ++i) {
    KernelLaunch(*device.gpu, set.get("affine"))
        .args(kernels::AffineArgs{.data = data.get(), .count = 1000, .factor = 7, .term = i})
        .launch(stream.get());
  }
  collect(data);
  const Buffer state = device.upload(std::vector<std::uint32_t>(1, 1));
  KernelLaunch(*device.gpu, set.get("spin"))
      .args(kernels::SpinArgs{.state = state.get(), .iterations = 10000})
      .launch(stream.get());
  collect(state);
  const Buffer many = device.upload(std::vector<std::uint32_t>(50, 0));
  kernels::ManyArgsArgs args{};
  args.out = many.get();
  for (DevicePtr* p : {&args.p0, &args.p1, &args.p2, &args.p3, &args.p4, &args.p5, &args.p6}) *p = state.get();
  args.a3 = 33;
  args.b5 = 0x123456789abcdefULL;
  args.c6 = 1.5F;
  args.last = -9;
  KernelLaunch(*device.gpu, set.get("many_args")).args(args).launch(stream.get());
  collect(many);
  // The addresses differ from one run to the next, so only what they lead to and the rest is compared.
  std::vector<std::uint32_t> kept(found.begin(), found.end() - 50);
  for (std::size_t i = found.size() - 50; i < found.size(); ++i) {
    const std::size_t place = i - (found.size() - 50);
    const bool address = place < 49 && (place % 7 == 4 || place % 7 == 5);
    kept.push_back(address ? 0 : found[i]);
  }
  return kept;
}

}  // namespace

TEST_CASE("a cubin for another chip is refused though the manifest says otherwise", "[device][cuda-only][images]") {
  const TestDevice device;
  require_cuda(device);
  TestKernels kernels = foreign_cubin(device);
  const std::string foreign = kernels.manifest.images[0].target;
  const Error honest = refusal(device, kernels);
  INFO(honest.what());
  CHECK(honest.code() == ErrorCode::no_matching_image);
  CHECK(mentions(honest, foreign));
  CHECK(mentions(honest, device.gpu->info().target));
  CHECK(device.canary());

  kernels.manifest.images[0].target = device.gpu->info().target;
  const Error false_target = refusal(device, kernels);
  INFO(false_target.what());
  CHECK(false_target.code() == ErrorCode::no_matching_image);
  CHECK(mentions(false_target, foreign));
  CHECK(device.canary());
}

TEST_CASE("PTX newer than the driver takes is refused by name", "[device][cuda-only][images]") {
  const TestDevice device;
  require_cuda(device);
  TestKernels kernels = ptx_of_the_future();
  kernels.manifest.images[0].ptx_isa = 990;
  const Error honest = refusal(device, kernels);
  INFO(honest.what());
  CHECK(honest.code() == ErrorCode::no_matching_image);
  CHECK(mentions(honest, "99.0"));
  CHECK(mentions(honest, "driver"));
  CHECK(device.canary());

  // With a manifest that is wrong about it, the driver says so.
  kernels.manifest.images[0].ptx_isa = ptx_alone().manifest.images[0].ptx_isa;
  const Error driver = refusal(device, kernels);
  INFO(driver.what());
  CHECK((driver.code() == ErrorCode::no_matching_image || driver.code() == ErrorCode::invalid_image));
  CHECK(mentions(driver, kernels.manifest.images[0].file));
  CHECK(device.canary());
}

TEST_CASE("PTX that the driver's compiler refuses is no image, and the message has what it says",
          "[device][cuda-only][images]") {
  const TestDevice device;
  require_cuda(device);
  TestKernels kernels = ptx_alone();
  std::string text = text_of(kernels);
  const std::size_t at = text.find("ret;");
  REQUIRE(at != std::string::npos);
  text.replace(at, 4, "turn");
  set_text(kernels, text);
  const Error error = refusal(device, kernels);
  INFO(error.what());
  CHECK(error.code() == ErrorCode::invalid_image);
  CHECK(mentions(error, "it says:"));
  CHECK(device.canary());
}

TEST_CASE("a cubin whose kernels take other arguments is refused", "[device][cuda-only][images]") {
  const TestDevice device;
  require_cuda(device);
  TestKernels kernels = TestKernels::of("cuda");
  std::erase_if(kernels.manifest.images, [](const ManifestImage& image) { return image.format == ImageFormat::ptx; });
  for (ManifestImage& image : kernels.manifest.images) {
    for (ImageKernel& kernel : image.kernels) {
      if (kernel.name == "affine") kernel.symbol = "kdart_visit";
    }
  }
  const Error error = refusal(device, kernels);
  INFO(error.what());
  CHECK(error.code() == ErrorCode::corrupt_image);
  CHECK(mentions(error, "affine"));
  CHECK(device.canary());
}

TEST_CASE("a set of PTX alone gives what the images for the chip give", "[device][cuda-only][images]") {
  const TestDevice device;
  require_cuda(device);
  const auto compiled = device.gpu->load(ptx_alone().make());
  const std::vector<std::uint32_t> from_ptx = results(device, *compiled);
  const std::vector<std::uint32_t> from_cubin = results(device, *device.kernels);
  CHECK(from_ptx == from_cubin);
  TestDevice by_ptx(device.gpu);
  by_ptx.kernels = compiled;
  CHECK(by_ptx.canary());
}

TEST_CASE("a cluster larger than any chip has is refused", "[device][cuda-only][launch]") {
  const TestDevice device;
  require_cuda(device);
  const std::vector<std::string>& features = device.gpu->info().features;
  if (std::find(features.begin(), features.end(), "cluster_launch") == features.end())
    SKIP("this device has no clusters");
  const OwnedStream stream(device.gpu);
  const Buffer data = device.upload(std::vector<std::uint32_t>(std::size_t{64} * 64, 1));
  const Error error = error_of([&] {
    KernelLaunch(*device.gpu, device["affine"])
        .args(kernels::AffineArgs{.data = data.get(), .count = 64 * 64, .factor = 2, .term = 0})
        .attributes({.cluster = {64, 1, 1}})
        .launch(stream.get());
  });
  INFO(error.what());
  CHECK(error.code() == ErrorCode::invalid_launch);
  device.gpu->synchronize(stream.get());
  CHECK(device.download(data) == std::vector<std::uint32_t>(std::size_t{64} * 64, 1));
  CHECK(device.canary());
}

}  // namespace kdart::test
