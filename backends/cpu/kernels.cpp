#include "backends/cpu/kernels.h"

#include <algorithm>

#include "backends/cpu/device.h"
#include "backends/cpu/executor.h"
#include "backends/cpu/image_check.h"
#include "backends/cpu/stream.h"
#include "core/runtime/format.h"

namespace kdart::cpu {
namespace {

constexpr std::uint32_t max_kernels = 4096;

std::span<const std::byte> checked(std::span<const std::byte> bytes, std::string_view file) {
  check_image(bytes, file);
  return bytes;
}

[[noreturn]] void refuse(std::string_view file, std::string_view reason) {
  throw Error(ErrorCode::invalid_image, detail::format("image '{}' {}", file, reason));
}

const kdart_cpu_image& image_table(const SharedObject& object, std::string_view file) {
  const auto entry = reinterpret_cast<kdart_cpu_image_fn>(object.symbol(KDART_CPU_IMAGE_SYMBOL));
  if (entry == nullptr) refuse(file, "does not export " KDART_CPU_IMAGE_SYMBOL ": it is no kernel image of kdart");
  const kdart_cpu_image* image = entry();
  if (image == nullptr) refuse(file, "has no kernel table");
  if (image->abi_version != KDART_CPU_ABI_VERSION) {
    refuse(file, detail::format("was built for version {} of the CPU kernel interface, this library has {}",
                                image->abi_version, KDART_CPU_ABI_VERSION));
  }
  if (image->kernel_count > max_kernels || (image->kernel_count > 0 && image->kernels == nullptr)) {
    refuse(file, detail::format("has a malformed table of {} kernels", image->kernel_count));
  }
  return *image;
}

void check_kernel(const kdart_cpu_kernel& kernel, std::uint32_t index, std::string_view file) {
  if (kernel.name == nullptr) refuse(file, detail::format("has no name for kernel {}", index));
  const auto require = [&](bool condition, std::string_view what) {
    if (!condition) refuse(file, detail::format("has a malformed kernel '{}': {}", kernel.name, what));
  };
  require(kernel.barriers <= 1, "its barriers flag is neither 0 nor 1");
  require(kernel.thread_entry != nullptr, "it has no thread entry");
  require(kernel.barriers == 1 || kernel.block_entry != nullptr, "it has neither barriers nor a block entry");
  require(kernel.static_shared_bytes <= max_shared_bytes, "its static shared memory is more than a block has");
  require(kernel.argument_count <= max_kernel_arguments, "it has more arguments than a launch can carry");
  require(kernel.argument_count == 0 || (kernel.argument_offsets != nullptr && kernel.argument_sizes != nullptr),
          "it has arguments and no layout for them");
}

}  // namespace

CpuModule::CpuModule(std::span<const std::byte> bytes, std::string_view file)
    : file_(file), object_(checked(bytes, file), file) {
  const kdart_cpu_image& image = image_table(object_, file_);
  kernels_.reserve(image.kernel_count);
  for (std::uint32_t i = 0; i < image.kernel_count; ++i) {
    check_kernel(image.kernels[i], i, file_);
    if (find(image.kernels[i].name) != nullptr) {
      refuse(file_, detail::format("has two kernels named '{}'", image.kernels[i].name));
    }
    kernels_.emplace_back(*this, image.kernels[i]);
  }
}

const CpuKernel* CpuModule::find(std::string_view symbol) const noexcept {
  const auto found =
      std::find_if(kernels_.begin(), kernels_.end(), [&](const CpuKernel& k) { return k.name() == symbol; });
  return found == kernels_.end() ? nullptr : &*found;
}

// --- the backend's kernel group ---------------------------------------------------------------------------------------

GpuBackend::Native CpuBackend::do_load_image(const ManifestImage& image, std::span<const std::byte> bytes) {
  if (!options().cpu_target.empty() && image.target != options().cpu_target) {
    throw Error(
        ErrorCode::no_matching_image,
        detail::format("the device was opened with cpu_target '{}', and the best image for it, '{}', is for '{}'",
                       options().cpu_target, image.file, image.target));
  }
  auto module = std::make_shared<CpuModule>(bytes, image.file);
  return parts_->modules.insert(std::move(module));
}

GpuBackend::KernelLoad CpuBackend::do_get_kernel(Native module, const ImageKernel& kernel, const ContractKernel&) {
  const auto& image = *detail::object_at<const CpuModule>(module);
  const CpuKernel* found = image.find(kernel.symbol);
  if (found == nullptr) {
    throw Error(ErrorCode::corrupt_image, detail::format("image '{}' has no kernel '{}', which its manifest states",
                                                         image.file(), kernel.symbol));
  }
  KernelLoad load;
  load.kernel = detail::native_of(found);
  load.static_shared_bytes = found->static_shared_bytes();
  for (std::size_t i = 0; i < found->argument_offsets().size(); ++i) {
    load.arguments.push_back({found->argument_offsets()[i], found->argument_sizes()[i]});
  }
  return load;
}

void CpuBackend::do_unload_image(Native module) {
  wait_for_all();
  parts_->modules.remove(module);
}

// Nothing depends on the block's size here: stacks and team threads come with the first block that needs them.
void CpuBackend::do_prepare(Native, Dim3, std::uint32_t) {}

void CpuBackend::do_launch(Native kernel, const LaunchRecord& record, Native stream) {
  LaunchOperation launch;
  launch.kernel = detail::object_at<const CpuKernel>(kernel);
  launch.grid = record.grid;
  launch.block = record.block;
  launch.shared_bytes = record.shared_bytes;
  std::copy_n(record.arguments.begin(), record.argument_bytes, launch.arguments.begin());
  enqueue(stream_of(stream), launch);
}

}  // namespace kdart::cpu
