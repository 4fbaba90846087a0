
#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/runtime/bounded_json.h"
#include "core/runtime/format.h"
#include "core/runtime/host_file.h"
#include "core/runtime/messages.h"
#include "kdart/checkpoint.h"
#include "kdart/error.h"

namespace kdart {
namespace {

using detail::quote;
using nlohmann::json;

constexpr std::size_t length_bytes = 8;            // the header's length, little-endian, in front of it
constexpr std::uint64_t max_header = 100'000'000;  // the format's own limit
constexpr std::size_t max_rank = 32;
constexpr std::string_view metadata_key = "__metadata__";

struct Dtype {
  std::string_view name;
  std::uint32_t bits;
};
constexpr std::array<Dtype, 22> dtypes{
    {{"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"BOOL", 8},        {"U8", 8},          {"I8", 8},
     {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
     {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
     {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64}}};

std::optional<std::uint32_t> dtype_bits(std::string_view name) {
  const auto found = std::find_if(dtypes.begin(), dtypes.end(), [&](const Dtype& d) { return d.name == name; });
  return found == dtypes.end() ? std::nullopt : std::optional(found->bits);
}

// a * b, or nothing when it does not fit 64 bits.
std::optional<std::uint64_t> product(std::uint64_t a, std::uint64_t b) {
  if (b != 0 && a > std::numeric_limits<std::uint64_t>::max() / b) return std::nullopt;
  return a * b;
}

struct Range {
  std::uint64_t begin;
  std::uint64_t end;
  std::string_view tensor;
};

// Reads one file's header. Every offset below is checked before it is used.
class HeaderReader {
 public:
  HeaderReader(std::span<const std::byte> bytes, std::string name) : bytes_(bytes), name_(std::move(name)) {}

  void read(std::map<std::string, SafetensorsFile::Tensor, std::less<>>& tensors,
            std::map<std::string, std::string, std::less<>>& metadata) {
    const std::string_view text = header_text();
    data_ = bytes_.subspan(length_bytes + text.size());
    const json header = detail::parse_json(text, name_, {.bytes = max_header, .depth = 4});
    std::vector<Range> ranges;
    ranges.reserve(header.size());
    for (const auto& [key, value] : header.items()) {
      if (key == metadata_key) {
        read_metadata(value, metadata);
        continue;
      }
      const auto [entry, inserted] = tensors.emplace(key, read_tensor(key, value, ranges));
      ranges.back().tensor = entry->first;
    }
    check_coverage(ranges);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorCode::bad_checkpoint, detail::format("{}: {}", name_, what));
  }
  [[noreturn]] void refuse_tensor(std::string_view tensor, const std::string& what) const {
    refuse(detail::format("tensor {}: {}", quote(tensor), what));
  }

  std::string_view header_text() const {
    if (bytes_.size() < length_bytes) {
      refuse(detail::format("the file is {} bytes long; a safetensors file has at least 8", bytes_.size()));
    }
    std::uint64_t length = 0;
    for (std::size_t i = 0; i < length_bytes; ++i) length |= std::to_integer<std::uint64_t>(bytes_[i]) << (8 * i);
    const std::uint64_t limit = std::min<std::uint64_t>(max_header, bytes_.size() - length_bytes);
    if (length > limit) {
      refuse(detail::format("the header claims {} bytes; at most {} are possible in this file of {}", length, limit,
                            bytes_.size()));
    }
    const auto header = bytes_.subspan(length_bytes, static_cast<std::size_t>(length));
    if (header.empty() || header.front() != std::byte{'{'}) refuse("the header does not start with '{'");
    return {reinterpret_cast<const char*>(header.data()), header.size()};
  }

  void read_metadata(const json& value, std::map<std::string, std::string, std::less<>>& metadata) const {
    if (!value.is_object()) refuse("__metadata__ is not an object");
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) refuse(detail::format("__metadata__ has a value for {} that is not a string", quote(key)));
      metadata.emplace(key, text.get<std::string>());
    }
  }

  // A member of a tensor's entry that must be a list of whole numbers.
  std::vector<std::uint64_t> numbers(std::string_view tensor, const json& entry, const char* member,
                                     std::size_t limit) const {
    const auto found = entry.find(member);
    if (found == entry.end()) refuse_tensor(tensor, detail::format("has no {}", member));
    if (!found->is_array() || found->size() > limit) {
      refuse_tensor(tensor, detail::format("its {} is not a list of at most {} whole numbers", member, limit));
    }
    std::vector<std::uint64_t> result;
    result.reserve(found->size());
    for (const auto& value : *found) {
      if (!value.is_number_unsigned()) {
        refuse_tensor(tensor, detail::format("its {} holds something else than whole numbers", member));
      }
      result.push_back(value.get<std::uint64_t>());
    }
    return result;
  }

  SafetensorsFile::Tensor read_tensor(const std::string& tensor, const json& entry, std::vector<Range>& ranges) const {
    if (!entry.is_object()) refuse_tensor(tensor, "its entry is not an object");
    for (const auto& [member, value] : entry.items()) {
      if (member != "dtype" && member != "shape" && member != "data_offsets") {
        refuse_tensor(tensor,
                      detail::format("has an unknown member {}; expected dtype, shape, data_offsets", quote(member)));
      }
    }
    SafetensorsFile::Tensor result;
    const auto dtype = entry.find("dtype");
    if (dtype == entry.end() || !dtype->is_string()) refuse_tensor(tensor, "has no dtype, or one that is not a string");
    result.dtype = dtype->get<std::string>();
    result.shape = numbers(tensor, entry, "shape", max_rank);
    const auto offsets = numbers(tensor, entry, "data_offsets", 2);
    if (offsets.size() != 2) refuse_tensor(tensor, detail::format("has {} data_offsets; expected 2", offsets.size()));
    check_offsets(tensor, result, offsets[0], offsets[1]);
    result.data =
        data_.subspan(static_cast<std::size_t>(offsets[0]), static_cast<std::size_t>(offsets[1] - offsets[0]));
    ranges.push_back({offsets[0], offsets[1], {}});
    return result;
  }

  void check_offsets(std::string_view tensor, const SafetensorsFile::Tensor& t, std::uint64_t begin,
                     std::uint64_t end) const {
    if (begin > end || end > data_.size()) {
      refuse_tensor(tensor, detail::format("its data_offsets are [{}, {}]; the data section has {} bytes", begin, end,
                                           data_.size()));
    }
    const auto bits = dtype_bits(t.dtype);
    if (!bits) refuse_tensor(tensor, detail::format("its dtype {} is not one of the format's", quote(t.dtype)));
    std::optional<std::uint64_t> total = *bits;
    for (const std::uint64_t extent : t.shape) {
      if (total) total = product(*total, extent);
    }
    if (!total || *total % 8 != 0) {
      refuse_tensor(tensor, detail::format("its shape {} of {} is no whole number of bytes below 2^61",
                                           detail::shape_text(t.shape), t.dtype));
    }
    if (*total / 8 != end - begin) {
      refuse_tensor(tensor, detail::format("holds {} bytes; its shape {} of {} needs {}", end - begin,
                                           detail::shape_text(t.shape), t.dtype, *total / 8));
    }
  }

  // The tensors must tile the data section: an overlap would let one name alias another, a gap hides bytes.
  void check_coverage(std::vector<Range>& ranges) const {
    std::sort(ranges.begin(), ranges.end(),
              [](const Range& a, const Range& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
    std::uint64_t expected = 0;
    std::string_view previous = "the start";
    for (const Range& range : ranges) {
      if (range.begin != expected) {
        refuse_tensor(
            range.tensor,
            detail::format("begins at byte {} of the data section, {} {}, which ends at {}", range.begin,
                           range.begin < expected ? "inside" : "after a gap behind", quote(previous), expected));
      }
      expected = range.end;
      previous = range.tensor;
    }
    if (expected != data_.size()) {
      refuse(detail::format("the tensors cover {} bytes of a data section of {}", expected, data_.size()));
    }
  }

  std::span<const std::byte> bytes_;
  std::string name_;  // for messages
  std::span<const std::byte> data_;
};

}  // namespace

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  const auto file = detail::map_file(path);
  SafetensorsFile result = from_memory(file.bytes, path.string());
  result.mapping_ = file.owner;
  return result;
}

SafetensorsFile SafetensorsFile::from_memory(std::span<const std::byte> bytes, std::string name) {
  SafetensorsFile result;
  result.name_ = std::move(name);
  HeaderReader(bytes, detail::printable(result.name_)).read(result.tensors_, result.metadata_);
  return result;
}

const SafetensorsFile::Tensor* SafetensorsFile::find(std::string_view tensor) const noexcept {
  const auto found = tensors_.find(tensor);
  return found == tensors_.end() ? nullptr : &found->second;
}

}  // namespace kdart
