#include "progress.h"
#include "core/runtime/format.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace kdart::probe {
namespace {

using namespace std::chrono_literals;
constexpr auto interval = 100ms;
constexpr std::uint64_t width = 30;

bool is_terminal() {
  const char* term = std::getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && term != nullptr && std::string_view(term) != "dumb";
}

}  // namespace

Progress::Progress() : enabled_(is_terminal()), next_(std::chrono::steady_clock::now() + interval) {}

Progress::~Progress() {
  if (drawn_) std::fputs("\r\033[K", stderr);
}

void Progress::start(std::string label, std::uint64_t total) {
  label_ = std::move(label);
  total_ = total;
  done_ = 0;
  if (total == 0) next_ = {};  // no step of it will draw it later
  draw();
}

void Progress::advance(std::uint64_t steps) {
  done_ += steps;
  draw();
}

void Progress::draw() {
  const auto now = std::chrono::steady_clock::now();
  if (!enabled_ || now < next_) return;
  next_ = now + interval;
  drawn_ = true;
  if (total_ == 0) {
    fmt::print(stderr, "\r\033[K{} ..", label_);
  } else {
    const std::uint64_t filled = std::min(done_, total_) * width / total_;
    fmt::print(stderr, "\r\033[K{} [{:#<{}}{:.<{}}] {}/{} tokens", label_, "", filled, "", width - filled, done_,
               total_);
  }
  std::fflush(stderr);
}

}  // namespace kdart::probe
