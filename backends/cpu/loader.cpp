#include "backends/cpu/loader.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "backends/cpu/errors.h"
#include "backends/cpu/platform.h"

namespace kdart::cpu {
namespace {

#ifdef MFD_EXEC
constexpr unsigned memfd_exec = MFD_EXEC;
#else
constexpr unsigned memfd_exec = 0x10U;  // Linux 6.3; kernels may ask for it, older ones refuse it as unknown
#endif

int open_memory_file() noexcept {
  const int descriptor = memfd_create("kdart-image", MFD_CLOEXEC | memfd_exec);
  return descriptor >= 0 || errno != EINVAL ? descriptor : memfd_create("kdart-image", MFD_CLOEXEC);
}

int open_temporary_file() {
  std::error_code ignored;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(ignored);
  std::string name = (ignored ? std::filesystem::path("/tmp") : folder) / "kdart-image-XXXXXX";
  const int descriptor = mkostemp(name.data(), O_CLOEXEC);
  if (descriptor < 0) throw os_error(ErrorCode::io_error, fmt::format("creating the temporary file '{}'", name), errno);
  unlink(name.c_str());
  return descriptor;
}

void write_all(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) throw os_error(ErrorCode::io_error, "writing an image for the loader", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void* load(int descriptor, std::span<const std::byte> bytes, std::string_view file) {
  write_all(descriptor, bytes);
  void* handle = dlopen(fmt::format("/proc/self/fd/{}", descriptor).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return handle;
  const char* words = dlerror();
  throw Error(ErrorCode::invalid_image,
              fmt::format("image '{}' does not load: {}", file, words == nullptr ? "no reason given" : words));
}

}  // namespace

int open_image_file(ImageFile kind) {
  if (kind == ImageFile::memory) {
    if (const int descriptor = open_memory_file(); descriptor >= 0) return descriptor;
  }
  return open_temporary_file();
}

SharedObject::SharedObject(std::span<const std::byte> bytes, std::string_view file)
    : descriptor_(open_image_file(ImageFile::memory)) {
  try {
    handle_ = load(descriptor_, bytes, file);
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

SharedObject::~SharedObject() {
  // Sanitizers report at the process's end, and name what they report by the code that is mapped then. So a build with
  // one keeps its images, and the descriptor, whose number names the image, with them.
  if (address_sanitizer || thread_sanitizer) return;
  dlclose(handle_);
  close(descriptor_);
}

void* SharedObject::symbol(const char* name) const noexcept {
  return dlsym(handle_, name);
}

}  // namespace kdart::cpu
