// Wording shared by the readers' error messages. Names and values come from untrusted files, so they are made printable
// and cut to a length a person can read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace kdart::detail {

// Valid UTF-8 without control characters, whatever `text` is: other bytes as \xNN, cut after `limit` bytes.
[[nodiscard]] std::string printable(std::string_view text, std::size_t limit = std::string_view::npos);
// 'text' made printable, in single quotes, cut after 160 bytes.
[[nodiscard]] std::string quote(std::string_view text);
// "[2, 3, 4]"
[[nodiscard]] std::string shape_text(std::span<const std::uint64_t> shape);
// "0-2, 4, 6-8" for ascending numbers; "none" for an empty list.
[[nodiscard]] std::string ranges_text(std::span<const std::uint32_t> ascending);

}  // namespace kdart::detail
