#include "backends/cuda/kernels.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "backends/cuda/cubin.h"
#include "backends/cuda/device.h"
#include "backends/cuda/errors.h"
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

CUmodule load_module(const Functions& cu, const void* bytes, const ManifestImage& image, const CudaSnapshot& device) {
  std::array<char, 4096> log{};
  std::array<int, 2> options{CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  std::array<void*, 2> values{log.data(), reinterpret_cast<void*>(log.size() - 1)};
  CUmodule module = nullptr;
  const CUresult result =
      cu.module_load_data_ex(&module, bytes, static_cast<unsigned int>(options.size()), options.data(), values.data());
  if (result != CUDA_SUCCESS) fail_load(result, image, device, log.data());
  return module;
}

int attribute(const Functions& cu, CUfunction function, int which, const std::string& kernel) {
  int value = 0;
  const CUresult result = cu.func_get_attribute(&value, which, function);
  if (result != CUDA_SUCCESS) fail_cuda(result, detail::format("kernel '{}': asking for its attributes", kernel));
  return value;
}

}  // namespace

CudaKernel::CudaKernel(CudaModule& module, CUfunction function, const std::string* name)
    : module_(&module), function_(function), name_(name) {
  const Functions& cu = module.context().cu();
  const auto ask = [&](int which) {
    return static_cast<std::uint32_t>(std::max(0, attribute(cu, function, which, *name)));
  };
  static_shared_ = ask(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  max_threads_ = ask(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  allowed_ = shared_without_optin - std::min(shared_without_optin, static_shared_);
}

void CudaKernel::raise_shared(std::uint32_t dynamic_bytes) {
  const std::lock_guard lock(mutex_);
  if (dynamic_bytes <= allowed_.load(std::memory_order_relaxed)) return;
  const CUresult result = module_->context().cu().func_set_attribute(
      function_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(dynamic_bytes));
  if (result != CUDA_SUCCESS)
    fail_cuda(result,
              detail::format("kernel '{}': asking for {} bytes of dynamic shared memory", *name_, dynamic_bytes));
  allowed_.store(dynamic_bytes, std::memory_order_release);
}

CudaModule::CudaModule(const Context& context, const CudaSnapshot& device, Names& names, const ManifestImage& image,
                       std::span<const std::byte> bytes)
    : context_(&context), names_(&names), file_(image.file) {
  switch (image.format) {
    case ImageFormat::cubin: {
      const Cubin cubin = read_cubin(bytes, file_);
      check_capability(cubin.capability, device, file_);
      for (const CubinKernel& kernel : cubin.kernels) stated_.emplace(kernel.symbol, kernel.arguments);
      module_ = load_module(context.cu(), bytes.data(), image, device);
      break;
    }
    case ImageFormat::ptx:
      check_ptx(bytes, file_);
      module_ = load_module(context.cu(), terminated(bytes).data(), image, device);
      break;
    default:
      detail::fail(ErrorCode::invalid_image, "image {}: a {} image is none that CUDA loads", detail::quote(file_),
                   to_string(image.format));
  }
}

CudaModule::~CudaModule() {
  static_cast<void>(context_->cu().module_unload(module_));
}

CudaKernel& CudaModule::get(const std::string& name, const std::string& symbol) {
  const std::lock_guard lock(mutex_);
  if (const auto known = kernels_.find(symbol); known != kernels_.end()) return *known->second;
  CUfunction function = nullptr;
  const CUresult result = context_->cu().module_get_function(&function, module_, symbol.c_str());
  if (result == CUDA_ERROR_NOT_FOUND) {
    detail::fail(ErrorCode::corrupt_image, "image {}: kernel '{}': the image has no entry point {}",
                 detail::quote(file_), name, detail::quote(symbol));
  }
  if (result != CUDA_SUCCESS) fail_cuda(result, detail::format("kernel '{}': looking it up", name));
  auto kernel = std::make_unique<CudaKernel>(*this, function, names_->keep(name));
  return *kernels_.emplace(symbol, std::move(kernel)).first->second;
}

std::vector<CubinArgument> CudaModule::arguments(const CudaKernel& kernel, const std::string& symbol) const {
  if (const auto stated = stated_.find(symbol); stated != stated_.end()) return stated->second;
  std::vector<CubinArgument> found;
  const auto ask = context_->cu().func_get_param_info;
  if (ask == nullptr) return found;
  for (std::size_t i = 0;; ++i) {
    std::size_t offset = 0;
    std::size_t size = 0;
    const CUresult result = ask(kernel.function(), i, &offset, &size);
    if (result == CUDA_ERROR_INVALID_VALUE) return found;  // past the last
    if (result != CUDA_SUCCESS)
      fail_cuda(result, detail::format("kernel '{}': asking for its arguments", *kernel.name()));
    found.push_back({static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(size)});
  }
}

// --- the backend's kernel group ---------------------------------------------------------------------------------------

GpuBackend::Native CudaBackend::do_load_image(const ManifestImage& image, std::span<const std::byte> bytes) {
  const Current current(*context_);
  return naming_culprits("loading an image", [&] {
    return parts_->modules.insert(
        std::make_shared<CudaModule>(*context_, parts_->snapshot, parts_->names, image, bytes));
  });
}

GpuBackend::KernelLoad CudaBackend::do_get_kernel(Native module, const ImageKernel& kernel, const ContractKernel&) {
  const Current current(*context_);
  auto& image = *detail::object_at<CudaModule>(module);
  return naming_culprits("looking up a kernel", [&] {
    CudaKernel& found = image.get(kernel.name, kernel.symbol);
    KernelLoad load;
    load.kernel = detail::native_of(&found);
    load.max_threads = found.max_threads();
    load.static_shared_bytes = found.static_shared_bytes();
    for (const CubinArgument& argument : image.arguments(found, kernel.symbol))
      load.arguments.push_back({argument.offset, argument.size});
    return load;
  });
}

void CudaBackend::do_unload_image(Native module) {
  const Current current(*context_);
  try {
    wait_for_all();
  } catch (const Error& error) {
    if (!is_sticky(error.code())) throw;
    set_sticky(error);
  }
  parts_->modules.remove(module);
}

void CudaBackend::do_prepare(Native kernel, Dim3, std::uint32_t shared_bytes) {
  const Current current(*context_);
  naming_culprits("preparing a kernel", [&] { detail::object_at<CudaKernel>(kernel)->allow_shared(shared_bytes); });
}

namespace {

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

CUresult launch_with_attributes(const Functions& cu, CUfunction function, const LaunchRecord& record, CUstream stream,
                                void** arguments) {
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
  return cu.launch_kernel_ex(&config, function, nullptr, arguments);
}

}  // namespace

void CudaBackend::do_launch(Native kernel, const LaunchRecord& record, Native stream) {
  const Current current(*context_);
  CudaKernel& target = *detail::object_at<CudaKernel>(kernel);
  CudaStream& queue = stream_of(stream);
  if (queue.capturing()) {
    queue.capture->add(target);
  } else if (options().synchronous_launches) {
    wait_for_all();  // a fault that comes now is this launch's
  }
  naming_culprits("preparing a kernel", [&] { target.allow_shared(record.shared_bytes); });

  std::size_t bytes = record.argument_bytes;
  std::array<void*, 5> packed{CU_LAUNCH_PARAM_BUFFER_POINTER, const_cast<std::byte*>(record.arguments.data()),
                              CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  void** arguments = bytes == 0 ? nullptr : packed.data();
  const bool plain = record.attributes.cluster == Dim3{1, 1, 1} && !record.attributes.dependent;
  const CUresult result =
      plain ? cu().launch_kernel(target.function(), record.grid.x, record.grid.y, record.grid.z, record.block.x,
                                 record.block.y, record.block.z, record.shared_bytes, queue.get(), nullptr, arguments)
            : launch_with_attributes(cu(), target.function(), record, queue.get(), arguments);
  if (result != CUDA_SUCCESS) [[unlikely]]
    fail(result, detail::format("launching kernel '{}'", *target.name()));
  queue.launched.add(target.name());
}

}  // namespace kdart::cuda
