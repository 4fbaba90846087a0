// JSON from untrusted files: bounded in length and nesting, duplicate keys refused.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "kdart/error.h"

namespace kdart::detail {

struct JsonLimits {
  std::size_t bytes;
  std::size_t depth = 64;  // of nested objects and arrays
  ErrorCode error = ErrorCode::bad_checkpoint;
};

// Parses `text`; `name` stands for the file in messages. Throws Error(limits.error) for text that is longer than the
// limit, is not JSON, nests too deeply, or gives one object the same key twice (readers disagree on which one counts).
[[nodiscard]] nlohmann::json parse_json(std::string_view text, const std::string& name, const JsonLimits& limits);

}  // namespace kdart::detail
