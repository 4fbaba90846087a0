// Reading a KDA checkpoint: a folder with config.json and safetensors files. Files are untrusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kdart/config.h"
#include "kdart/export.h"
#include "kdart/weights.h"

namespace kdart {

// One safetensors file, mapped read-only. Immutable after `open`, so any number of threads may read it.
class SafetensorsFile {
 public:
  struct Tensor {
    std::string dtype;                 // as the file spells it: "BF16", "F32", "U8", ..
    std::vector<std::uint64_t> shape;  // row-major
    std::span<const std::byte> data;   // into the mapping; no alignment is promised
  };

  // Maps `path` and checks the header: its length and JSON, each tensor's dtype, shape and offsets, that the tensors
  // cover the data section without overlap or gap. Throws Error: io_error (cannot open, read or map; names the path),
  // bad_checkpoint (names the file, the tensor, what was found and what was expected).
  [[nodiscard]] static KDART_API SafetensorsFile open(const std::filesystem::path& path);
  // The same over memory that the caller keeps alive; `name` stands for the path in messages.
  [[nodiscard]] static KDART_API SafetensorsFile from_memory(std::span<const std::byte> bytes, std::string name);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const std::map<std::string, Tensor, std::less<>>& tensors() const noexcept { return tensors_; }
  [[nodiscard]] const std::map<std::string, std::string, std::less<>>& metadata() const noexcept { return metadata_; }
  // Null when absent.
  [[nodiscard]] KDART_API const Tensor* find(std::string_view tensor) const noexcept;
  // Owns the mapping that every Tensor::data points into; null for from_memory.
  [[nodiscard]] const std::shared_ptr<const void>& mapping() const noexcept { return mapping_; }

 private:
  SafetensorsFile() = default;
  std::string name_;
  std::map<std::string, Tensor, std::less<>> tensors_;
  std::map<std::string, std::string, std::less<>> metadata_;
  std::shared_ptr<const void> mapping_;
};

// A model folder: config.json plus model.safetensors, or the shards that model.safetensors.index.json names.
// Immutable after `open`; copies share the mappings. Any number of threads may call `kda_layer`.
class Checkpoint {
 public:
  // Throws Error: io_error (a file that cannot be read), bad_checkpoint (see ModelConfig::parse, SafetensorsFile::open;
  // an index whose shard names are not plain file names, or that names a tensor its shard lacks).
  [[nodiscard]] static KDART_API Checkpoint open(const std::filesystem::path& folder);

  [[nodiscard]] const ModelConfig& config() const noexcept { return config_; }
  [[nodiscard]] const std::filesystem::path& folder() const noexcept { return folder_; }

  // The weights of layer N, the N of `layers.N` in tensor names. The result keeps the mapping alive. bf16 tensors are
  // views into the file; F32 conv and norm weights are rounded to bf16 (nearest even) into memory the result owns.
  // Throws Error: invalid_argument for a layer that config.json does not list as KDA (the message lists those it does),
  // bad_checkpoint for a missing, unknown (inside this layer's `self_attn.` only), quantised, mis-typed or mis-shaped
  // tensor, or an A_log tail that is not zero; unsupported for a head_dim that no kernel handles.
  [[nodiscard]] KDART_API KdaWeights kda_layer(std::uint32_t layer) const;

 private:
  Checkpoint() = default;
  std::filesystem::path folder_;
  ModelConfig config_;
  std::vector<SafetensorsFile> files_;
};

}  // namespace kdart
