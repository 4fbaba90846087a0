// Modules, their kernels, and launching them: which does nothing but write it down.
#include <algorithm>
#include <cstring>

#include "tests/fake_cuda/driver.h"

namespace kdart::fake_cuda {
namespace {

constexpr unsigned int shared_without_optin = 49152;

// An ELF file, or text.
bool looks_like_an_image(const void* image) {
  const auto* bytes = static_cast<const unsigned char*>(image);
  return std::memcmp(bytes, "\177ELF", 4) == 0 || bytes[0] == '.' || bytes[0] == '/';
}

// The caller's buffer for what the compiler has to say.
void write_log(const std::string& log, unsigned int count, const int* options, void** values) {
  char* buffer = nullptr;
  std::size_t size = 0;
  for (unsigned int i = 0; i < count; ++i) {
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER) buffer = static_cast<char*>(values[i]);
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) size = reinterpret_cast<std::uintptr_t>(values[i]);
  }
  if (buffer == nullptr || size == 0) return;
  const std::size_t length = std::min(log.size(), size - 1);
  std::memcpy(buffer, log.data(), length);
  buffer[length] = '\0';
}

unsigned int shared_limit(Device& device) {
  const auto optin = device.attributes.find(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  return optin == device.attributes.end() ? shared_without_optin : static_cast<unsigned int>(optin->second);
}

// The packed block that was given through `extra`.
std::vector<std::byte> packed(void** extra) {
  const void* block = nullptr;
  std::size_t bytes = 0;
  for (; extra != nullptr && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) block = extra[1];
    if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) bytes = *static_cast<const std::size_t*>(extra[1]);
  }
  const auto* first = static_cast<const std::byte*>(block);
  return block == nullptr ? std::vector<std::byte>() : std::vector<std::byte>(first, first + bytes);
}

void run_kernel(Driver& driver, Kernel& kernel, Context& context, Launch& launch) {
  if (driver.kernels.find(&kernel) == nullptr) {
    driver.violation("kernel " + kernel.name + " ran after its module was unloaded");
    context.fault = CUDA_ERROR_ILLEGAL_ADDRESS;
    return;
  }
  ++launch.runs;
  const auto fault = std::find_if(driver.faulting_kernels.begin(), driver.faulting_kernels.end(),
                                  [&](const auto& entry) { return entry.first.empty() || entry.first == kernel.name; });
  if (fault == driver.faulting_kernels.end()) return;
  context.fault = fault->second;
  driver.faulting_kernels.erase(fault);
}

// Writes the launch down and gives it to its stream.
CUresult launch_kernel(Call& call, CUfunction function, const CUlaunchConfig& config, void** extra) {
  Driver& driver = call.driver();
  const auto kernel = driver.kernels.find(function);
  if (kernel == nullptr) return call.violation(CUDA_ERROR_INVALID_HANDLE, "of a kernel that is not loaded");
  if (kernel->module->context != &call.context())
    return call.violation(CUDA_ERROR_INVALID_HANDLE, "of a kernel of a context that is not current");
  const unsigned int sizes[] = {config.gridDimX,  config.gridDimY,  config.gridDimZ,
                                config.blockDimX, config.blockDimY, config.blockDimZ};
  if (std::any_of(std::begin(sizes), std::end(sizes), [](unsigned int size) { return size == 0; }))
    return CUDA_ERROR_INVALID_VALUE;
  const std::uint64_t threads = std::uint64_t{config.blockDimX} * config.blockDimY * config.blockDimZ;
  if (threads > kernel->max_threads) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  if (config.sharedMemBytes > kernel->max_dynamic) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = CUDA_SUCCESS;
  const auto queue = call.stream(config.hStream, result);
  if (queue == nullptr) return result;

  Driver::LaunchBook& book = driver.launches.emplace_back();
  book.kernel = kernel->name;
  book.arguments = packed(extra);
  Launch& launch = book.launch;
  launch.kernel = book.kernel.c_str();
  std::copy_n(sizes, 3, launch.grid);
  std::copy_n(sizes + 3, 3, launch.block);
  launch.shared_bytes = config.sharedMemBytes;
  launch.arguments = book.arguments.empty() ? nullptr : book.arguments.data();
  launch.argument_bytes = book.arguments.size();
  launch.stream = config.hStream;
  launch.cluster[0] = launch.cluster[1] = launch.cluster[2] = 1;
  launch.captured = queue->capture != nullptr;
  for (unsigned int i = 0; i < config.numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config.attrs[i];
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      launch.cluster[0] = attribute.value.clusterDim.x;
      launch.cluster[1] = attribute.value.clusterDim.y;
      launch.cluster[2] = attribute.value.clusterDim.z;
    } else if (attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) {
      launch.dependent = attribute.value.programmaticStreamSerializationAllowed != 0;
    }
  }
  const auto run = [kernel, &context = call.context(), &launch](Driver& d) { run_kernel(d, *kernel, context, launch); };
  return driver.give(*queue, {.run = run, .module = kernel->module});
}

}  // namespace

