#include "tests/support/fake_cuda.h"

#include <dlfcn.h>

#include <cstring>
#include <map>
#include <stdexcept>
#include <utility>

#include "core/runtime/sha256.h"
#include "kdart/cuda.h"
#include "kdart/launch.h"
#include "kdart/registry.h"
#include "tests/fake_cuda_paths.h"
#include "tests/support/sample_set.h"

namespace kdart::test {
namespace {

constexpr std::string_view ptx =
    "//\n.version 7.4\n.target sm_70\n.address_size 64\n\n"
    ".visible .entry kdart_scale()\n{\n\tret;\n}\n";

void add_line(void* user, const char* text) {
  static_cast<std::vector<std::string>*>(user)->emplace_back(text);
}

}  // namespace

const char* FakeCuda::path(Driver driver) noexcept {
  return driver == Driver::full ? fake_cuda_paths::full : fake_cuda_paths::plain;
}

FakeCuda::FakeCuda(Driver driver) : path_(path(driver)) {
  using namespace cuda;
  void* library = dlopen(path_, RTLD_NOW | RTLD_LOCAL);  // as the backend does, and never closed
  if (library == nullptr) throw std::runtime_error(dlerror());
  control_ = static_cast<const fake_cuda::Control*>(dlsym(library, fake_cuda::control_symbol));
  if (control_ == nullptr) throw std::runtime_error(std::string(path_) + " has no control table");
#define KDART_TEST_LOAD(member, symbol, parameters) \
  functions_.member = reinterpret_cast<decltype(functions_.member)>(dlsym(library, symbol));
  KDART_CUDA_FUNCTIONS(KDART_TEST_LOAD)
  KDART_CUDA_OPTIONAL_FUNCTIONS(KDART_TEST_LOAD)
#undef KDART_TEST_LOAD
  control_->reset();
}

OpenOptions FakeCuda::options() const {
  return {.driver_path = path_, .gemm_library = ""};
}

std::shared_ptr<GpuBackend> FakeCuda::open(OpenOptions options) const {
  return open_device("cuda:0", options);
}

std::vector<std::string> FakeCuda::live() const {
  std::vector<std::string> lines;
  control_->live(add_line, &lines);
  return lines;
}

std::vector<std::string> FakeCuda::violations() const {
  std::vector<std::string> lines;
  control_->violations(add_line, &lines);
  return lines;
}

std::vector<fake_cuda::Launch> FakeCuda::launches() const {
  std::vector<fake_cuda::Launch> found(control_->launches());
  for (std::size_t i = 0; i < found.size(); ++i) control_->launch(i, &found[i]);
  return found;
}

std::vector<std::string> FakeCuda::calls_since(std::uint64_t first) const {
  std::vector<std::string> symbols;
  while (const char* symbol = control_->call(first++)) symbols.emplace_back(symbol);
  return symbols;
}

std::shared_ptr<const KernelSet> FakeCuda::set() const {
  return fake_cuda_set();
}

Stream FakeCuda::adopt_default_stream(GpuBackend& gpu) const {
  return gpu.service<CudaInterop>()->adopt_stream(nullptr);
}

Stream FakeCuda::adopt_own_stream(GpuBackend& gpu) const {
  auto& interop = *gpu.service<CudaInterop>();
  return interop.adopt_stream(control_->create_stream(interop.native_context(), 1));
}

std::shared_ptr<const KernelSet> fake_cuda_set() {
  Manifest manifest = sample_manifest({"sm_70"});
  manifest.backend = "cuda";
  ManifestImage& image = manifest.images.front();
  image.file = "sample.ptx";
  image.format = ImageFormat::ptx;
  image.ptx_isa = 74;
  image.bytes = ptx.size();
  std::vector<std::byte> bytes(ptx.size());
  std::memcpy(bytes.data(), ptx.data(), ptx.size());
  image.sha256 = detail::sha256_hex(bytes);
  for (ImageKernel& kernel : image.kernels) kernel.symbol = "kdart_" + kernel.name;
  return std::make_shared<MemorySet>(sample_contract(), std::move(manifest),
                                     std::map<std::string, std::vector<std::byte>>{{"sample.ptx", std::move(bytes)}});
}

}  // namespace kdart::test
