#include "tests/unit/hip/fake_hip.h"

#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <utility>

#include "core/runtime/sha256.h"
#include "kdart/hip.h"
#include "kdart/registry.h"
#include "tests/hip_on_cuda_paths.h"
#include "tests/support/sample_set.h"

namespace kdart::test {
namespace {

using nlohmann::json;

std::string symbol_of(const ContractKernel& kernel) {
  return "kdart_" + std::string(kernel.name);
}

json kernel_metadata(const ContractKernel& kernel) {
  json args = json::array();
  for (const ContractArg& arg : kernel.args) {
    args.push_back({{".offset", arg.offset}, {".size", arg.size}, {".value_kind", "by_value"}});
  }
  return {{".name", symbol_of(kernel)},
          {".symbol", symbol_of(kernel) + ".kd"},
          {".args", std::move(args)},
          {".kernarg_segment_size", kernel.argument_bytes},
          {".kernarg_segment_align", 64},
          {".group_segment_fixed_size", 0},
          {".private_segment_fixed_size", 0},
          {".wavefront_size", 64},
          {".max_flat_workgroup_size", 1024},
          {".sgpr_count", 20},
          {".vgpr_count", 31}};
}

}  // namespace

Bytes FakeHip::code_object() {
  MadeCodeObject object;
  json& kernels = object.metadata["amdhsa.kernels"];
  kernels = json::array();
  Bytes names(1), descriptors;
  object.symbols.resize(1);
  constexpr std::int64_t entry = 256;  // from the first descriptor: there are at most four
  for (const ContractKernel& kernel : sample_contract().kernels) {
    Elf64_Sym symbol{};
    symbol.st_name = static_cast<Elf64_Word>(names.size());
    symbol.st_shndx = 5;
    symbol.st_value = descriptors.size();
    symbol.st_size = 64;
    object.symbols.push_back(symbol);
    append(names, bytes_of(symbol_of(kernel) + ".kd"));
    names.push_back(std::byte{0});
    const auto at = static_cast<std::int64_t>(descriptors.size());
    for (const std::uint32_t word : {0U, 0U, std::uint32_t{kernel.argument_bytes}, 0U}) append(descriptors, word);
    append(descriptors, entry - at);
    descriptors.resize(static_cast<std::size_t>(at) + 64);
    kernels.push_back(kernel_metadata(kernel));
  }
  object.section(".dynstr").bytes = std::move(names);
  object.section(".rodata").bytes = std::move(descriptors);
  return object.make();
}

std::shared_ptr<const KernelSet> FakeHip::set_of(Bytes bytes) {
  Manifest manifest = sample_manifest({"gfx90a"});
  manifest.backend = "hip";
  ManifestImage& image = manifest.images.front();
  image.file = "sample.co";
  image.format = ImageFormat::code_object;
  image.bytes = bytes.size();
  image.sha256 = detail::sha256_hex(bytes);
  for (ImageKernel& kernel : image.kernels) kernel.symbol = "kdart_" + kernel.name;
  return std::make_shared<MemorySet>(sample_contract(), std::move(manifest),
                                     std::map<std::string, std::vector<std::byte>>{{"sample.co", std::move(bytes)}});
}

FakeHip::FakeHip(Runtime runtime, const char* target)
    : path_(runtime == Runtime::full ? hip_on_cuda_paths::full : hip_on_cuda_paths::rocm5),
      image_(std::filesystem::temp_directory_path() / ("kdart-fake-hip-" + std::to_string(getpid()) + ".ptx")) {
  std::ofstream text(image_);
  text << ".version 7.4\n.target sm_70\n";
  for (const ContractKernel& kernel : sample_contract().kernels)
    text << ".visible .entry " << symbol_of(kernel) << "()\n";
  text.close();
  void* library = dlopen(path_, RTLD_NOW | RTLD_LOCAL);  // as the backend does, and never closed
  if (library == nullptr) throw std::runtime_error(dlerror());
  control_ = static_cast<const hip_on_cuda::Control*>(dlsym(library, hip_on_cuda::control_symbol));
  if (control_ == nullptr) throw std::runtime_error(std::string(path_) + " has no control table");
  control_->reset(FakeCuda::path(FakeCuda::Driver::full), target, image_.c_str());
}

FakeHip::~FakeHip() {
  std::error_code ignored;
  std::filesystem::remove(image_, ignored);
}

OpenOptions FakeHip::options() const {
  return {.driver_path = path_, .gemm_library = ""};
}

std::shared_ptr<GpuBackend> FakeHip::open(std::uint32_t device) const {
  return open_device("hip:" + std::to_string(device), options());
}

Stream FakeHip::adopt_default_stream(GpuBackend& gpu) const {
  return gpu.service<HipInterop>()->adopt_stream(nullptr);
}

Stream FakeHip::adopt_own_stream(GpuBackend& gpu) const {
  cuda::CUcontext context = nullptr;
  static_cast<void>(cuda_.cu().device_primary_ctx_retain(&context, 0));
  void* const stream = cuda_->create_stream(context, 1);
  static_cast<void>(cuda_.cu().device_primary_ctx_release(0));
  return gpu.service<HipInterop>()->adopt_stream(stream);
}

std::vector<std::string> FakeHip::live() const {
  control_->let_go();
  return cuda_.live();
}

FakeDriver::Place FakeHip::place() const {
  return {reinterpret_cast<const void*>(static_cast<std::intptr_t>(control_->current())), cuda_.place().depth};
}

void FakeHip::go_back_to(Place place) const {
  control_->set_current(static_cast<int>(reinterpret_cast<std::intptr_t>(place.current)));
  cuda_.go_back_to({nullptr, place.depth});
}

}  // namespace kdart::test
