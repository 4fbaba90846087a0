// Throwing an Error with a formatted message.
#pragma once

#include <fmt/format.h>

#include <utility>

#include "kdart/error.h"

namespace kdart::detail {

// Throws Error(code) with the formatted text as its message.
template <class... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace kdart::detail
