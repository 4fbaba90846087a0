#include "core/runtime/bounded_json.h"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "core/runtime/format.h"
#include "core/runtime/messages.h"
#include "kdart/error.h"

namespace kdart::detail {
namespace {

using nlohmann::json;

// Follows the parser through the text and refuses what the DOM would silently accept.
class Guard {
 public:
  Guard(const std::string& name, const JsonLimits& limits) : name_(name), limits_(limits) {}

  bool operator()(json::parse_event_t event, const json& parsed) {
    switch (event) {
      case json::parse_event_t::object_start:
      case json::parse_event_t::array_start:
        enter();
        break;
      case json::parse_event_t::object_end:
      case json::parse_event_t::array_end:
        keys_.pop_back();
        break;
      case json::parse_event_t::key:
        add_key(parsed.get_ref<const std::string&>());
        break;
      case json::parse_event_t::value:
        break;
    }
    return true;
  }

 private:
  void enter() {
    if (keys_.size() >= limits_.depth) {
      throw Error(limits_.error,
                  detail::format("{}: the JSON nests deeper than the limit of {} levels", name_, limits_.depth));
    }
    keys_.emplace_back();
  }
  void add_key(const std::string& key) {
    if (!keys_.back().insert(key).second) {
      throw Error(limits_.error, detail::format("{}: the key {} stands twice in one JSON object", name_, quote(key)));
    }
  }

  const std::string& name_;
  const JsonLimits& limits_;
  std::vector<std::set<std::string>> keys_;  // of the objects and arrays that are open
};

// Without the library's "[json.exception.parse_error.101] " in front.
std::string_view without_tag(std::string_view what) {
  const auto end = what.find("] ");
  return what.starts_with('[') && end != std::string_view::npos ? what.substr(end + 2) : what;
}

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& name, const JsonLimits& limits) {
  if (text.size() > limits.bytes) {
    throw Error(limits.error, detail::format("{}: the JSON is {} bytes long, more than the limit of {}", name,
                                             text.size(), limits.bytes));
  }
  Guard guard(name, limits);
  try {
    return json::parse(text, [&guard](int, json::parse_event_t event, json& parsed) { return guard(event, parsed); });
  } catch (const json::exception& e) {
    throw Error(limits.error, detail::format("{}: not valid JSON: {}", name, printable(without_tag(e.what()), 400)));
  }
}

}  // namespace kdart::detail
