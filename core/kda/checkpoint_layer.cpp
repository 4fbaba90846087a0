// One layer's weights out of the checkpoint's files: finds the layer's tensors, settles the geometry, checks every
// dtype and shape, and copies only what is misaligned or must be rounded.
#include "core/kda/checkpoint_layer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <limits>

#include "core/runtime/format.h"
#include "core/runtime/messages.h"
#include "kdart/error.h"

namespace kdart::detail {
namespace {

using Shape = std::vector<std::uint64_t>;

constexpr std::array<std::string_view, 3> prefixes{"model", "model.language_model", "language_model.model"};
constexpr std::array<std::string_view, 17> tensor_names{
    "q_proj.weight",   "k_proj.weight",   "v_proj.weight",   "q_conv1d.weight", "k_conv1d.weight", "v_conv1d.weight",
    "f_a_proj.weight", "f_b_proj.weight", "g_a_proj.weight", "g_b_proj.weight", "g_b_proj.bias",   "g_proj.weight",
    "b_proj.weight",   "o_proj.weight",   "o_norm.weight",   "A_log",           "dt_bias"};

// Endings under which quantisers store what belongs to a packed weight.
constexpr std::array<std::string_view, 15> quantised_endings{
    "_scale", "_scale_inv", "_scale_2", "scales", "_packed",       "_zero_point", "_global_scale", "qweight",
    "qzeros", "g_idx",      "absmax",   "SCB",    "weight_format", "_shape",      "quant_map"};

struct Located {
  const SafetensorsFile* file;
  const SafetensorsFile::Tensor* tensor;
};
using Tensors = std::map<std::string, Located, std::less<>>;

// What the result owns: the mappings, and the tensors that could not be used in place.
struct Storage {
  std::vector<std::shared_ptr<const void>> mappings;
  std::deque<std::vector<bf16>> halves;
  std::deque<std::vector<float>> floats;
};

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::bad_checkpoint, message);
}

Tensors tensors_under(std::span<const SafetensorsFile> files, const std::string& prefix) {
  Tensors found;
  for (const auto& file : files) {
    for (auto it = file.tensors().lower_bound(prefix); it != file.tensors().end() && it->first.starts_with(prefix);
         ++it) {
      const auto [entry, inserted] = found.emplace(it->first.substr(prefix.size()), Located{&file, &it->second});
      if (!inserted) {
        refuse(detail::format("tensor {} is in two files, {} and {}", quote(it->first),
                              printable(entry->second.file->name()), printable(file.name())));
      }
    }
  }
  return found;
}

// The layer's tensors, and the prefix that owns them. Two owners would be two models in one folder.
struct Owner {
  std::string prefix;
  Tensors tensors;
};

Owner owner_of(std::span<const SafetensorsFile> files, std::uint32_t layer) {
  Owner owner;
  for (const auto prefix : prefixes) {
    const auto full = detail::format("{}.layers.{}.self_attn.", prefix, layer);
    Tensors tensors = tensors_under(files, full);
    if (tensors.empty()) continue;
    if (!owner.tensors.empty()) {
      refuse(detail::format("layer {} has tensors under both {} and {}; expected one of the two", layer,
                            quote(owner.prefix), quote(full)));
    }
    owner = {full, std::move(tensors)};
  }
  if (owner.tensors.empty()) {
    refuse(detail::format("layer {} has no tensors: nothing is named P.layers.{}.self_attn.* with P one of {}", layer,
                          layer, fmt::join(prefixes, ", ")));
  }
  return owner;
}

bool looks_quantised(std::string_view name, const SafetensorsFile::Tensor& tensor) {
  const auto ends = [&](std::string_view ending) { return name.ends_with(ending); };
  if (std::any_of(quantised_endings.begin(), quantised_endings.end(), ends)) return true;
  // No tensor of this layer is stored in these dtypes unless it is packed.
  return tensor.dtype.starts_with("F8_") || tensor.dtype.starts_with("F6_") || tensor.dtype == "F4" ||
         tensor.dtype == "U8" || tensor.dtype == "I8" || tensor.dtype == "I16" || tensor.dtype == "U16" ||
         tensor.dtype == "I32" || tensor.dtype == "U32" || tensor.dtype == "I64" || tensor.dtype == "U64";
}

class LayerReader {
 public:
  LayerReader(const ModelConfig& model, Owner owner)
      : model_(model), owner_(std::move(owner)), storage_(std::make_shared<Storage>()) {}