CUresult entry::module_load_data_ex(CUmodule* module, const void* image, unsigned int count, int* options,
                                    void** values) {
  KDART_FAKE_CALL(module_load_data_ex);
  if (driver.image_result != CUDA_SUCCESS) {
    write_log(driver.image_log, count, options, values);
    return driver.image_result;
  }
  if (!looks_like_an_image(image)) return CUDA_ERROR_INVALID_IMAGE;
  if (const auto* text = static_cast<const char*>(image); text[0] != '\177') driver.text_length = std::strlen(text);
  const auto made = driver.modules.make();
  made->context = &call.context();
  *module = reinterpret_cast<CUmodule>(made.get());
  return CUDA_SUCCESS;
}

CUresult entry::module_unload(CUmodule module) {
  KDART_FAKE_RELEASE(module_unload, module);
  const auto found = driver.modules.find(module);
  if (found == nullptr) return call.violation(CUDA_ERROR_INVALID_HANDLE, "of a module that is not loaded");
  driver.each_pending([&](const Operation& operation) {
    if (needs(operation, *found) && call.finish() == CUDA_SUCCESS)
      driver.violation("a module was unloaded while its kernels had yet to run");
  });
  for (const auto& [handle, executable] : driver.executables.alive) {
    const Operations& operations = *executable->operations;
    if (std::any_of(operations.begin(), operations.end(), [&](const Operation& o) { return needs(o, *found); }) &&
        !driver.excused.contains(handle))
      driver.violation("a module was unloaded while a graph had its kernels");
  }
  for (const auto& [name, kernel] : found->kernels) driver.kernels.end(driver.kernels.find(kernel));
  driver.modules.end(found);
  return call.finish();
}

CUresult entry::module_get_function(CUfunction* function, CUmodule module, const char* name) {
  KDART_FAKE_CALL(module_get_function);
  const auto found = driver.modules.find(module);
  if (found == nullptr) return call.violation(CUDA_ERROR_INVALID_HANDLE, "of a module that is not loaded");
  const std::string symbol = name;
  if (symbol.rfind("kdart_", 0) != 0 || driver.refused_functions.contains(symbol)) return CUDA_ERROR_NOT_FOUND;
  Kernel*& kernel = found->kernels[symbol];
  if (kernel == nullptr) {
    kernel = driver.kernels.make().get();
    kernel->name = symbol;
    kernel->module = found.get();
    const KernelFacts& facts = driver.facts[symbol];
    kernel->max_threads = facts.max_threads;
    kernel->static_shared = facts.static_shared;
    kernel->max_dynamic = shared_without_optin - std::min(shared_without_optin, facts.static_shared);
  }
  *function = reinterpret_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}

CUresult entry::func_get_attribute(int* value, int attribute, CUfunction function) {
  KDART_FAKE_CALL(func_get_attribute);
  const auto kernel = driver.kernels.find(function);
  if (kernel == nullptr) return call.violation(CUDA_ERROR_INVALID_HANDLE, "of a kernel that is not loaded");
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = static_cast<int>(kernel->max_threads);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = static_cast<int>(kernel->static_shared);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = static_cast<int>(kernel->max_dynamic);
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult entry::func_set_attribute(CUfunction function, int attribute, int value) {
  KDART_FAKE_CALL(func_set_attribute);
  const auto kernel = driver.kernels.find(function);
  if (kernel == nullptr) return call.violation(CUDA_ERROR_INVALID_HANDLE, "of a kernel that is not loaded");
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0) return CUDA_ERROR_INVALID_VALUE;
  const auto wanted = static_cast<unsigned int>(value);
  if (wanted > shared_limit(call.device()) - kernel->static_shared) return CUDA_ERROR_INVALID_VALUE;
  kernel->max_dynamic = wanted;
  return CUDA_SUCCESS;
}

CUresult entry::func_get_param_info(CUfunction function, std::size_t index, std::size_t* offset, std::size_t* bytes) {
  KDART_FAKE_CALL(func_get_param_info);
  const auto kernel = driver.kernels.find(function);
  if (kernel == nullptr) return call.violation(CUDA_ERROR_INVALID_HANDLE, "of a kernel that is not loaded");
  const auto& parameters = driver.facts[kernel->name].parameters;
  if (index >= parameters.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = parameters[index].first;
  *bytes = parameters[index].second;
  return CUDA_SUCCESS;
}

CUresult entry::launch_kernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                              unsigned int block_x, unsigned int block_y, unsigned int block_z,
                              unsigned int shared_bytes, CUstream stream, void** parameters, void** extra) {
  KDART_FAKE_CALL(launch_kernel);
  if (parameters != nullptr && extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUlaunchConfig config{};
  config.gridDimX = grid_x;
  config.gridDimY = grid_y;
  config.gridDimZ = grid_z;
  config.blockDimX = block_x;
  config.blockDimY = block_y;
  config.blockDimZ = block_z;
  config.sharedMemBytes = shared_bytes;
  config.hStream = stream;
  return fake_cuda::launch_kernel(call, function, config, extra);
}

CUresult entry::launch_kernel_ex(const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra) {
  KDART_FAKE_CALL(launch_kernel_ex);
  if (parameters != nullptr && extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
  return fake_cuda::launch_kernel(call, function, *config, extra);
}

}  // namespace kdart::fake_cuda
