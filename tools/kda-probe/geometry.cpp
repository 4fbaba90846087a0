#include "geometry.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>

#include "core/runtime/format.h"
#include "core/runtime/messages.h"
#include "exit_codes.h"

namespace kdart::probe {
namespace {

[[noreturn]] void usage(const std::string& message) {
  throw Failure("usage", "--geometry: " + message, ExitCode::usage);
}

std::optional<std::uint32_t> number(const std::string& word) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size()) return std::nullopt;
  return value;
}

// Ranks as wide as a head, and the softplus law: what the named ones have, scaled down.
Geometry custom(const std::string& name, std::uint32_t heads, std::uint32_t dim, std::uint32_t hidden) {
  KdaConfig config;
  config.heads = heads;
  config.head_dim = dim;
  config.hidden_size = hidden;
  config.decay_rank = dim;
  config.output_gate_rank = dim;
  try {
    config.validate();
  } catch (const Error& error) {
    usage(name + ": " + error.what());
  }
  return {name, config};
}

Geometry named(const std::string& word) {
  const std::vector<std::string_view> names = geometry_names();
  if (std::find(names.begin(), names.end(), word) == names.end()) {
    usage(detail::format("{} is none of {}, nor heads,dim,hidden", detail::quote(word), fmt::join(names, ", ")));
  }
  return {word, named_geometry(word)};
}

}  // namespace

std::vector<Geometry> geometries(const std::vector<std::string>& words) {
  std::vector<Geometry> result;
  if (words.empty()) {
    for (const std::string_view name : geometry_names()) result.push_back(named(std::string(name)));
  }
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::optional<std::uint32_t> heads = number(words[i]);
    if (!heads) {
      result.push_back(named(words[i]));
      continue;
    }
    const auto dim = i + 1 < words.size() ? number(words[i + 1]) : std::nullopt;
    const auto hidden = i + 2 < words.size() ? number(words[i + 2]) : std::nullopt;
    if (!dim || !hidden) usage(detail::format("{} starts heads,dim,hidden, of which a part is missing", words[i]));
    result.push_back(custom(detail::format("{},{},{}", *heads, *dim, *hidden), *heads, *dim, *hidden));
    i += 2;
  }
  return result;
}

}  // namespace kdart::probe
