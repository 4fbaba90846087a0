// The command line: what it says, or a Failure of code "usage".
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "options.h"

namespace kdart::probe {

// What can be known of any command line, a wrong one included: where to and how to say what is wrong with it.
struct Outline {
  std::optional<std::string> command;  // the verb, when there is a known one; "help", "version"
  OutputOptions output;
};
[[nodiscard]] Outline outline(const std::vector<std::string>& arguments);

// `arguments` is without the program's name.
[[nodiscard]] Invocation parse(const std::vector<std::string>& arguments);

}  // namespace kdart::probe
