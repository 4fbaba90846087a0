// Modules: AMD's code object is read, and an image of the driver's own is loaded in its place.
#include <elf.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <span>
#include <sstream>
#include <string_view>
#include <vector>

#include "backends/cuda/cubin.h"
#include "backends/hip/code_object.h"
#include "tests/hip_on_cuda/forward.h"

namespace kdart::hip_on_cuda {
namespace {

constexpr int shared_of_amd = 64 << 10;

// How long an ELF file is: no call says it. The backend has looked at these numbers.
std::size_t elf_bytes(const void* image) {
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof header);
  std::size_t end = header.e_shoff + std::size_t{header.e_shnum} * header.e_shentsize;
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, static_cast<const std::byte*>(image) + header.e_shoff + i * sizeof section, sizeof section);
    if (section.sh_type != SHT_NOBITS) end = std::max<std::size_t>(end, section.sh_offset + section.sh_size);
  }
  return end;
}

std::vector<char> file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> text{std::istreambuf_iterator<char>(file), {}};
  text.push_back('\0');  // as PTX has to end
  return text;
}

// Whether a cubin, or PTX, has all of the kernels.
bool has_kernels(const std::vector<char>& image, const hip::CodeObject& object) {
  const std::string_view text(image.data(), image.size() - 1);
  const auto in_text = [&](const hip::CodeObjectKernel& kernel) {
    return text.find(".entry " + kernel.symbol + "(") != std::string_view::npos;
  };
  if (!text.starts_with("\177ELF")) return std::all_of(object.kernels.begin(), object.kernels.end(), in_text);
  const cuda::Cubin cubin = cuda::read_cubin(std::as_bytes(std::span(text)), "an image");
  return std::all_of(object.kernels.begin(), object.kernels.end(),
                     [&](const hip::CodeObjectKernel& kernel) { return cubin.find(kernel.symbol) != nullptr; });
}

// The first of the images that has the code object's kernels; empty when none has.
std::vector<char> image_for(const Forward& forward, const void* code) {
  const hip::CodeObject object =
      hip::read_code_object({static_cast<const std::byte*>(code), elf_bytes(code)}, "a code object");
  std::istringstream names(forward.images);
  for (std::string name; std::getline(names, name, ':');) {
    std::vector<char> image = file_text(name);
    if (image.size() > 1 && has_kernels(image, object)) return image;
  }
  return {};
}

}  // namespace

hipError_t entry::module_load_data(hipModule_t* module, const void* image) {
  KDART_FORWARD_IN_DEVICE(module_load_data);
  std::vector<char> theirs;
  try {
    theirs = image_for(forward, image);
  } catch (const std::exception&) {
    return hipErrorInvalidImage;
  }
  if (theirs.empty()) return hipErrorNoBinaryForGpu;
  cuda::CUmodule made = nullptr;
  const auto result = cu.module_load_data_ex(&made, theirs.data(), 0, nullptr, nullptr);
  *module = reinterpret_cast<hipModule_t>(made);
  return from_cuda(result);
}

hipError_t entry::module_unload(hipModule_t module) {
  KDART_FORWARD_IN_DEVICE(module_unload);
  return from_cuda(cu.module_unload(reinterpret_cast<cuda::CUmodule>(module)));
}

// An AMD GPU's launches may have 64 KiB of shared memory without asking.
hipError_t entry::module_get_function(hipFunction_t* function, hipModule_t module, const char* name) {
  KDART_FORWARD_IN_DEVICE(module_get_function);
  cuda::CUfunction found = nullptr;
  auto result = cu.module_get_function(&found, reinterpret_cast<cuda::CUmodule>(module), name);
  int own = 0;
  if (result == cuda::CUDA_SUCCESS)
    result = cu.func_get_attribute(&own, cuda::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, found);
  if (result == cuda::CUDA_SUCCESS) {
    result = cu.func_set_attribute(found, cuda::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_of_amd - own);
  }
  *function = reinterpret_cast<hipFunction_t>(found);
  return from_cuda(result);
}

hipError_t entry::func_get_attribute(int* value, int attribute, hipFunction_t function) {
  KDART_FORWARD_IN_DEVICE(func_get_attribute);
  return from_cuda(cu.func_get_attribute(value, attribute, reinterpret_cast<cuda::CUfunction>(function)));
}

// The packed arguments are marked with other numbers at their end.
hipError_t entry::launch_kernel(hipFunction_t function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                                unsigned int block_x, unsigned int block_y, unsigned int block_z,
                                unsigned int shared_bytes, hipStream_t stream, void** parameters, void** extra) {
  KDART_FORWARD_IN_DEVICE(launch_kernel);
  if (parameters != nullptr) return hipErrorInvalidValue;
  std::array<void*, 5> theirs{};
  std::size_t used = 0;
  for (; extra != nullptr && *extra != HIP_LAUNCH_PARAM_END && used + 2 < theirs.size(); extra += 2) {
    theirs[used++] = *extra;  // the two numbers before a value are CUDA's too
    theirs[used++] = extra[1];
  }
  theirs[used] = cuda::CU_LAUNCH_PARAM_END;
  return from_cuda(cu.launch_kernel(reinterpret_cast<cuda::CUfunction>(function), grid_x, grid_y, grid_z, block_x,
                                    block_y, block_z, shared_bytes, reinterpret_cast<cuda::CUstream>(stream), nullptr,
                                    used == 0 ? nullptr : theirs.data()));
}

}  // namespace kdart::hip_on_cuda
