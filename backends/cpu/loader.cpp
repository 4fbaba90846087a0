#include "backends/cpu/loader.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "backends/cpu/errors.h"
#include "backends/cpu/platform.h"
#include "core/runtime/format.h"

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
  if (descriptor < 0)
    throw os_error(ErrorCode::io_error, detail::format("creating the temporary file '{}'", name), errno);
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

// A path of the descriptor that no earlier call gave: the loader takes an object whose path it has seen, and that it still
// has, for the same object. The number of slashes between two names is free, so they count the calls.
std::string unique_path(int descriptor) {
  static std::atomic<std::uint32_t> calls{0};
  const std::uint32_t n = calls.fetch_add(1);
  const auto slashes = [](std::uint32_t digit) { return std::string(std::size_t{1} + digit % 64, '/'); };
  return detail::format("/proc{}self{}fd{}{}", slashes(n), slashes(n / 64), slashes(n / 4096), descriptor);
}

void* load(int descriptor, std::span<const std::byte> bytes, std::string_view file) {
  write_all(descriptor, bytes);
  void* handle = dlopen(unique_path(descriptor).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return handle;
  const char* words = dlerror();
  throw Error(ErrorCode::invalid_image,
              detail::format("image '{}' does not load: {}", file, words == nullptr ? "no reason given" : words));
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
  // one keeps its images mapped.
  if (!address_sanitizer && !thread_sanitizer) dlclose(handle_);
  close(descriptor_);
}

void* SharedObject::symbol(const char* name) const noexcept {
  return dlsym(handle_, name);
}

}  // namespace kdart::cpu
