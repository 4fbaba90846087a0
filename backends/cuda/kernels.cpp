// Images and launches: what the CUDA driver takes in its own form.
#include <array>
#include <cstring>
#include <utility>

#include "backends/cuda/cubin.h"
#include "backends/cuda/traits.h"
#include "core/runtime/fail.h"
#include "core/runtime/messages.h"

namespace kdart::cuda {
namespace {

// The driver takes an image without its length: PTX has to end in a NUL.
std::vector<std::byte> terminated(std::span<const std::byte> bytes) {
  std::vector<std::byte> text(bytes.begin(), bytes.end());
  text.push_back(std::byte{0});
  return text;
}

// A cubin runs on its own compute capability and on later minor ones.
void check_capability(std::uint32_t capability, const CudaSnapshot& device, const std::string& file) {
  const auto major = static_cast<std::uint32_t>(device.major);
  const auto minor = static_cast<std::uint32_t>(device.minor);
  if (capability == 0 || (capability / 10 == major && capability % 10 <= minor)) return;
  detail::fail(ErrorCode::no_matching_image,
               "image {}: its code is for sm_{}, whatever its manifest says, and {} is sm_{}{}", detail::quote(file),
               capability, device.name, major, minor);
}

[[noreturn]] void fail_load(CUresult result, const ManifestImage& image, const CudaSnapshot& device, const char* log) {
  const std::string name = result_name(result);
  std::string text =
      detail::format("image {} ({}): the driver (CUDA {}.{}) does not load it on {}, sm_{}{}: {} ({})",
                     detail::quote(image.file), image.target, device.cuda_version / 1000,
                     device.cuda_version % 1000 / 10, device.name, device.major, device.minor, name, result);
  if (result == CUDA_ERROR_JIT_COMPILER_NOT_FOUND) text += "; its compiler, libnvidia-ptxjitcompiler, is not installed";
  if (*log != '\0') text += detail::format("; it says: {}", log);
  throw Error(code_of(result), text, result, name);
}

CUmodule load_module(const Functions& driver, const void* bytes, const ManifestImage& image,
                     const CudaSnapshot& device) {
  std::array<char, 4096> log{};
  std::array<int, 2> options{CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  std::array<void*, 2> values{log.data(), reinterpret_cast<void*>(log.size() - 1)};
  CUmodule module = nullptr;
  const CUresult result = driver.module_load_data_ex(&module, bytes, static_cast<unsigned int>(options.size()),
                                                     options.data(), values.data());
  if (result != CUDA_SUCCESS) fail_load(result, image, device, log.data());
  return module;
}

// What a record asks beyond grid, block and arguments.
std::uint32_t fill_attributes(const LaunchAttributes& wanted, std::array<CUlaunchAttribute, 2>& attributes) {
  std::uint32_t count = 0;
  if (wanted.cluster != Dim3{1, 1, 1}) {
    attributes[count].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attributes[count].value.clusterDim = {wanted.cluster.x, wanted.cluster.y, wanted.cluster.z};
    ++count;
  }
  if (wanted.dependent) {
    attributes[count].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attributes[count].value.programmaticStreamSerializationAllowed = 1;
    ++count;
  }
  return count;
}

CUresult launch_with_attributes(const Functions& driver, CUfunction function, const LaunchRecord& record,
                                CUstream stream, void** arguments) {
  std::array<CUlaunchAttribute, 2> attributes{};
  CUlaunchConfig config{};
  config.gridDimX = record.grid.x;
  config.gridDimY = record.grid.y;
  config.gridDimZ = record.grid.z;
  config.blockDimX = record.block.x;
  config.blockDimY = record.block.y;
  config.blockDimZ = record.block.z;
  config.sharedMemBytes = record.shared_bytes;
  config.hStream = stream;
  config.numAttrs = fill_attributes(record.attributes, attributes);
  config.attrs = attributes.data();
  return driver.launch_kernel_ex(&config, function, nullptr, arguments);
}

}  // namespace

common::LoadedImage<CudaApi> CudaApi::load(const Context& context, const Snapshot& device, const ManifestImage& image,
                                           std::span<const std::byte> bytes) {
  common::LoadedImage<CudaApi> loaded;
  switch (image.format) {
    case ImageFormat::cubin: {
      const Cubin cubin = read_cubin(bytes, image.file);
      check_capability(cubin.capability, device, image.file);
      for (const CubinKernel& kernel : cubin.kernels) loaded.stated.emplace(kernel.symbol, kernel.arguments);
      loaded.module = load_module(context.driver(), bytes.data(), image, device);
      break;
    }
    case ImageFormat::ptx:
      check_ptx(bytes, image.file);
      loaded.module = load_module(context.driver(), terminated(bytes).data(), image, device);
      break;
    default:
      detail::fail(ErrorCode::invalid_image, "image {}: a {} image is none that CUDA loads", detail::quote(image.file),
                   to_string(image.format));
  }
  return loaded;
}

std::vector<common::KernelArgument> CudaApi::arguments(const Functions& driver, Function function,
                                                       const std::string& kernel) {
  std::vector<common::KernelArgument> found;
  const auto ask = driver.func_get_param_info;
  if (ask == nullptr) return found;
  for (std::size_t i = 0;; ++i) {
    std::size_t offset = 0;
    std::size_t size = 0;
    const CUresult result = ask(function, i, &offset, &size);
    if (result == CUDA_ERROR_INVALID_VALUE) return found;  // past the last
    if (result != CUDA_SUCCESS) fail_cuda(result, detail::format("kernel '{}': asking for its arguments", kernel));
    found.push_back({static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(size)});
  }
}

CUresult CudaApi::launch(const Functions& driver, Function function, const LaunchRecord& record, Stream stream) {
  std::size_t bytes = record.argument_bytes;
  std::array<void*, 5> packed{CU_LAUNCH_PARAM_BUFFER_POINTER, const_cast<std::byte*>(record.arguments.data()),
                              CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  void** arguments = bytes == 0 ? nullptr : packed.data();
  const bool plain = record.attributes.cluster == Dim3{1, 1, 1} && !record.attributes.dependent;
  return plain ? driver.launch_kernel(function, record.grid.x, record.grid.y, record.grid.z, record.block.x,
                                      record.block.y, record.block.z, record.shared_bytes, stream, nullptr, arguments)
               : launch_with_attributes(driver, function, record, stream, arguments);
}

}  // namespace kdart::cuda
