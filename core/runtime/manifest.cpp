// manifest.json: untrusted text to a Manifest, or a refusal that names the field.
#include <algorithm>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/runtime/bounded_json.h"
#include "core/runtime/fail.h"
#include "core/runtime/messages.h"
#include "kdart/kernel_set.h"

namespace kdart {

using detail::fail;
using detail::quote;
using nlohmann::json;

std::string_view to_string(ImageFormat format) noexcept {
  switch (format) {
    case ImageFormat::elf_shared:
      return "elf_shared";
    case ImageFormat::cubin:
      return "cubin";
    case ImageFormat::ptx:
      return "ptx";
    case ImageFormat::code_object:
      return "code_object";
    case ImageFormat::spirv:
      return "spirv";
  }
  return "unknown";
}

namespace {

constexpr detail::JsonLimits json_limits{
    .bytes = std::size_t{16} << 20, .depth = 16, .error = ErrorCode::invalid_argument};
constexpr std::size_t max_text_bytes = 255;
constexpr std::uint64_t max_image_bytes = std::uint64_t{1} << 32;

// A JSON value as a person can find it: cut short, on one line.
std::string shown(const json& value) {
  const std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() <= 80 ? text : text.substr(0, 80) + "..";
}

// A value and where it stands, "images[2].sha256".
class Field {
 public:
  Field(const json& value, std::string path, std::string_view name)
      : value_(&value), path_(std::move(path)), name_(name) {}

  [[noreturn]] void refuse(std::string_view expected) const {
    fail(ErrorCode::invalid_argument, "{}: {} is {}, expected {}", name_, path_.empty() ? "the whole" : path_,
         shown(*value_), expected);
  }

  // Fields beside `required` and `optional` are refused, and so is the lack of a required one.
  void require_fields(std::initializer_list<std::string_view> required,
                      std::initializer_list<std::string_view> optional = {}) const {
    if (!value_->is_object()) refuse("an object");
    for (const std::string_view key : required) {
      if (value_->contains(key)) continue;
      fail(ErrorCode::invalid_argument, "{}: {} lacks the field '{}'", name_, path_.empty() ? "the manifest" : path_,
           key);
    }
    for (const auto& [key, value] : value_->items()) {
      const bool known = std::find(required.begin(), required.end(), key) != required.end() ||
                         std::find(optional.begin(), optional.end(), key) != optional.end();
      if (!known) {
        fail(ErrorCode::invalid_argument, "{}: {} has the unknown field {}", name_,
             path_.empty() ? "the manifest" : path_, quote(key));
      }
    }
  }
  [[nodiscard]] bool has(std::string_view key) const { return value_->contains(key); }
  [[nodiscard]] Field at(std::string_view key) const {
    return {value_->at(key), path_.empty() ? std::string(key) : detail::format("{}.{}", path_, key), name_};
  }

  template <class Visit>
  void for_each_element(const Visit& visit) const {
    if (!value_->is_array()) refuse("an array");
    for (std::size_t i = 0; i < value_->size(); ++i)
      visit(Field((*value_)[i], detail::format("{}[{}]", path_, i), name_));
  }
  template <class Visit>
  void for_each_member(const Visit& visit) const {
    if (!value_->is_object()) refuse("an object");
    for (const auto& [key, value] : value_->items()) {
      if (key.empty() || key.size() > max_text_bytes) refuse("names of 1 to 255 bytes");
      visit(key, Field(value, detail::format("{}.{}", path_, quote(key)), name_));
    }
  }

  // 1 to 255 bytes without control characters.
  [[nodiscard]] std::string text() const {
    if (!value_->is_string()) refuse("a string");
    const auto& text = value_->get_ref<const std::string&>();
    const bool printable = std::none_of(text.begin(), text.end(), [](char c) {
      const auto byte = static_cast<unsigned char>(c);
      return byte < 0x20 || byte == 0x7F;
    });
    if (text.empty() || text.size() > max_text_bytes || !printable) {
      refuse("a string of 1 to 255 bytes without control characters");
    }
    return text;
  }
  [[nodiscard]] std::uint64_t integer(std::uint64_t least, std::uint64_t most) const {
    const bool good =
        value_->is_number_unsigned() && value_->get<std::uint64_t>() >= least && value_->get<std::uint64_t>() <= most;
    if (!good) refuse(detail::format("an integer from {} to {}", least, most));
    return value_->get<std::uint64_t>();
  }
  [[nodiscard]] std::uint32_t u32(std::uint32_t most = std::numeric_limits<std::uint32_t>::max()) const {
    return static_cast<std::uint32_t>(integer(0, most));
  }
  // A text that none of `seen` equals; it becomes one of them.
  [[nodiscard]] std::string unique_text(std::set<std::string>& seen) const {
    std::string value = text();
    if (!seen.insert(value).second) refuse("a name that does not stand there twice");
    return value;
  }

