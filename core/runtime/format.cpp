#include "core/runtime/format.h"

namespace kdart::detail {

std::string format_packed(fmt::string_view text, fmt::format_args args) {
  return fmt::vformat(text, args);
}

}  // namespace kdart::detail