  KdaWeights read(std::span<const SafetensorsFile> files) {
    check_names();
    KdaWeights w;
    w.config = geometry();
    const KdaConfig& c = w.config;
    const std::uint64_t hidden = c.hidden_size;
    const std::uint64_t qkv = c.qkv();
    w.q_proj = matrix("q_proj.weight", {qkv, hidden});
    w.k_proj = matrix("k_proj.weight", {qkv, hidden});
    w.v_proj = matrix("v_proj.weight", {qkv, hidden});
    w.q_conv = rounded("q_conv1d.weight", {qkv, 1, c.conv_kernel});
    w.k_conv = rounded("k_conv1d.weight", {qkv, 1, c.conv_kernel});
    w.v_conv = rounded("v_conv1d.weight", {qkv, 1, c.conv_kernel});
    w.f_a_proj = matrix("f_a_proj.weight", {c.decay_rank, hidden});
    w.f_b_proj = matrix("f_b_proj.weight", {qkv, c.decay_rank});
    if (c.output_gate_rank == 0) {
      w.g_proj = matrix("g_proj.weight", {qkv, hidden});
    } else {
      w.g_a_proj = matrix("g_a_proj.weight", {c.output_gate_rank, hidden});
      w.g_b_proj = matrix("g_b_proj.weight", {qkv, c.output_gate_rank});
      if (c.output_gate_bias) w.g_b_bias = matrix("g_b_proj.bias", {qkv});
    }
    w.b_proj = matrix("b_proj.weight", {c.heads, hidden});
    w.o_proj = matrix("o_proj.weight", {hidden, qkv});
    w.o_norm = rounded("o_norm.weight", {c.head_dim});
    w.a_log = decay_scales(c.heads);
    w.dt_bias = floats("dt_bias", {qkv});
    for (const auto& file : files) storage_->mappings.push_back(file.mapping());
    w.keep_alive = storage_;
    w.validate();
    return w;
  }

 private:
  [[noreturn]] void refuse_tensor(std::string_view name, const std::string& what) const {
    const Located* located = find(name);
    refuse(detail::format("{}tensor {}: {}", located == nullptr ? "" : printable(located->file->name()) + ": ",
                          quote(owner_.prefix + std::string(name)), what));
  }
  [[nodiscard]] const Located* find(std::string_view name) const {
    const auto found = owner_.tensors.find(name);
    return found == owner_.tensors.end() ? nullptr : &found->second;
  }
  [[nodiscard]] const SafetensorsFile::Tensor& required(std::string_view name) const {
    const Located* located = find(name);
    if (located == nullptr) refuse_tensor(name, "is missing");
    return *located->tensor;
  }

  // Before anything else: a quantised layer also lacks and adds tensors, and "quantised" is the message that helps.
  void check_names() const {
    for (const auto& [name, located] : owner_.tensors) {
      if (looks_quantised(name, *located.tensor)) {
        refuse_tensor(name,
                      detail::format("the layer is quantised ({} {}); expected BF16 weights and nothing beside them",
                                     located.tensor->dtype, shape_text(located.tensor->shape)));
      }
    }
    for (const auto& [name, located] : owner_.tensors) {
      if (std::find(tensor_names.begin(), tensor_names.end(), name) == tensor_names.end()) {
        refuse_tensor(name, detail::format("is unknown; a KDA layer has {}", fmt::join(tensor_names, ", ")));
      }
      const bool low_rank_name = name.starts_with("g_a_proj.") || name.starts_with("g_b_proj.");
      if (model_.full_rank_gate ? low_rank_name : name == "g_proj.weight") {
        refuse_tensor(
            name, detail::format("does not belong to a model whose use_full_rank_gate is {}", model_.full_rank_gate));
      }
    }
  }

  // The rows of a low-rank projection's first matrix.
  [[nodiscard]] std::uint32_t rank_of(std::string_view name) const {
    const auto& tensor = required(name);
    if (tensor.shape.size() != 2 || tensor.shape[0] == 0 ||
        tensor.shape[0] > std::numeric_limits<std::uint32_t>::max()) {
      refuse_tensor(
          name, detail::format("its shape is {}; expected [rank, {}]", shape_text(tensor.shape), model_.hidden_size));
    }
    return static_cast<std::uint32_t>(tensor.shape[0]);
  }

