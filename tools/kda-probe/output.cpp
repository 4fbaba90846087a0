#include "output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "core/runtime/format.h"
#include "exit_codes.h"

namespace kdart::probe {
namespace {

[[noreturn]] void fail(std::string_view what, std::string_view where, int error) {
  throw Failure(Error(ErrorCode::io_error, detail::format("cannot {} {}: {}", what, where, std::strerror(error))),
                Stage::writing_output);
}

}  // namespace

Output::Output(const std::optional<std::filesystem::path>& file) : path_(file) {
  if (!path_) return;
  errno = 0;
  file_.open(*path_, std::ios::binary | std::ios::trunc);
  if (!file_) fail("open --output", path_->string(), errno);
}

void Output::write(std::string_view text) {
  errno = 0;
  if (path_) {
    file_.write(text.data(), static_cast<std::streamsize>(text.size())).flush();
    if (!file_) fail("write --output", path_->string(), errno);
    return;
  }
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    fail("write", "standard output", errno);
  }
}

}  // namespace kdart::probe
