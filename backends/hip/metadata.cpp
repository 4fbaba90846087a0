#include "backends/hip/metadata.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "backends/hip/msgpack.h"

namespace kdart::hip {
namespace {

using common::Image;
using detail::quote;
using nlohmann::json;

constexpr std::uint32_t no_limit = std::numeric_limits<std::uint32_t>::max();

// A map of the document, and what messages call it.
class Map {
 public:
  Map(const Image& image, const json& value, std::string name) : image_(image), value_(value), name_(std::move(name)) {
    if (!value.is_object()) refuse("it is no map");
  }

  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) const {
    image_.refuse("its metadata: {}: {}", name_, detail::format_packed(text, fmt::make_format_args(args...)));
  }

  [[nodiscard]] bool has(const char* key) const { return value_.contains(key); }
  [[nodiscard]] const json& at(const char* key) const {
    const auto found = value_.find(key);
    if (found == value_.end()) refuse("it has no {}", key);
    return *found;
  }
  [[nodiscard]] const std::string& text(const char* key) const {
    const json& value = at(key);
    if (!value.is_string()) refuse("{} is no string", key);
    return value.get_ref<const std::string&>();
  }
  [[nodiscard]] const json& list(const char* key) const {
    const json& value = at(key);
    if (!value.is_array()) refuse("{} is no list", key);
    return value;
  }
  [[nodiscard]] std::uint32_t number(const char* key, std::uint32_t least = 0) const {
    const json& value = at(key);
    // The reader gives a positive number in a signed format as a signed one.
    const bool whole = value.is_number_integer() && (value.is_number_unsigned() || value.get<std::int64_t>() >= 0);
    if (!whole || value.get<std::uint64_t>() > no_limit || value.get<std::uint64_t>() < least)
      refuse("{} is no integer from {} to {}", key, least, no_limit);
    return value.get<std::uint32_t>();
  }

 private:
  const Image& image_;
  const json& value_;
  std::string name_;
};

// The explicit arguments, in order. None overlaps another, hidden or not: the runtime writes both kinds.
std::vector<CodeObjectArgument> read_arguments(const Image& image, const Map& kernel, const std::string& name,
                                               std::uint32_t kernarg_bytes) {
  std::vector<CodeObjectArgument> arguments;
  if (!kernel.has(".args")) return arguments;
  std::uint64_t end = 0;
  std::size_t index = 0;
  for (const json& value : kernel.list(".args")) {
    const Map map(image, value, detail::format("kernel {}: argument {}", quote(name), index++));
    const CodeObjectArgument argument{map.number(".offset"), map.number(".size")};
    if (argument.offset < end) map.refuse("it is at {}, and the one before ends at {}", argument.offset, end);
    end = std::uint64_t{argument.offset} + argument.size;
    if (end > kernarg_bytes) map.refuse("it ends at {}, and the kernel takes {} bytes", end, kernarg_bytes);
    if (!map.text(".value_kind").starts_with("hidden_")) arguments.push_back(argument);
  }
  return arguments;
}

CodeObjectKernel read_kernel(const Image& image, const json& value, std::size_t index) {
  const std::string name = Map(image, value, detail::format("kernel {}", index)).text(".name");
  const Map map(image, value, detail::format("kernel {}", quote(name)));
  if (map.text(".symbol") != name + ".kd")
    map.refuse(".symbol is {}, expected {}", quote(map.text(".symbol")), quote(name + ".kd"));

  CodeObjectKernel kernel;
  kernel.symbol = name;
  kernel.kernarg_bytes = map.number(".kernarg_segment_size");
  kernel.static_shared_bytes = map.number(".group_segment_fixed_size");
  kernel.max_threads = map.number(".max_flat_workgroup_size", 1);
  kernel.wave_size = map.number(".wavefront_size");
  if (kernel.wave_size != 32 && kernel.wave_size != 64)
    map.refuse(".wavefront_size is {}, expected 32 or 64", kernel.wave_size);
  kernel.vgprs = map.number(".vgpr_count");
  kernel.sgprs = map.number(".sgpr_count");
  if (map.has(".vgpr_spill_count")) kernel.vgpr_spills = map.number(".vgpr_spill_count");
  if (map.has(".sgpr_spill_count")) kernel.sgpr_spills = map.number(".sgpr_spill_count");
  kernel.scratch_bytes = map.number(".private_segment_fixed_size");
  const std::uint32_t align = map.number(".kernarg_segment_align", 1);
  if ((align & (align - 1)) != 0) map.refuse(".kernarg_segment_align is {}, expected a power of two", align);
  kernel.arguments = read_arguments(image, map, name, kernel.kernarg_bytes);
  return kernel;
}

}  // namespace

std::optional<std::string_view> target_of_triple(std::string_view triple) {
  constexpr std::string_view system = "amdgcn-amd-amdhsa-";
  if (!triple.starts_with(system)) return std::nullopt;
  triple.remove_prefix(system.size());
  // The environment, which is empty or, in newer compilers' spelling, unknown.
  for (const std::string_view environment : {"-", "unknown-"}) {
    if (triple.starts_with(environment)) return triple.substr(environment.size());
  }
  return std::nullopt;
}

Metadata read_metadata(const Image& image, std::span<const std::byte> note) {
  std::string problem;
  const json document = parse_msgpack(note, problem);
  if (!problem.empty()) image.refuse("its metadata: {}", problem);
  const Map map(image, document, "the document");

  const json& version = map.list("amdhsa.version");
  if (version.size() != 2 || version[0] != 1) map.refuse("amdhsa.version is not 1.x");
  const std::string& triple = map.text("amdhsa.target");
  const auto target = target_of_triple(triple);
  if (!target) map.refuse("amdhsa.target is {}, which is none of an AMD GPU", quote(triple));

  Metadata metadata{std::string(*target), {}};
  std::set<std::string_view> names;
  const json& kernels = map.list("amdhsa.kernels");
  metadata.kernels.reserve(kernels.size());
  for (const json& kernel : kernels) {
    metadata.kernels.push_back(read_kernel(image, kernel, metadata.kernels.size()));
    const std::string& name = metadata.kernels.back().symbol;
    if (!names.insert(name).second) image.refuse("its metadata: two kernels have the name {}", quote(name));
  }
  return metadata;
}

}  // namespace kdart::hip
