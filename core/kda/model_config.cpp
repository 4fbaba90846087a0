// ModelConfig::parse: config.json, field by field. Nothing is converted silently: a string, boolean or fraction where a
// whole number belongs is refused.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/runtime/bounded_json.h"
#include "core/runtime/format.h"
#include "core/runtime/messages.h"
#include "kdart/config.h"
#include "kdart/error.h"

namespace kdart {
namespace {

using nlohmann::json;

constexpr std::size_t max_bytes = std::size_t{16} << 20;

struct ModelType {
  std::string_view name;
  std::uint32_t layer_base;  // of the numbers in kda_layers
};
constexpr std::array<ModelType, 3> model_types{{{"kimi_linear", 1}, {"kimi_k3", 1}, {"glm5_next", 0}}};

[[noreturn]] void refuse(std::string_view field, std::string_view found, std::string_view expected) {
  throw Error(ErrorCode::bad_checkpoint, detail::format("config.json: {} is {}; expected {}", field, found, expected));
}

// A value as the file has it, short enough for a message.
std::string value_text(const json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  if (value.is_string()) return "the string " + detail::quote(value.get_ref<const std::string&>());
  return value.dump();
}

// An object of the file together with where it stands ("text_config.linear_attn_config").
class Section {
 public:
  Section(const json& object, std::string path) : object_(object), path_(std::move(path)) {}

  [[nodiscard]] std::string path_of(std::string_view field) const {
    return path_.empty() ? std::string(field) : detail::format("{}.{}", path_, field);
  }
  // Null when the field is absent or null.
  [[nodiscard]] const json* optional(std::string_view field) const {
    const auto found = object_.find(field);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  [[nodiscard]] const json& required(std::string_view field, std::string_view expected) const {
    const json* value = optional(field);
    if (value == nullptr) refuse(path_of(field), object_.contains(field) ? "null" : "missing", expected);
    return *value;
  }
  [[nodiscard]] std::uint32_t positive(std::string_view field) const {
    constexpr std::string_view expected = "a whole number between 1 and 4294967295";
    const json& value = required(field, expected);
    if (!value.is_number_unsigned()) refuse(path_of(field), value_text(value), expected);
    const auto number = value.get<std::uint64_t>();
    if (number == 0 || number > std::numeric_limits<std::uint32_t>::max()) {
      refuse(path_of(field), value_text(value), expected);
    }
    return static_cast<std::uint32_t>(number);
  }
  [[nodiscard]] Section section(std::string_view field) const {
    const json& value = required(field, "an object");
    if (!value.is_object()) refuse(path_of(field), value_text(value), "an object");
    return {value, path_of(field)};
  }
  [[nodiscard]] bool equals(const Section& other) const { return object_ == other.object_; }

 private:
  const json& object_;
  std::string path_;
};

const ModelType& model_type_of(const Section& top) {
  const std::string expected = "one of kimi_linear, kimi_k3, glm5_next";
  const json& value = top.required("model_type", expected);
  if (value.is_string()) {
    for (const auto& type : model_types) {
      if (type.name == value.get_ref<const std::string&>()) return type;
    }
  }
  refuse("model_type", value_text(value), expected);
}

// The section that describes the language model: the top, or `text_config` in a multi-modal model's file.
Section text_section(const Section& top) {
  if (top.optional("text_config") == nullptr) return top;
  const Section text = top.section("text_config");
  if (text.optional("linear_attn_config") == nullptr) return top;
  if (top.optional("linear_attn_config") != nullptr &&
      !top.section("linear_attn_config").equals(text.section("linear_attn_config"))) {
    refuse("linear_attn_config", "different from text_config.linear_attn_config", "one of the two, or both equal");
  }
  return text;
}

float rms_norm_eps_of(const Section& text) {
  constexpr std::string_view expected = "a positive finite number";
  const json& value = text.required("rms_norm_eps", expected);
  if (!value.is_number()) refuse(text.path_of("rms_norm_eps"), value_text(value), expected);
  const auto eps = static_cast<float>(value.get<double>());
  if (!(std::isfinite(eps) && eps > 0.0F)) refuse(text.path_of("rms_norm_eps"), value_text(value), expected);
  return eps;
}

std::optional<float> gate_lower_bound_of(const Section& attention) {
  constexpr std::string_view expected = "a number in [-5, 0), null or nothing";
  const json* value = attention.optional("gate_lower_bound");
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) refuse(attention.path_of("gate_lower_bound"), value_text(*value), expected);
  const auto number = value->get<double>();
  const auto bound = static_cast<float>(number);  // below zero here too: a tiny one must not become -0
  if (!(number >= -5.0 && bound < 0.0F)) refuse(attention.path_of("gate_lower_bound"), value_text(*value), expected);
  return bound;
}

bool full_rank_gate_of(const Section& attention) {
  const json* value = attention.optional("use_full_rank_gate");
  if (value == nullptr) return false;
  if (!value->is_boolean()) refuse(attention.path_of("use_full_rank_gate"), value_text(*value), "true or false");
  return value->get<bool>();
}

// 0-based and ascending; `layers` is the number of layers, or 2^32 when the file does not say.
std::vector<std::uint32_t> kda_layers_of(const Section& attention, std::uint32_t base, std::uint64_t layers) {
  const json& list = attention.required("kda_layers", "a list of layer numbers");
  const std::string field = attention.path_of("kda_layers");
  if (!list.is_array()) refuse(field, value_text(list), "a list of layer numbers");
  if (list.empty()) refuse(field, "empty", "at least one layer number");
  std::vector<std::uint32_t> result;
  result.reserve(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    const json& value = list[i];
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() < base ||
        value.get<std::uint64_t>() - base >= layers) {
      refuse(detail::format("{}[{}]", field, i), value_text(value),
             detail::format("a whole number between {} and {} (this model type counts from {})", base,
                            layers + base - 1, base));
    }
    result.push_back(static_cast<std::uint32_t>(value.get<std::uint64_t>() - base));
  }
  std::sort(result.begin(), result.end());
  if (const auto twice = std::adjacent_find(result.begin(), result.end()); twice != result.end()) {
    refuse(field, detail::format("a list with {} in it twice", std::uint64_t{*twice} + base), "distinct layer numbers");
  }
  return result;
}

}  // namespace

ModelConfig ModelConfig::parse(std::string_view text) {
  const json document = detail::parse_json(text, "config.json", {.bytes = max_bytes});
  if (!document.is_object()) refuse("the document", value_text(document), "an object");
  const Section top(document, "");
  const ModelType& type = model_type_of(top);
  const Section model = text_section(top);
  const Section attention = model.section("linear_attn_config");

  ModelConfig config;
  config.model_type = type.name;
  config.hidden_size = model.positive("hidden_size");
  config.rms_norm_eps = rms_norm_eps_of(model);
  config.heads = attention.positive("num_heads");
  config.head_dim = attention.positive("head_dim");
  config.conv_kernel = attention.positive("short_conv_kernel_size");
  config.gate_lower_bound = gate_lower_bound_of(attention);
  config.full_rank_gate = full_rank_gate_of(attention);
  const bool counted = model.optional("num_hidden_layers") != nullptr;
  const std::uint64_t layers = counted ? model.positive("num_hidden_layers") : std::uint64_t{1} << 32;
  config.kda_layers = kda_layers_of(attention, type.layer_base, layers);
  return config;
}

}  // namespace kdart
