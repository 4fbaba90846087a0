#include "kdart/checkpoint.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <limits>

#include "tests/support/expect_error.h"
#include "tests/support/mini_model.h"
#include "tests/support/options.h"

namespace kdart {
namespace {

using nlohmann::json;
using test::expect_error;
using test::MiniModel;
using test::TempFolder;

template <typename T>
bool equal_bytes(std::span<const T> a, std::span<const T> b) {
  return std::ranges::equal(std::as_bytes(a), std::as_bytes(b));
}

bool equal(const KdaWeights& a, const KdaWeights& b) {
  return a.config == b.config && equal_bytes(a.q_proj, b.q_proj) && equal_bytes(a.k_proj, b.k_proj) &&
         equal_bytes(a.v_proj, b.v_proj) && equal_bytes(a.q_conv, b.q_conv) && equal_bytes(a.k_conv, b.k_conv) &&
         equal_bytes(a.v_conv, b.v_conv) && equal_bytes(a.f_a_proj, b.f_a_proj) &&
         equal_bytes(a.f_b_proj, b.f_b_proj) && equal_bytes(a.g_a_proj, b.g_a_proj) &&
         equal_bytes(a.g_b_proj, b.g_b_proj) && equal_bytes(a.g_b_bias, b.g_b_bias) &&
         equal_bytes(a.g_proj, b.g_proj) && equal_bytes(a.b_proj, b.b_proj) && equal_bytes(a.o_proj, b.o_proj) &&
         equal_bytes(a.o_norm, b.o_norm) && equal_bytes(a.a_log, b.a_log) && equal_bytes(a.dt_bias, b.dt_bias);
}

KdaWeights load(const MiniModel& model, std::uint32_t layer = 0, std::size_t alignment = 8) {
  const TempFolder folder;
  model.write(folder.path(), alignment);
  return Checkpoint::open(folder.path()).kda_layer(layer);  // the mapping outlives the folder and the checkpoint
}

// `spoil` changes one thing in a good model; reading the layer must then fail with these words.
template <typename Spoil>
void refused(std::initializer_list<std::string_view> parts, Spoil spoil) {
  MiniModel model = test::tiny_model();
  spoil(model);
  expect_error(ErrorCode::bad_checkpoint, parts, [&] { (void)load(model); });
}

void resize(test::MiniTensor& tensor, std::vector<std::uint64_t> shape) {
  std::uint64_t elements = 1;
  for (const auto extent : shape) elements *= extent;
  tensor.shape = std::move(shape);
  tensor.bytes.resize(elements * (tensor.dtype == "F32" ? 4 : 2));
}

TEST_CASE("checkpoint: a layer comes back as it was stored, under each of the three prefixes") {
  KdaConfig low = test::tiny_config();
  KdaConfig biased = low;
  biased.output_gate_bias = true;
  KdaConfig full = low;
  full.output_gate_rank = 0;
  full.gate_law = GateLaw::lower_bound;
  full.gate_lower_bound = -2.5F;
  for (const KdaConfig& config : {low, biased, full}) {
    const KdaWeights stored = reference::random_weights(config, 3);
    for (const char* prefix : {"model", "model.language_model", "language_model.model"}) {
      for (const std::uint32_t layer : {0U, 1U, 10U}) {
        INFO(prefix << " layer " << layer);
        const KdaWeights read = load(test::mini_model(stored, prefix, layer), layer);
        CHECK(equal(read, stored));
        CHECK_NOTHROW(read.validate());
      }
    }
  }
}

TEST_CASE("checkpoint: tensors at odd addresses are copied to aligned memory") {
  const KdaWeights stored = reference::random_weights(test::tiny_config(), 3);
  MiniModel model = test::mini_model(stored);
  model.tensors.insert(model.tensors.begin(), {"odd", "U8", {1}, {std::byte{0}}});
  for (const std::size_t pad : {8U, 1U}) {
    const KdaWeights read = load(model, 0, pad);
    CHECK(equal(read, stored));
    CHECK(reinterpret_cast<std::uintptr_t>(read.q_proj.data()) % alignof(bf16) == 0);
    CHECK(reinterpret_cast<std::uintptr_t>(read.dt_bias.data()) % alignof(float) == 0);
  }
}

TEST_CASE("checkpoint: aligned bf16 tensors are views into the file") {
  const TempFolder folder;
  test::tiny_model().write(folder.path());
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  CHECK(checkpoint.kda_layer(0).q_proj.data() == checkpoint.kda_layer(0).q_proj.data());
  CHECK(checkpoint.folder() == folder.path());
  CHECK(checkpoint.config().heads == 2);
}

TEST_CASE("checkpoint: F32 conv and norm weights are rounded to nearest even") {
  MiniModel model = test::tiny_model();
  for (const char* name : {"q_conv1d.weight", "k_conv1d.weight", "v_conv1d.weight", "o_norm.weight"}) {
    auto& tensor = model.tensor(name);
    std::vector<float> values(tensor.bytes.size() / 2);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = 1.0F + static_cast<float>(i % 7) * 0x1p-8F;  // with ties
    tensor.dtype = "F32";
    tensor.bytes = test::bytes_of(std::span<const float>(values));
  }
  const KdaWeights read = load(model);
  for (const auto span : {read.q_conv, read.k_conv, read.v_conv, read.o_norm}) {
    bool right = true;
    for (std::size_t i = 0; i < span.size(); ++i) {
      right = right && span[i] == to_bf16(1.0F + static_cast<float>(i % 7) * 0x1p-8F);
    }
    CHECK(right);
  }
}

TEST_CASE("checkpoint: A_log in each of its forms") {
  const KdaWeights stored = reference::random_weights(test::tiny_config(), 1);
  for (const auto& shape : std::vector<std::vector<std::uint64_t>>{{2}, {1, 1, 2, 1}, {5}, {128}, {1, 1, 3, 1}}) {
    MiniModel model = test::mini_model(stored);
    resize(model.tensor("A_log"), shape);  // a tail of zeros
    CHECK(equal_bytes(load(model).a_log, stored.a_log));
  }
  MiniModel negative = test::mini_model(stored);
  resize(negative.tensor("A_log"), {3});
  negative.tensor("A_log").bytes[11] = std::byte{0x80};  // -0 is zero
  CHECK(equal_bytes(load(negative).a_log, stored.a_log));

  refused({"A_log", "[1]", "expected [2]"}, [](MiniModel& m) { resize(m.tensor("A_log"), {1}); });
  refused({"A_log", "[2, 1]"}, [](MiniModel& m) { resize(m.tensor("A_log"), {2, 1}); });
  refused({"A_log", "[1, 1, 1, 2]"}, [](MiniModel& m) { resize(m.tensor("A_log"), {1, 1, 1, 2}); });
  for (const int last : {0x01, 0x7F}) {  // a denormal, a NaN
    refused({"A_log", "element 3", "2 heads"}, [&](MiniModel& m) {
      resize(m.tensor("A_log"), {4});
      m.tensor("A_log").bytes[12] = std::byte{1};
      m.tensor("A_log").bytes[14] = std::byte{0x80};
      m.tensor("A_log").bytes[15] = static_cast<std::byte>(last);
    });
  }
}

TEST_CASE("checkpoint: each tensor that is missing is named") {
  for (const char* name : {"q_proj.weight", "k_proj.weight", "v_proj.weight", "q_conv1d.weight", "k_conv1d.weight",
                           "v_conv1d.weight", "f_a_proj.weight", "f_b_proj.weight", "g_a_proj.weight",
                           "g_b_proj.weight", "b_proj.weight", "A_log", "dt_bias", "o_norm.weight", "o_proj.weight"}) {
    refused({"'model.layers.0.self_attn." + std::string(name) + "'", "missing"}, [&](MiniModel& m) { m.remove(name); });
  }
}

TEST_CASE("checkpoint: each tensor of a wrong shape is named with both shapes") {
  for (const char* name : {"q_proj.weight", "k_proj.weight", "v_proj.weight", "q_conv1d.weight", "k_conv1d.weight",
                           "v_conv1d.weight", "f_a_proj.weight", "f_b_proj.weight", "g_a_proj.weight",
                           "g_b_proj.weight", "b_proj.weight", "dt_bias", "o_norm.weight", "o_proj.weight"}) {
    INFO(name);
    refused({"model.safetensors", name, "its shape is [7", "expected ["}, [&](MiniModel& m) {
      auto shape = m.tensor(name).shape;
      shape[0] = 7;
      // A rank of 7 would be a geometry of its own; its other axis is what the model fixes.
      if (std::string_view(name).find("_a_") != std::string_view::npos) shape[1] = 24;
      resize(m.tensor(name), shape);
    });
  }
  refused({"q_conv1d.weight", "[128, 4]", "expected [128, 1, 4]"},
          [](MiniModel& m) { resize(m.tensor("q_conv1d.weight"), {128, 4}); });
  refused({"f_a_proj.weight", "[128]", "expected [rank, 16]"},
          [](MiniModel& m) { resize(m.tensor("f_a_proj.weight"), {128}); });
  refused({"f_a_proj.weight", "[0, 16]"}, [](MiniModel& m) { resize(m.tensor("f_a_proj.weight"), {0, 16}); });
}

TEST_CASE("checkpoint: each tensor of a wrong dtype is named with both dtypes") {
  for (const char* name : {"q_proj.weight", "f_b_proj.weight", "b_proj.weight", "o_proj.weight", "q_conv1d.weight"}) {
    refused({name, "its dtype is F16", "expected BF16"}, [&](MiniModel& m) { m.tensor(name).dtype = "F16"; });
  }
  for (const char* name : {"q_proj.weight", "g_a_proj.weight"}) {  // only conv and norm weights may be F32
    refused({name, "its dtype is F32", "expected BF16"}, [&](MiniModel& m) {
      m.tensor(name).dtype = "F32";
      m.tensor(name).bytes.resize(m.tensor(name).bytes.size() * 2);
    });
  }
  for (const char* name : {"A_log", "dt_bias"}) {
    refused({name, "its dtype is BF16", "expected F32"}, [&](MiniModel& m) {
      m.tensor(name).dtype = "BF16";
      m.tensor(name).bytes.resize(m.tensor(name).bytes.size() / 2);
    });
  }
}

TEST_CASE("checkpoint: a quantised layer is called that") {
  for (const char* name :
       {"q_proj.weight_scale", "q_proj.weight_scale_inv", "q_proj.weight_packed", "q_proj.qweight", "q_proj.qzeros",
        "q_proj.scales", "q_proj.g_idx", "o_proj.input_scale", "q_proj.weight_zero_point", "q_proj.weight.absmax"}) {
    refused({"quantised", name},
            [&](MiniModel& m) { m.tensors.push_back({m.prefix + name, "F32", {1}, std::vector<std::byte>(4)}); });
  }
  for (const char* dtype : {"F8_E4M3", "F8_E5M2", "I8", "U8"}) {
    refused({"quantised", "v_proj.weight", dtype}, [&](MiniModel& m) {
      m.tensor("v_proj.weight").dtype = dtype;
      m.tensor("v_proj.weight").bytes.resize(m.tensor("v_proj.weight").bytes.size() / 2);
    });
  }
  refused({"quantised", "k_proj.weight_packed"}, [](MiniModel& m) {  // the weight itself is gone, too
    m.tensor("k_proj.weight").name = m.prefix + "k_proj.weight_packed";
    m.tensor("k_proj.weight_packed").dtype = "I32";
    resize(m.tensor("k_proj.weight_packed"), {128, 8});
    m.tensor("k_proj.weight_packed").bytes.resize(128 * 8 * 4);
  });
}

TEST_CASE("checkpoint: an unknown tensor is refused inside the layer's self_attn, ignored elsewhere") {
  refused({"'model.layers.0.self_attn.rotary.inv_freq'", "unknown", "q_proj.weight"}, [](MiniModel& m) {
    m.tensors.push_back({m.prefix + "rotary.inv_freq", "F32", {1}, std::vector<std::byte>(4)});
  });
  MiniModel model = test::tiny_model();
  for (const char* name :
       {"model.layers.0.mlp.weight", "model.layers.1.self_attn.whatever", "model.layers.00.self_attn.x",
        "lm_head.weight", "visual.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attnx"}) {
    model.tensors.push_back({name, "F8_E4M3", {4}, std::vector<std::byte>(4)});
  }
  CHECK(equal(load(model), reference::random_weights(test::tiny_config(), 1)));
}

TEST_CASE("checkpoint: the gate's tensors must suit use_full_rank_gate") {
  refused({"g_a_proj.weight", "use_full_rank_gate is true"},
          [](MiniModel& m) { m.config["linear_attn_config"]["use_full_rank_gate"] = true; });
  refused({"g_proj.weight", "use_full_rank_gate is false"}, [](MiniModel& m) {
    m.tensors.push_back({m.prefix + "g_proj.weight", "BF16", {128, 16}, std::vector<std::byte>(128 * 16 * 2)});
  });
  refused({"g_b_proj.bias", "[64]", "expected [128]"}, [](MiniModel& m) {
    m.tensors.push_back({m.prefix + "g_b_proj.bias", "BF16", {64}, std::vector<std::byte>(128)});
  });
}

TEST_CASE("checkpoint: exactly one prefix may own the layer") {
  refused({"layer 0", "'model.layers.0.self_attn.'", "'language_model.model.layers.0.self_attn.'"}, [](MiniModel& m) {
    m.tensors.push_back({"language_model.model.layers.0.self_attn.A_log", "F32", {2}, std::vector<std::byte>(8)});
  });
  refused({"layer 0 has no tensors", "model, model.language_model, language_model.model"}, [](MiniModel& m) {
    for (auto& tensor : m.tensors) tensor.name = "transformer." + tensor.name;
  });
}

TEST_CASE("checkpoint: a layer that is not KDA is refused with those that are") {
  MiniModel model = test::tiny_model();
  model.config["num_hidden_layers"] = 27;
  model.config["linear_attn_config"]["kda_layers"] = {1, 2, 3, 5, 6, 9};
  for (const std::uint32_t layer : {3U, 26U, 27U, 4'000'000'000U}) {
    expect_error(ErrorCode::invalid_argument, {"layer " + std::to_string(layer), "0-2, 4-5, 8"},
                 [&] { (void)load(model, layer); });
  }
  expect_error(ErrorCode::bad_checkpoint, {"layer 1 has no tensors"}, [&] { (void)load(model, 1); });
}

TEST_CASE("checkpoint: a head_dim that no kernel handles is unsupported, whatever the tensors are") {
  for (const std::uint32_t dim : {96U, 32U, 256U}) {
    MiniModel model = test::tiny_model();
    model.config["linear_attn_config"]["head_dim"] = dim;
    expect_error(ErrorCode::unsupported, {"head_dim " + std::to_string(dim)}, [&] { (void)load(model); });
  }
  MiniModel model = test::tiny_model();
  model.config["linear_attn_config"]["short_conv_kernel_size"] = 3;
  expect_error(ErrorCode::unsupported, {"3 taps"}, [&] { (void)load(model); });
}

TEST_CASE("checkpoint: sizes whose product overflows are refused before a tensor is looked at") {
  MiniModel model = test::tiny_model();
  model.config["linear_attn_config"]["num_heads"] = 1U << 26;  // x 64 = 2^32
  expect_error(ErrorCode::invalid_argument, {"heads x head_dim"}, [&] { (void)load(model); });
}

// --- folders -------------------------------------------------------------------------------------------------------

// The tiny model over two shards with an index.
struct Sharded {
  MiniModel model = test::tiny_model();
  json index{{"metadata", {{"total_size", 1}}}, {"weight_map", json::object()}};

  void write(const std::filesystem::path& folder) {
    std::vector<test::MiniTensor> parts[2];
    for (std::size_t i = 0; i < model.tensors.size(); ++i) parts[i % 2].push_back(model.tensors[i]);
    test::write_file(folder / "config.json", model.config.dump());
    for (std::size_t i = 0; i < 2; ++i) {
      const std::string name = "model-0000" + std::to_string(i + 1) + "-of-00002.safetensors";
      test::write_file(folder / name, test::safetensors_of(parts[i]));
      for (const auto& tensor : parts[i]) {
        if (!index["weight_map"].contains(tensor.name)) index["weight_map"][tensor.name] = name;
      }
    }
    test::write_file(folder / "model.safetensors.index.json", index.dump());
  }
};

TEST_CASE("checkpoint: shards are found through the index") {
  const TempFolder folder;
  Sharded sharded;
  sharded.write(folder.path());
  CHECK(equal(Checkpoint::open(folder.path()).kda_layer(0), reference::random_weights(test::tiny_config(), 1)));
}

TEST_CASE("checkpoint: an index may only name plain files beside it") {
  for (const char* name : {"../model.safetensors", "/etc/passwd", "a/b.safetensors", "..", ".", "", "a\\b"}) {
    INFO(name);
    const TempFolder folder;
    Sharded sharded;
    sharded.index["weight_map"]["x"] = name;
    sharded.write(folder.path());
    expect_error(ErrorCode::bad_checkpoint, {"index.json", "'x'", "plain file name"},
                 [&] { (void)Checkpoint::open(folder.path()); });
  }
  const TempFolder folder;
  Sharded sharded;
  sharded.index["weight_map"]["x"] = std::string("a\0b", 3);
  sharded.write(folder.path());
  expect_error(ErrorCode::bad_checkpoint, {"plain file name"}, [&] { (void)Checkpoint::open(folder.path()); });
}

TEST_CASE("checkpoint: an index that lies is refused") {
  {
    const TempFolder folder;
    Sharded sharded;
    sharded.index["weight_map"]["model.norm.weight"] = "model-00001-of-00002.safetensors";
    sharded.write(folder.path());
    expect_error(ErrorCode::bad_checkpoint, {"'model.norm.weight'", "does not have it"},
                 [&] { (void)Checkpoint::open(folder.path()); });
  }
  {
    const TempFolder folder;
    Sharded sharded;
    sharded.index["weight_map"]["x"] = "model-00003.safetensors";
    sharded.write(folder.path());
    expect_error(ErrorCode::io_error, {"model-00003.safetensors"}, [&] { (void)Checkpoint::open(folder.path()); });
  }
  for (const json& bad : {json::array(), json{{"weight_map", 3}}, json{{"weight_map", json::object()}}, json::object(),
                          json{{"weight_map", {{"x", 3}}}}}) {
    const TempFolder folder;
    test::tiny_model().write(folder.path());
    std::filesystem::remove(folder.path() / "model.safetensors");
    test::write_file(folder.path() / "model.safetensors.index.json", bad.dump());
    expect_error(ErrorCode::bad_checkpoint, {"model.safetensors.index.json"},
                 [&] { (void)Checkpoint::open(folder.path()); });
  }
}

TEST_CASE("checkpoint: a tensor in two shards is refused") {
  const TempFolder folder;
  Sharded sharded;
  sharded.write(folder.path());
  test::write_file(folder.path() / "model-00001-of-00002.safetensors", test::safetensors_of(sharded.model.tensors));
  expect_error(ErrorCode::bad_checkpoint, {"in two files", "model-00001", "model-00002"},
               [&] { (void)Checkpoint::open(folder.path()).kda_layer(0); });
}

TEST_CASE("checkpoint: a folder that lacks something says what") {
  const TempFolder folder;
  expect_error(ErrorCode::io_error, {"config.json", "No such file"}, [&] { (void)Checkpoint::open(folder.path()); });
  test::write_file(folder.path() / "config.json", test::tiny_model().config.dump());
  expect_error(ErrorCode::io_error, {folder.path().string(), "model.safetensors", "model.safetensors.index.json"},
               [&] { (void)Checkpoint::open(folder.path()); });
  expect_error(ErrorCode::io_error, {"/nonexistent"}, [] { (void)Checkpoint::open("/nonexistent"); });
  std::filesystem::create_directory(folder.path() / "model.safetensors");
  expect_error(ErrorCode::io_error, {"not a regular file"}, [&] { (void)Checkpoint::open(folder.path()); });
}

TEST_CASE("checkpoint: every golden model's layer is read") {
  std::size_t read = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test::test_data() / "golden")) {
    const Checkpoint checkpoint = Checkpoint::open(entry.path());
    const KdaWeights w = checkpoint.kda_layer(0);
    INFO(entry.path());
    CHECK(w.config.hidden_size == checkpoint.config().hidden_size);
    CHECK((w.config.output_gate_rank == 0) == checkpoint.config().full_rank_gate);
    CHECK((w.config.gate_law == GateLaw::lower_bound) == checkpoint.config().gate_lower_bound.has_value());
    CHECK(w.a_log.size() == w.config.heads);
    ++read;
  }
  CHECK(read == 7);
}

}  // namespace
}  // namespace kdart
