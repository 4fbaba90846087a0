// Small checkpoints made by the tests, to be spoilt in one place each.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "kdart/weights.h"
#include "tools/reference/random_model.h"

namespace kdart::test {

// A folder of its own that goes away with the object.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "kdart-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make " + pattern);
    path_ = pattern;
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline void write_file(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
}
inline void write_file(const std::filesystem::path& path, std::string_view text) {
  write_file(path, std::as_bytes(std::span(text)));
}

template <typename T>
std::vector<std::byte> bytes_of(std::span<const T> values) {
  const auto bytes = std::as_bytes(values);
  return {bytes.begin(), bytes.end()};
}

struct MiniTensor {
  std::string name;
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::vector<std::byte> bytes;
};

// A header text and the data behind it as one safetensors file.
inline std::vector<std::byte> safetensors_file(const std::string& header, std::span<const std::byte> data) {
  std::vector<std::byte> file;
  for (std::size_t i = 0; i < 8; ++i) file.push_back(static_cast<std::byte>(header.size() >> (8 * i)));
  const auto text = std::as_bytes(std::span(header));
  file.insert(file.end(), text.begin(), text.end());
  file.insert(file.end(), data.begin(), data.end());
  return file;
}

// Tensors one after the other. `alignment` pads the header so that the data starts there; 1 leaves it as it falls.
inline std::vector<std::byte> safetensors_of(const std::vector<MiniTensor>& tensors,
                                             const std::map<std::string, std::string>& metadata = {},
                                             std::size_t alignment = 8) {
  nlohmann::json header = nlohmann::json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::vector<std::byte> data;
  for (const auto& t : tensors) {
    header[t.name] = {
        {"dtype", t.dtype}, {"shape", t.shape}, {"data_offsets", {data.size(), data.size() + t.bytes.size()}}};
    data.insert(data.end(), t.bytes.begin(), t.bytes.end());
  }
  std::string text = header.dump();
  while (text.size() % alignment != 0) text += ' ';
  return safetensors_file(text, data);
}

struct MiniModel {
  nlohmann::json config;
  std::vector<MiniTensor> tensors;
  std::string prefix;  // "model.layers.0.self_attn."

  // The tensor of this name behind the prefix.
  [[nodiscard]] MiniTensor& tensor(std::string_view name) {
    const auto found = std::find_if(tensors.begin(), tensors.end(),
                                    [&](const MiniTensor& t) { return t.name == prefix + std::string(name); });
    if (found == tensors.end()) throw std::logic_error("no such tensor: " + std::string(name));
    return *found;
  }
  void remove(std::string_view name) {
    const MiniTensor* found = &tensor(name);
    tensors.erase(tensors.begin() + (found - tensors.data()));
  }
  // config.json and model.safetensors.
  void write(const std::filesystem::path& folder, std::size_t alignment = 8) const {
    write_file(folder / "config.json", config.dump(1));
    write_file(folder / "model.safetensors", safetensors_of(tensors, {}, alignment));
  }
};

// A model of one KDA layer with these weights, as kimi_linear (or glm5_next for `lower_bound`) stores it.
inline MiniModel mini_model(const KdaWeights& w, const std::string& owner = "model", std::uint32_t layer = 0) {
  const KdaConfig& c = w.config;
  const bool glm = c.gate_law == GateLaw::lower_bound;
  MiniModel model;
  model.prefix = owner + ".layers." + std::to_string(layer) + ".self_attn.";
  nlohmann::json attention{{"head_dim", c.head_dim},
                           {"num_heads", c.heads},
                           {"short_conv_kernel_size", c.conv_kernel},
                           {"kda_layers", {layer + (glm ? 0U : 1U)}},
                           {"use_full_rank_gate", c.output_gate_rank == 0}};
  if (glm) attention["gate_lower_bound"] = c.gate_lower_bound;
  model.config = {{"model_type", glm ? "glm5_next" : "kimi_linear"},
                  {"hidden_size", c.hidden_size},
                  {"rms_norm_eps", c.rms_norm_eps},
                  {"num_hidden_layers", layer + 1},
                  {"linear_attn_config", attention}};
  const auto add = [&](const char* name, auto values, std::vector<std::uint64_t> shape) {
    if (values.empty()) return;
    const char* dtype = sizeof(values[0]) == 2 ? "BF16" : "F32";
    model.tensors.push_back({model.prefix + name, dtype, std::move(shape), bytes_of(values)});
  };
  const std::uint64_t hidden = c.hidden_size;
  const std::uint64_t qkv = c.qkv();
  const std::uint64_t rank = c.output_gate_rank;
  add("q_proj.weight", w.q_proj, {qkv, hidden});
  add("k_proj.weight", w.k_proj, {qkv, hidden});
  add("v_proj.weight", w.v_proj, {qkv, hidden});
  add("q_conv1d.weight", w.q_conv, {qkv, 1, 4});
  add("k_conv1d.weight", w.k_conv, {qkv, 1, 4});
  add("v_conv1d.weight", w.v_conv, {qkv, 1, 4});
  add("f_a_proj.weight", w.f_a_proj, {c.decay_rank, hidden});
  add("f_b_proj.weight", w.f_b_proj, {qkv, c.decay_rank});
  add("g_a_proj.weight", w.g_a_proj, {rank, hidden});
  add("g_b_proj.weight", w.g_b_proj, {qkv, rank});
  add("g_b_proj.bias", w.g_b_bias, {qkv});
  add("g_proj.weight", w.g_proj, {qkv, hidden});
  add("b_proj.weight", w.b_proj, {c.heads, hidden});
  add("A_log", w.a_log, {c.heads});
  add("dt_bias", w.dt_bias, {qkv});
  add("o_norm.weight", w.o_norm, {c.head_dim});
  add("o_proj.weight", w.o_proj, {hidden, qkv});
  return model;
}

// The smallest geometry with every tensor in it.
inline KdaConfig tiny_config() {
  KdaConfig config;
  config.hidden_size = 16;
  config.heads = 2;
  config.head_dim = 64;
  config.decay_rank = 8;
  config.output_gate_rank = 8;
  return config;
}

inline MiniModel tiny_model() {
  return mini_model(reference::random_weights(tiny_config(), 1));
}

}  // namespace kdart::test
