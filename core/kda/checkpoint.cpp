#include "kdart/checkpoint.h"

#include <nlohmann/json.hpp>
#include <system_error>

#include "core/kda/checkpoint_layer.h"
#include "core/runtime/bounded_json.h"
#include "core/runtime/format.h"
#include "core/runtime/host_file.h"
#include "core/runtime/messages.h"
#include "kdart/error.h"

namespace kdart {
namespace {

using detail::quote;
using nlohmann::json;

constexpr std::size_t max_index_bytes = std::size_t{256} << 20;
constexpr const char* single_file = "model.safetensors";
constexpr const char* index_file = "model.safetensors.index.json";

std::string_view text_of(const detail::MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()};
}

// False when nothing is there; a file that is there and cannot be read is found out by opening it.
bool is_there(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::symlink_status(path, ignored).type() != std::filesystem::file_type::not_found;
}

// An index may only name files that lie beside it.
bool is_plain_file_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find_first_of(std::string_view("/\\\0", 3)) == name.npos;
}

// Which tensors each shard must hold, from the index's weight_map.
std::map<std::string, std::vector<std::string>> shards_of(const json& index, const std::string& name) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::bad_checkpoint, detail::format("{}: {}", name, what));
  };
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    refuse("there is no weight_map object");
  }
  std::map<std::string, std::vector<std::string>> shards;
  for (const auto& [tensor, shard] : index["weight_map"].items()) {
    if (!shard.is_string()) refuse(detail::format("the shard of tensor {} is not a string", quote(tensor)));
    const auto& file = shard.get_ref<const std::string&>();
    if (!is_plain_file_name(file)) {
      refuse(detail::format("tensor {} is said to lie in {}; expected a plain file name", quote(tensor), quote(file)));
    }
    shards[file].push_back(tensor);
  }
  if (shards.empty()) refuse("the weight_map is empty");
  return shards;
}

std::vector<SafetensorsFile> open_shards(const std::filesystem::path& folder) {
  const auto path = folder / index_file;
  const auto file = detail::map_file(path);
  const std::string name = detail::printable(path.native());
  const json index = detail::parse_json(text_of(file), name, {.bytes = max_index_bytes, .depth = 16});
  std::vector<SafetensorsFile> files;
  for (const auto& [shard, tensors] : shards_of(index, name)) {
    files.push_back(SafetensorsFile::open(folder / shard));
    for (const auto& tensor : tensors) {
      if (files.back().find(tensor) != nullptr) continue;
      throw Error(ErrorCode::bad_checkpoint,
                  detail::format("{}: tensor {} is said to lie in {}, which does not have it", name, quote(tensor),
                                 quote(shard)));
    }
  }
  return files;
}

std::vector<SafetensorsFile> open_files(const std::filesystem::path& folder) {
  std::vector<SafetensorsFile> files;
  if (is_there(folder / single_file)) {
    files.push_back(SafetensorsFile::open(folder / single_file));
  } else if (is_there(folder / index_file)) {
    files = open_shards(folder);
  } else {
    throw Error(ErrorCode::io_error, detail::format("'{}' holds neither {} nor {}", detail::printable(folder.native()),
                                                    single_file, index_file));
  }
  return files;
}

}  // namespace

Checkpoint Checkpoint::open(const std::filesystem::path& folder) {
  Checkpoint result;
  result.folder_ = folder;
  result.config_ = ModelConfig::parse(text_of(detail::map_file(folder / "config.json")));
  result.files_ = open_files(folder);
  return result;
}

KdaWeights Checkpoint::kda_layer(std::uint32_t layer) const {
  return detail::layer_weights(config_, files_, layer);
}

}  // namespace kdart
