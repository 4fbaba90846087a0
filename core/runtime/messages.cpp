#include "core/runtime/messages.h"
#include "core/runtime/format.h"

namespace kdart::detail {

namespace {

// The length of the UTF-8 character that `text` begins with, 0 when it is none: a stray, overlong or surrogate sequence.
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return 1;
  const std::size_t length = byte(0) >= 0xF0 ? 4 : (byte(0) >= 0xE0 ? 3 : 2);
  if (byte(0) < 0xC2 || byte(0) > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return 0;
  }
  const bool overlong = (byte(0) == 0xE0 && byte(1) < 0xA0) || (byte(0) == 0xF0 && byte(1) < 0x90);
  const bool outside = (byte(0) == 0xED && byte(1) > 0x9F) || (byte(0) == 0xF4 && byte(1) > 0x8F);
  return overlong || outside ? 0 : length;
}

// Terminals act on both ranges of control characters: 0x00-0x1F with 0x7F, and U+0080-U+009F.
bool is_control(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  return byte(0) < 0x20 || byte(0) == 0x7F || (byte(0) == 0xC2 && byte(1) < 0xA0);
}

}  // namespace

std::string printable(std::string_view text, std::size_t limit) {
  std::string result;
  std::size_t at = 0;
  while (at < text.size() && at < limit) {
    const std::size_t length = character_length(text.substr(at));
    const std::string_view character = text.substr(at, length == 0 ? 1 : length);
    if (length != 0 && !is_control(character)) {
      result += character;
    } else {
      for (const char c : character) result += detail::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
    at += character.size();
  }
  if (at < text.size()) result += "..";
  return result;
}

std::string quote(std::string_view text) {
  std::string result = "'";
  result += printable(text, 160);
  result += '\'';
  return result;
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
