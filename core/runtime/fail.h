// Throwing an Error with a formatted message.
#pragma once

#include "core/runtime/format.h"
#include "kdart/error.h"

namespace kdart::detail {

// Throws Error(code) with the formatted text as its message.
template <class... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(code, format_packed(text, fmt::make_format_args(args...)));
}

}  // namespace kdart::detail
