// Results as JSON (schema kdart.probe/1) and as text for a person. docs/cli.md describes the former.
#pragma once

#include <optional>
#include <string>

#include "exit_codes.h"
#include "results.h"

namespace kdart::probe {

// One document with a newline at its end. Bytes that are not UTF-8 (in paths, say) are replaced.
[[nodiscard]] std::string to_json(const Result& result);
// `command`: none when the command line names no verb.
[[nodiscard]] std::string to_json(const Failure& failure, const std::optional<std::string>& command);

[[nodiscard]] std::string to_text(const Result& result);

}  // namespace kdart::probe
