// Text from values. {fmt} is used in its header-only form, which would compile its whole formatter into every file that
// formats anything; here it is compiled once, behind format_packed.
#pragma once

#include <fmt/format.h>

#include <string>

namespace kdart::detail {

[[nodiscard]] std::string format_packed(fmt::string_view text, fmt::format_args args);

// fmt::format, with its check of the text against the arguments at compile time.
template <class... Args>
[[nodiscard]] std::string format(fmt::format_string<Args...> text, Args&&... args) {
  return format_packed(text, fmt::make_format_args(args...));
}

}  // namespace kdart::detail
