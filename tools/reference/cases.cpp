#include "tools/reference/cases.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <type_traits>
#include <utility>

#include "core/runtime/format.h"
#include "kdart/checkpoint.h"
#include "kdart/error.h"

namespace kdart::reference {
namespace {

using Shape = std::vector<std::uint64_t>;
using Tensor = SafetensorsFile::Tensor;

constexpr std::array<std::string_view, 6> members{"hidden", "recurrent_in",  "conv_in",
                                                  "out",    "recurrent_out", "conv_out"};
constexpr std::string_view bounds_prefix = "bounds.";

// Names in an untrusted file may hold anything; a message shows ASCII of a length that a person can read.
std::string shown(std::string_view name) {
  std::string text;
  for (const char c : name.substr(0, 160))
    text += static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7F ? '?' : c;
  return "'" + text + "'";
}

template <typename T>
std::vector<T> elements(const Tensor& tensor) {
  std::vector<T> result(tensor.data.size() / sizeof(T));
  if (!result.empty()) std::memcpy(result.data(), tensor.data.data(), result.size() * sizeof(T));
  return result;
}

// [channels, 3] with the oldest first becomes [channels, 4] with an unread zero in front.
std::vector<float> four_slots(const std::vector<float>& three) {
  std::vector<float> four(three.size() / 3 * 4);
  for (std::size_t i = 0; i < three.size(); ++i) four[i / 3 * 4 + 1 + i % 3] = three[i];
  return four;
}

class Reader {
 public:
  Reader(SafetensorsFile file, const KdaConfig& config) : file_(std::move(file)), config_(config) {}

  std::vector<Case> read() {
    config_.validate();
    const std::map<std::string, const std::byte*> names = case_names();
    check_bounds_names(names);
    std::vector<std::pair<const std::byte*, Case>> found;
    found.reserve(names.size());
    for (const auto& [name, position] : names) found.emplace_back(position, read_case(name));
    // In the file's own order, which is how its author meant them to be read.
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Case> cases;
    cases.reserve(found.size());
    for (auto& entry : found) cases.push_back(std::move(entry.second));
    return cases;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorCode::bad_checkpoint, detail::format("{}: {}", file_.name(), what));
  }

  // Each case's name, and where its first tensor lies.
  [[nodiscard]] std::map<std::string, const std::byte*> case_names() const {
    std::map<std::string, const std::byte*> names;
    for (const auto& [tensor, content] : file_.tensors()) {
      const auto dot = tensor.rfind('.');
      const auto member = dot == std::string::npos ? std::string_view() : std::string_view(tensor).substr(dot + 1);
      if (dot == 0 || std::find(members.begin(), members.end(), member) == members.end()) {
        refuse(detail::format("tensor {} is no part of a case; expected NAME.M with M one of {}", shown(tensor),
                              fmt::join(members, ", ")));
      }
      const auto [entry, inserted] = names.emplace(tensor.substr(0, dot), content.data.data());
      if (!inserted) entry->second = std::min(entry->second, content.data.data());
    }
    if (names.empty()) refuse("there is no case in the file");
    return names;
  }

  void check_bounds_names(const std::map<std::string, const std::byte*>& names) const {
    for (const auto& [key, value] : file_.metadata()) {
      if (key.starts_with(bounds_prefix) && !names.contains(key.substr(bounds_prefix.size()))) {
        refuse(detail::format("metadata {} is for a case that is not there", shown(key)));
      }
    }
  }

  [[nodiscard]] const Tensor& tensor(const std::string& name, std::string_view member, std::string_view dtype) const {
    const auto full = detail::format("{}.{}", name, member);
    const Tensor* found = file_.find(full);
    if (found == nullptr) refuse(detail::format("tensor {} is missing", shown(full)));
    if (found->dtype != dtype) {
      refuse(detail::format("tensor {}: its dtype is {}; expected {}", shown(full), found->dtype, dtype));
    }
    return *found;
  }

  template <typename T>
  [[nodiscard]] std::vector<T> read_tensor(const std::string& name, std::string_view member, const Shape& shape) const {
    const Tensor& found = tensor(name, member, std::is_same_v<T, bf16> ? "BF16" : "F32");
    if (found.shape != shape) {
      refuse(detail::format("tensor {}: its shape is [{}]; expected [{}]", shown(detail::format("{}.{}", name, member)),
                            fmt::join(found.shape, ", "), fmt::join(shape, ", ")));
    }
    return elements<T>(found);
  }

