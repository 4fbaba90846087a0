// A driver that does not survive fork().
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "core/runtime/backend_state.h"
#include "core/runtime/fail.h"

namespace kdart::common {

// When a process first started a driver. One for each driver, with static storage.
class Started {
 public:
  // Throws Error(forked_process) in the child of a process that has started the driver. `driver`: "the CUDA driver".
  void refuse_after_fork(std::string_view driver) const {
    const std::int64_t at = at_.load();
    if (at == never || at == static_cast<std::int64_t>(detail::fork_count())) return;
    detail::fail(
        ErrorCode::forked_process,
        "this process is a fork of one that has used {}, which does not work in a child: open the device in the "
        "parent, or start the child with exec",
        driver);
  }
  void note() noexcept {
    std::int64_t expected = never;
    at_.compare_exchange_strong(expected, static_cast<std::int64_t>(detail::fork_count()));
  }

 private:
  static constexpr std::int64_t never = -1;
  std::atomic<std::int64_t> at_{never};  // fork_count() then
};

}  // namespace kdart::common
