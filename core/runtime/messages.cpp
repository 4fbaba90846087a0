#include "runtime/messages.h"

#include <fmt/format.h>

namespace kdart::detail {

std::string quote(std::string_view text) {
  constexpr std::size_t limit = 160;
  std::string result = "'";
  for (const char c : text.substr(0, limit)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      result += c;
    }
  }
  if (text.size() > limit) result += "..";
  return result + "'";
}

std::string shape_text(std::span<const std::uint64_t> shape) {
  std::string result = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i != 0) result += ", ";
    result += std::to_string(shape[i]);
  }
  return result + "]";
}

std::string ranges_text(std::span<const std::uint32_t> ascending) {
  if (ascending.empty()) return "none";
  std::string result;
  for (std::size_t i = 0; i < ascending.size();) {
    std::size_t last = i;
    while (last + 1 < ascending.size() && ascending[last + 1] == ascending[last] + 1) ++last;
    if (!result.empty()) result += ", ";
    result += std::to_string(ascending[i]);
    if (last != i) result.append("-").append(std::to_string(ascending[last]));
    i = last + 1;
  }
  return result;
}

}  // namespace kdart::detail
