#include "core/runtime/host_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "core/runtime/format.h"
#include "core/runtime/messages.h"
#include "kdart/error.h"

namespace kdart::detail {
namespace {

// In full, unlike a name out of a file: a path that is cut off cannot be looked up.
std::string quoted_path(const std::filesystem::path& path) {
  std::string result = "'";
  result += printable(path.native());
  result += '\'';
  return result;
}

[[noreturn]] void fail(const std::filesystem::path& path, std::string_view what, int error) {
  throw Error(ErrorCode::io_error, detail::format("cannot {} {}: {}", what, quoted_path(path),
                                                  std::error_code(error, std::generic_category()).message()));
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

MappedFile map_file(const std::filesystem::path& path) {
  // O_NONBLOCK: a FIFO in the folder must not hang the reader before it is seen not to be a regular file.
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) fail(path, "open", errno);
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) fail(path, "read the size of", errno);
  if (!S_ISREG(status.st_mode)) {
    throw Error(ErrorCode::io_error, detail::format("{} is not a regular file", quoted_path(path)));
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return {};
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (address == MAP_FAILED) fail(path, "map", errno);
  std::shared_ptr<const void> owner;
  try {
    owner = std::shared_ptr<const void>(address, [size](const void* p) { ::munmap(const_cast<void*>(p), size); });
  } catch (...) {  // the deleter has run: shared_ptr promises that when it cannot allocate
    throw Error(ErrorCode::out_of_host_memory, detail::format("no memory to map {}", quoted_path(path)));
  }
  return {{static_cast<const std::byte*>(address), size}, std::move(owner)};
}

}  // namespace kdart::detail