  // What config.json fixes comes first, so that a head_dim no kernel handles is named before any tensor is.
  [[nodiscard]] KdaConfig geometry() const {
    KdaConfig c;
    c.hidden_size = model_.hidden_size;
    c.heads = model_.heads;
    c.head_dim = model_.head_dim;
    c.conv_kernel = model_.conv_kernel;
    c.rms_norm_eps = model_.rms_norm_eps;
    c.decay_rank = 8;  // stands in until f_a_proj has been looked at
    if (model_.gate_lower_bound) {
      c.gate_law = GateLaw::lower_bound;
      c.gate_lower_bound = *model_.gate_lower_bound;
    }
    c.validate();
    c.decay_rank = rank_of("f_a_proj.weight");
    if (!model_.full_rank_gate) {
      c.output_gate_rank = rank_of("g_a_proj.weight");
      c.output_gate_bias = find("g_b_proj.bias") != nullptr;
    }
    return c;
  }

  const SafetensorsFile::Tensor& checked(std::string_view name, const Shape& shape,
                                         std::initializer_list<std::string_view> dtypes) const {
    const auto& tensor = required(name);
    if (std::find(dtypes.begin(), dtypes.end(), tensor.dtype) == dtypes.end()) {
      refuse_tensor(name, detail::format("its dtype is {}; expected {}", tensor.dtype, fmt::join(dtypes, " or ")));
    }
    if (tensor.shape != shape) {
      refuse_tensor(name, detail::format("its shape is {}; expected {}", shape_text(tensor.shape), shape_text(shape)));
    }
    return tensor;
  }

  // The tensor's elements in place where the file aligns them, else a copy.
  template <typename T>
  std::span<const T> view(const SafetensorsFile::Tensor& tensor, std::deque<std::vector<T>>& copies) {
    const std::size_t count = tensor.data.size() / sizeof(T);
    if (reinterpret_cast<std::uintptr_t>(tensor.data.data()) % alignof(T) == 0) {
      return {reinterpret_cast<const T*>(tensor.data.data()), count};
    }
    auto& copy = copies.emplace_back(count);
    std::memcpy(copy.data(), tensor.data.data(), count * sizeof(T));
    return copy;
  }

  std::span<const bf16> matrix(std::string_view name, const Shape& shape) {
    return view(checked(name, shape, {"BF16"}), storage_->halves);
  }

  std::span<const float> floats(std::string_view name, const Shape& shape) {
    return view(checked(name, shape, {"F32"}), storage_->floats);
  }

  // BF16, or F32 that is rounded to it.
  std::span<const bf16> rounded(std::string_view name, const Shape& shape) {
    const auto& tensor = checked(name, shape, {"BF16", "F32"});
    if (tensor.dtype == "BF16") return view(tensor, storage_->halves);
    auto& copy = storage_->halves.emplace_back(tensor.data.size() / sizeof(float));
    for (std::size_t i = 0; i < copy.size(); ++i) {
      float value = 0.0F;
      std::memcpy(&value, tensor.data.data() + i * sizeof(float), sizeof(float));
      copy[i] = to_bf16(value);
    }
    return copy;
  }

  // A_log: [n] or [1, 1, n, 1] with n >= heads; what lies past the heads is padding and must be zero.
  std::span<const float> decay_scales(std::uint32_t heads) {
    constexpr std::string_view name = "A_log";
    const auto& shape = required(name).shape;
    const bool nested = shape.size() == 4 && shape[0] == 1 && shape[1] == 1 && shape[3] == 1;
    const std::uint64_t length = nested ? shape[2] : (shape.size() == 1 ? shape[0] : 0);
    if (length < heads) {
      refuse_tensor(name, detail::format("its shape is {}; expected [{}], [1, 1, {}, 1], or more with a tail of zeros",
                                         shape_text(shape), heads, heads));
    }
    const auto values = floats(name, shape);
    for (std::size_t i = heads; i < values.size(); ++i) {
      if (values[i] != 0.0F) {
        refuse_tensor(
            name, detail::format("element {} is {}; expected 0 in the tail past the {} heads", i, values[i], heads));
      }
    }
    return values.first(heads);
  }

  const ModelConfig& model_;
  Owner owner_;
  std::shared_ptr<Storage> storage_;
};

}  // namespace

KdaWeights layer_weights(const ModelConfig& model, std::span<const SafetensorsFile> files, std::uint32_t layer) {
  if (!std::binary_search(model.kda_layers.begin(), model.kda_layers.end(), layer)) {
    throw Error(ErrorCode::invalid_argument,
                detail::format("layer {} is not a KDA layer of this model; its KDA layers are {}", layer,
                               ranges_text(model.kda_layers)));
  }
  return LayerReader(model, owner_of(files, layer)).read(files);
}

}  // namespace kdart::detail