 private:
  const json* value_;
  std::string path_;
  std::string_view name_;
};

std::uint32_t optional_u32(const Field& object, std::string_view key) {
  return object.has(key) ? object.at(key).u32() : 0;
}

ArgKind read_kind(const Field& field) {
  const std::string text = field.text();
  for (const ArgKind kind : {ArgKind::ptr, ArgKind::u32, ArgKind::i32, ArgKind::u64, ArgKind::f32, ArgKind::bytes}) {
    if (text == to_string(kind)) return kind;
  }
  field.refuse("ptr, u32, i32, u64, f32 or bytes");
}

// The size that a kind has; 0 for bytes, which has any.
std::uint32_t size_of(ArgKind kind) {
  switch (kind) {
    case ArgKind::ptr:
    case ArgKind::u64:
      return 8;
    case ArgKind::u32:
    case ArgKind::i32:
    case ArgKind::f32:
      return 4;
    case ArgKind::bytes:
      break;
  }
  return 0;
}

ManifestArg read_arg(const Field& field, std::uint32_t least_offset, std::set<std::string>& names) {
  field.require_fields({"name", "kind", "offset", "size"});
  ManifestArg arg;
  arg.name = field.at("name").unique_text(names);
  arg.kind = read_kind(field.at("kind"));
  arg.size = static_cast<std::uint32_t>(field.at("size").integer(1, max_argument_bytes));
  const std::uint32_t size = size_of(arg.kind);
  if (size != 0 && arg.size != size)
    field.at("size").refuse(detail::format("{}, the size of {}", size, to_string(arg.kind)));
  arg.offset = field.at("offset").u32(max_argument_bytes);
  if (arg.offset < least_offset || (size != 0 && arg.offset % size != 0)) {
    field.at("offset").refuse(detail::format("a multiple of {} from {} on, where the argument before ends",
                                             std::max(size, 1U), least_offset));
  }
  return arg;
}

ManifestKernel read_kernel(const Field& field, std::set<std::string>& names) {
  field.require_fields({"name", "args", "argument_bytes"});
  ManifestKernel kernel;
  kernel.name = field.at("name").unique_text(names);
  std::set<std::string> arg_names;
  std::uint32_t end = 0;
  field.at("args").for_each_element([&](const Field& arg) {
    if (kernel.args.size() == max_kernel_arguments)
      arg.refuse("the end of the list: a kernel has at most 32 arguments");
    kernel.args.push_back(read_arg(arg, end, arg_names));
    end = kernel.args.back().offset + kernel.args.back().size;
  });
  kernel.argument_bytes = static_cast<std::uint32_t>(field.at("argument_bytes").integer(end, max_argument_bytes));
  return kernel;
}

ImageKernel read_image_kernel(const Field& field, const std::set<std::string>& described,
                              std::set<std::string>& names) {
  field.require_fields({"name", "symbol", "static_shared_bytes"},
                       {"min_threads", "max_threads", "subgroup", "registers", "tunables"});
  ImageKernel kernel;
  kernel.name = field.at("name").unique_text(names);
  if (!described.contains(kernel.name)) field.at("name").refuse("the name of a kernel that 'kernels' describes");
  kernel.symbol = field.at("symbol").text();
  kernel.static_shared_bytes = field.at("static_shared_bytes").u32();
  kernel.min_threads = optional_u32(field, "min_threads");
  kernel.max_threads = optional_u32(field, "max_threads");
  if (kernel.max_threads != 0 && kernel.min_threads > kernel.max_threads) {
    field.at("min_threads").refuse(detail::format("at most max_threads, {}", kernel.max_threads));
  }
  kernel.subgroup = optional_u32(field, "subgroup");
  if (field.has("registers")) kernel.registers = field.at("registers").u32();
  if (field.has("tunables")) {
    field.at("tunables").for_each_member([&](const std::string& key, const Field& value) {
      kernel.tunables.emplace(key, value.u32());
    });
  }
  return kernel;
}

std::string read_file_name(const Field& field, std::set<std::string>& files) {
  std::string file = field.unique_text(files);
  if (file == "." || file == ".." || file.find_first_of("/\\") != std::string::npos) {
    field.refuse("a plain file name, without a path");
  }
  return file;
}

ImageFormat read_format(const Field& field) {
  const std::string text = field.text();
  for (const ImageFormat format :
       {ImageFormat::elf_shared, ImageFormat::cubin, ImageFormat::ptx, ImageFormat::code_object, ImageFormat::spirv}) {
    if (text == to_string(format)) return format;
  }
  field.refuse("elf_shared, cubin, ptx, code_object or spirv");
}

std::string read_hash(const Field& field) {
  std::string hash = field.text();
  const bool hex =
      std::all_of(hash.begin(), hash.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  if (hash.size() != 64 || !hex) field.refuse("64 lower-case hexadecimal digits");
  return hash;
}

// What only one format states.
void read_format_fields(const Field& field, ManifestImage& image) {
  if (image.format == ImageFormat::ptx) {
    if (!field.has("ptx_isa")) {
      field.refuse("the field 'ptx_isa' in it, which a ptx image needs");
    }
    image.ptx_isa = static_cast<std::uint32_t>(field.at("ptx_isa").integer(10, 999));
  } else if (field.has("ptx_isa")) {
    field.at("ptx_isa").refuse(detail::format("no such field in a {} image", to_string(image.format)));
  }
  if (!field.has("capabilities")) return;
  if (image.format != ImageFormat::spirv) {
    field.at("capabilities").refuse(detail::format("no such field in a {} image", to_string(image.format)));
  }
  std::set<std::string> names;
  field.at("capabilities").for_each_element([&](const Field& capability) {
    image.capabilities.push_back(capability.unique_text(names));
  });
}

struct ImageNames {
  std::set<std::string> described;  // kernels
  std::set<std::string> files;
  std::set<std::string> targets;  // with what tells two images for one target apart
};

ManifestImage read_image(const Field& field, ImageNames& names) {
  field.require_fields({"file", "target", "format", "bytes", "sha256", "kernels"}, {"ptx_isa", "capabilities"});
  ManifestImage image;
  image.file = read_file_name(field.at("file"), names.files);
  image.target = field.at("target").text();
  image.format = read_format(field.at("format"));
  image.bytes = field.at("bytes").integer(1, max_image_bytes);
  image.sha256 = read_hash(field.at("sha256"));
  read_format_fields(field, image);
  std::string key = detail::format("{} {} {}", to_string(image.format), image.target, image.ptx_isa);
  for (const std::string& capability : image.capabilities) key += " " + capability;
  if (!names.targets.insert(key).second) field.at("target").refuse("a target that no image before has");
  std::set<std::string> kernel_names;
  field.at("kernels").for_each_element(
      [&](const Field& kernel) { image.kernels.push_back(read_image_kernel(kernel, names.described, kernel_names)); });
  return image;
}

void require_schema(const Field& root, std::string_view name) {
  if (!root.has("schema")) return;  // require_fields says so
  const std::uint64_t found = root.at("schema").integer(1, std::numeric_limits<std::uint64_t>::max());
  if (found == Manifest::schema) return;
  fail(ErrorCode::unsupported_version, "{}: the manifest has schema {}, and this version of kdart reads {}", name,
       found, Manifest::schema);
}

}  // namespace

Manifest Manifest::parse(std::string_view text, std::string_view name) {
  const json document = detail::parse_json(text, std::string(name), json_limits);
  const Field root(document, "", name);
  if (!document.is_object()) root.refuse("an object");
  require_schema(root, name);  // before the fields, which a newer schema may have more of
  root.require_fields({"schema", "set", "version", "backend", "toolchain", "kernels", "images"});

  Manifest manifest;
  manifest.set = root.at("set").text();
  manifest.version = root.at("version").text();
  manifest.backend = root.at("backend").text();
  root.at("toolchain").for_each_member([&](const std::string& tool, const Field& version) {
    manifest.toolchain.emplace(tool, version.text());
  });
  ImageNames names;
  root.at("kernels").for_each_element(
      [&](const Field& kernel) { manifest.kernels.push_back(read_kernel(kernel, names.described)); });
  root.at("images").for_each_element([&](const Field& image) { manifest.images.push_back(read_image(image, names)); });
  return manifest;
}

}  // namespace kdart
