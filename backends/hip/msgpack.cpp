#include "backends/hip/msgpack.h"

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "core/runtime/format.h"
#include "core/runtime/messages.h"

namespace kdart::hip {
namespace {

using nlohmann::json;

constexpr std::size_t most_bytes = std::size_t{4} << 20U;
constexpr std::size_t most_values = 1'000'000;
constexpr std::size_t most_levels = 16;

// Walks the document before it is built: the parser calls itself for each level, and takes the last of equal keys.
class Guard final : public nlohmann::json_sax<json> {
 public:
  std::string problem;

  bool null() override { return add_value(); }
  bool boolean(bool /*value*/) override { return add_value(); }
  bool number_integer(std::int64_t /*value*/) override { return add_value(); }
  bool number_unsigned(std::uint64_t /*value*/) override { return add_value(); }
  bool number_float(double /*value*/, const std::string& /*text*/) override { return add_value(); }
  bool string(std::string& /*value*/) override { return add_value(); }
  bool binary(json::binary_t& /*value*/) override { return stop("it has a binary value"); }
  bool start_object(std::size_t /*elements*/) override { return enter(); }
  bool start_array(std::size_t /*elements*/) override { return enter(); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }
  bool key(std::string& key) override {
    if (keys_.back().insert(key).second) return true;
    return stop(detail::format("the key {} stands twice in one map", detail::quote(key)));
  }
  bool parse_error(std::size_t position, const std::string& /*token*/, const json::exception& /*error*/) override {
    return stop(detail::format("it is no MessagePack at byte {} of it", position));
  }

 private:
  bool stop(std::string text) {
    problem = std::move(text);
    return false;
  }
  bool add_value() {
    if (++values_ <= most_values) return true;
    return stop(detail::format("it has more than {} values", most_values));
  }
  bool enter() {
    if (keys_.size() >= most_levels) return stop(detail::format("it nests deeper than {} levels", most_levels));
    keys_.emplace_back();
    return add_value();
  }
  bool leave() {
    keys_.pop_back();
    return true;
  }

  std::size_t values_ = 0;
  std::vector<std::set<std::string>> keys_;  // of the maps and arrays that are open
};

}  // namespace

json parse_msgpack(std::span<const std::byte> bytes, std::string& problem) {
  if (bytes.size() > most_bytes) {
    problem = detail::format("it has {} bytes, more than the limit of {}", bytes.size(), most_bytes);
    return {};
  }
  const auto* begin = reinterpret_cast<const std::uint8_t*>(bytes.data());
  Guard guard;
  if (!json::sax_parse(begin, begin + bytes.size(), &guard, json::input_format_t::msgpack)) {
    problem = std::move(guard.problem);
    return {};
  }
  return json::from_msgpack(begin, begin + bytes.size());
}

}  // namespace kdart::hip