  [[nodiscard]] Case read_case(const std::string& name) const {
    const Shape& hidden = tensor(name, "hidden", "BF16").shape;
    if (hidden.size() != 2 || hidden[0] == 0) {
      refuse(detail::format("tensor {}: its shape is [{}]; expected [tokens, {}] with at least one token",
                            shown(name + ".hidden"), fmt::join(hidden, ", "), config_.hidden_size));
    }
    const Shape rows{hidden[0], config_.hidden_size};
    const Shape recurrent{config_.heads, config_.head_dim, config_.head_dim};
    const Shape conv{config_.conv_channels(), 3};
    Case result;
    result.name = name;
    result.tokens = hidden[0];
    result.hidden = read_tensor<bf16>(name, "hidden", rows);
    result.recurrent_in = read_tensor<float>(name, "recurrent_in", recurrent);
    result.conv_in = four_slots(read_tensor<float>(name, "conv_in", conv));
    result.out = read_tensor<float>(name, "out", rows);
    result.recurrent_out = read_tensor<float>(name, "recurrent_out", recurrent);
    result.conv_out = four_slots(read_tensor<float>(name, "conv_out", conv));
    const auto stated = file_.metadata().find(std::string(bounds_prefix) + name);
    result.bounds =
        stated == file_.metadata().end() ? base_bounds(result.tokens) : parse_bounds(stated->first, stated->second);
    return result;
  }

  // Four positive finite numbers, separated by spaces.
  [[nodiscard]] Bounds parse_bounds(const std::string& key, const std::string& text) const {
    std::array<double, 4> values{};
    const char* at = text.data();
    const char* end = at + text.size();
    const auto skip_spaces = [&] {
      while (at != end && *at == ' ') ++at;
    };
    bool good = true;
    for (double& value : values) {
      skip_spaces();
      const auto [stop, error] = std::from_chars(at, end, value);
      good = good && error == std::errc() && (stop == end || *stop == ' ') && std::isfinite(value) && value > 0;
      at = stop;
    }
    skip_spaces();
    if (!good || at != end) {
      refuse(detail::format("metadata {} is {}; expected four positive numbers", shown(key), shown(text)));
    }
    return {values[0], values[1], values[2], values[3]};
  }

  SafetensorsFile file_;
  const KdaConfig& config_;
};

void check_equal_lengths(std::size_t a, std::size_t b) {
  if (a != b) {
    throw Error(ErrorCode::invalid_argument,
                detail::format("a result of {} elements is compared with a truth of {}", a, b));
  }
}

}  // namespace

Bounds base_bounds(std::uint64_t tokens) {
  Bounds bounds;
  if (tokens < 32) {
    for (double* bound : {&bounds.decode_out, &bounds.decode_state, &bounds.prefill_out, &bounds.prefill_state}) {
      *bound *= 1.6;
    }
  }
  return bounds;
}

std::vector<Case> load_cases(const std::filesystem::path& file, const KdaConfig& config) {
  return Reader(SafetensorsFile::open(file), config).read();
}

std::vector<Case> parse_cases(std::span<const std::byte> bytes, const std::string& name, const KdaConfig& config) {
  return Reader(SafetensorsFile::from_memory(bytes, name), config).read();
}

double relative_l2(std::span<const float> x, std::span<const float> truth) {
  check_equal_lengths(x.size(), truth.size());
  double difference = 0;
  double norm = 0;
  bool finite = true;
  for (std::size_t i = 0; i < x.size(); ++i) {
    finite = finite && std::isfinite(x[i]) && std::isfinite(truth[i]);
    const double t = static_cast<double>(truth[i]);
    const double d = static_cast<double>(x[i]) - t;
    difference += d * d;
    norm += t * t;
  }
  if (!finite) return std::numeric_limits<double>::quiet_NaN();
  return difference == 0 ? 0 : std::sqrt(difference) / std::sqrt(norm);
}

double conv_max_excess(std::span<const float> x, std::span<const float> truth) {
  check_equal_lengths(x.size(), truth.size());
  double worst = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (i % 4 == 0) continue;
    if (!std::isfinite(x[i]) || !std::isfinite(truth[i])) return std::numeric_limits<double>::quiet_NaN();
    const double t = static_cast<double>(truth[i]);
    worst = std::max(worst, std::abs(static_cast<double>(x[i]) - t) - (std::abs(t) * 0x1p-8 + 1e-5));
  }
  return worst;
}

}  // namespace kdart::reference
