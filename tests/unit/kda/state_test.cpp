#include "kdart/state.h"

#include <algorithm>
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <limits>
#include <span>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/layer_runner.h"
#include "tests/support/models.h"
#include "tools/reference/random_model.h"

namespace kdart::test {
namespace {

// Names an element by where it is, exactly representable in bf16 for the sizes here only up to 256: so by its bits.
std::vector<float> numbered(std::size_t count) {
  std::vector<float> result(count);
  for (std::size_t i = 0; i < count; ++i) result[i] = static_cast<float>(i + 1);
  return result;
}

template <class T>
std::vector<T> narrowed(const std::vector<float>& source) {
  std::vector<T> result(source.size());
  std::transform(source.begin(), source.end(), result.begin(), [](float x) { return to_bf16(x); });
  return result;
}

std::vector<float> recurrent_on_device(const KdaState& state) {
  return download<float>(*state.backend(), state.recurrent(), state.config().recurrent_elements());
}
std::vector<float> conv_on_device(const KdaState& state) {
  return download<float>(*state.backend(), state.conv(), state.config().conv_elements());
}

}  // namespace

TEST_CASE("a new state is all zero", "[kda][state]") {
  const KdaConfig config = softplus_layer();
  const auto device = open_test_device();
  {
    // What the allocator gives out next is likely to be this memory.
    const Buffer dirt(device, KdaState::recurrent_bytes(config));
    const std::vector<std::uint8_t> pattern(dirt.bytes(), 0xA5);
    device->copy_h2d(dirt.get(), pattern.data(), pattern.size());
  }
  const KdaState state(device, config);
  CHECK(recurrent_on_device(state) == std::vector<float>(config.recurrent_elements(), 0.0F));
  CHECK(conv_on_device(state) == std::vector<float>(config.conv_elements(), 0.0F));
  CHECK(state.config() == config);
  CHECK(state.backend() == device);
}

TEST_CASE("zero puts a state back to the start, in its stream", "[kda][state]") {
  const KdaConfig config = softplus_layer();
  const auto device = open_test_device();
  KdaState state(device, config);
  state.import_recurrent(std::span<const float>(numbered(config.recurrent_elements())));
  state.import_conv(std::span<const float>(numbered(config.conv_elements())));
  const OwnedStream stream(device);
  state.zero(stream.get());
  device->synchronize(stream.get());
  CHECK(recurrent_on_device(state) == std::vector<float>(config.recurrent_elements(), 0.0F));
  CHECK(conv_on_device(state) == std::vector<float>(config.conv_elements(), 0.0F));
}

TEST_CASE("sizes are those of the documented layouts", "[kda][state]") {
  const KdaConfig config = lower_bound_layer();  // 3 heads of 64
  CHECK(KdaState::recurrent_bytes(config) == 3ULL * 64 * 64 * 4);
  CHECK(KdaState::conv_bytes(config) == 3ULL * 3 * 64 * 4 * 4);
  KdaConfig large = config;  // beyond 32 bits
  large.heads = 1U << 20;
  CHECK(KdaState::recurrent_bytes(large) == (1ULL << 20) * 64 * 64 * 4);
}

TEST_CASE("recurrent states come and go in either layout and either type", "[kda][state]") {
  const KdaConfig config = lower_bound_layer();
  const std::size_t d = config.head_dim;
  KdaState state(open_test_device(), config);
  const std::vector<float> ours = reference::random_recurrent(config, 5);
  std::vector<float> value_major(ours.size());
  for (std::size_t h = 0; h < config.heads; ++h) {
    for (std::size_t k = 0; k < d; ++k) {
      for (std::size_t v = 0; v < d; ++v) value_major[(h * d + v) * d + k] = ours[(h * d + k) * d + v];
    }
  }
  REQUIRE(ours != value_major);
  std::vector<float> found(ours.size());
  std::vector<bf16> found_bf16(ours.size());

  state.import_recurrent(std::span<const float>(ours));
  CHECK(recurrent_on_device(state) == ours);
  state.export_recurrent(std::span<float>(found));
  CHECK(found == ours);
  state.export_recurrent(std::span<float>(found), StateLayout::value_major);
  CHECK(found == value_major);
  state.export_recurrent(std::span<bf16>(found_bf16));
  CHECK(found_bf16 == narrowed<bf16>(ours));
  state.export_recurrent(std::span<bf16>(found_bf16), StateLayout::value_major);
  CHECK(found_bf16 == narrowed<bf16>(value_major));

  const OwnedStream stream(state.backend());
  const auto clear = [&] {
    state.zero(stream.get());
    state.backend()->synchronize(stream.get());
  };
  clear();
  state.import_recurrent(std::span<const float>(value_major), StateLayout::value_major);
  CHECK(recurrent_on_device(state) == ours);
  std::vector<float> widened(ours.size());
  std::transform(ours.begin(), ours.end(), widened.begin(), [](float x) { return to_float(to_bf16(x)); });
  clear();
  state.import_recurrent(std::span<const bf16>(narrowed<bf16>(ours)));
  CHECK(recurrent_on_device(state) == widened);
  clear();
  state.import_recurrent(std::span<const bf16>(narrowed<bf16>(value_major)), StateLayout::value_major);
  CHECK(recurrent_on_device(state) == widened);
}

TEST_CASE("windows come and go with 4 slots or 3, in either type, slot 0 always 0", "[kda][state]") {
  const KdaConfig config = softplus_layer();
  const std::size_t channels = config.conv_channels();
  KdaState state(open_test_device(), config);
  const std::vector<float> three = numbered(channels * 3);
  std::vector<float> four(channels * 4);
  std::vector<float> four_dirty(channels * 4, -1.0F);  // an engine's slot 0 holds something stale
  for (std::size_t c = 0; c < channels; ++c) {
    for (std::size_t s = 0; s < 3; ++s) four[c * 4 + s + 1] = four_dirty[c * 4 + s + 1] = three[c * 3 + s];
  }
  std::vector<float> found_four(four.size());
  std::vector<float> found_three(three.size());
  std::vector<bf16> found_four_bf16(four.size());
  std::vector<bf16> found_three_bf16(three.size());

  state.import_conv(std::span<const float>(three), ConvLayout::three_slots);
  CHECK(conv_on_device(state) == four);
  state.import_conv(std::span<const float>(four_dirty));
  CHECK(conv_on_device(state) == four);
  state.export_conv(std::span<float>(found_four));
  CHECK(found_four == four);
  state.export_conv(std::span<float>(found_three), ConvLayout::three_slots);
  CHECK(found_three == three);
  state.export_conv(std::span<bf16>(found_four_bf16));
  CHECK(found_four_bf16 == narrowed<bf16>(four));
  state.export_conv(std::span<bf16>(found_three_bf16), ConvLayout::three_slots);
  CHECK(found_three_bf16 == narrowed<bf16>(three));

  std::vector<float> widened(four.size());
  std::transform(four.begin(), four.end(), widened.begin(), [](float x) { return to_float(to_bf16(x)); });
  state.import_conv(std::span<const bf16>(narrowed<bf16>(three)), ConvLayout::three_slots);
  CHECK(conv_on_device(state) == widened);
  state.import_conv(std::span<const bf16>(narrowed<bf16>(four_dirty)));
  CHECK(conv_on_device(state) == widened);
}

TEST_CASE("an export rounds to nearest even, keeps NaN and overflows to infinity", "[kda][state]") {
  const KdaConfig config = one_head_layer();
  KdaState state(open_test_device(), config);
  std::vector<float> values(config.recurrent_elements());
  values[0] = std::bit_cast<float>(0x3F808000U);  // a tie, down to even
  values[1] = std::bit_cast<float>(0x3F818000U);  // a tie, up to even
  values[2] = std::bit_cast<float>(0x7F800001U);  // a NaN that truncation would turn into infinity
  values[3] = std::numeric_limits<float>::max();
  values[4] = -std::numeric_limits<float>::infinity();
  values[5] = std::bit_cast<float>(0x00000001U);
  state.import_recurrent(std::span<const float>(values));
  std::vector<bf16> found(values.size());
  state.export_recurrent(std::span<bf16>(found));
  CHECK(found[0].bits == 0x3F80);
  CHECK(found[1].bits == 0x3F82);
  CHECK((found[2].bits & 0x7FFF) > 0x7F80);
  CHECK(found[3].bits == 0x7F80);
  CHECK(found[4].bits == 0xFF80);
  CHECK(found[5].bits == 0);
}

TEST_CASE("a span of another length is refused and changes nothing", "[kda][state][refusal]") {
  const KdaConfig config = one_head_layer();
  KdaState state(open_test_device(), config);
  const std::vector<float> recurrent = reference::random_recurrent(config, 1);
  const std::vector<float> conv = reference::random_conv(config, 1);
  state.import_recurrent(std::span<const float>(recurrent));
  state.import_conv(std::span<const float>(conv));

  std::vector<float> f32(recurrent.size() + 1, 9.0F);
  std::vector<bf16> b16(recurrent.size() + 1, bf16{1});
  const auto refused = [&](std::string_view name, std::size_t expected, const auto& import, const auto& export_) {
    for (const std::size_t length : {expected - 1, expected + 1, std::size_t{0}}) {
      const std::string found = std::to_string(length);
      const std::string needed = std::to_string(expected);
      expect_error(ErrorCode::invalid_argument, {name, found, needed}, [&] { import(length); });
      expect_error(ErrorCode::invalid_argument, {name, found, needed}, [&] { export_(length); });
    }
  };
  for (const StateLayout layout : {StateLayout::key_major, StateLayout::value_major}) {
    refused(
        "port_recurrent", recurrent.size(),
        [&](std::size_t n) { state.import_recurrent(std::span<const float>(f32).first(n), layout); },
        [&](std::size_t n) { state.export_recurrent(std::span<float>(f32).first(n), layout); });
    refused(
        "port_recurrent", recurrent.size(),
        [&](std::size_t n) { state.import_recurrent(std::span<const bf16>(b16).first(n), layout); },
        [&](std::size_t n) { state.export_recurrent(std::span<bf16>(b16).first(n), layout); });
  }
  for (const ConvLayout layout : {ConvLayout::four_slots, ConvLayout::three_slots}) {
    const std::size_t expected = conv.size() / 4 * (layout == ConvLayout::four_slots ? 4 : 3);
    refused(
        "port_conv", expected, [&](std::size_t n) { state.import_conv(std::span<const float>(f32).first(n), layout); },
        [&](std::size_t n) { state.export_conv(std::span<float>(f32).first(n), layout); });
    refused(
        "port_conv", expected, [&](std::size_t n) { state.import_conv(std::span<const bf16>(b16).first(n), layout); },
        [&](std::size_t n) { state.export_conv(std::span<bf16>(b16).first(n), layout); });
  }
  CHECK(f32 == std::vector<float>(f32.size(), 9.0F));
  CHECK(b16 == std::vector<bf16>(b16.size(), bf16{1}));
  CHECK(recurrent_on_device(state) == recurrent);
  CHECK(conv_on_device(state) == conv);
}

TEST_CASE("a state takes the caller's memory as it is", "[kda][state]") {
  const KdaConfig config = softplus_layer();
  const auto device = open_test_device();
  const std::vector<float> recurrent = numbered(config.recurrent_elements());
  const std::vector<float> conv = numbered(config.conv_elements());
  const Buffer recurrent_memory = upload(device, recurrent);
  const Buffer conv_memory = upload(device, conv);
  const std::uint64_t live = device->memory_info().live;
  {
    const KdaState state(device, config, recurrent_memory.get(), conv_memory.get());
    CHECK(device->memory_info().live == live);
    CHECK(state.recurrent() == recurrent_memory.get());
    CHECK(state.conv() == conv_memory.get());
  }
  CHECK(download<float>(*device, recurrent_memory.get(), recurrent.size()) == recurrent);
  CHECK(download<float>(*device, conv_memory.get(), conv.size()) == conv);
}

TEST_CASE("memory that does not fit a state is refused by name", "[kda][state][refusal]") {
  const KdaConfig config = softplus_layer();
  const auto device = open_test_device();
  const std::uint64_t recurrent_bytes = KdaState::recurrent_bytes(config);
  const std::uint64_t conv_bytes = KdaState::conv_bytes(config);
  const Buffer recurrent(device, recurrent_bytes);
  const Buffer conv(device, conv_bytes);
  const auto refused = [&](std::initializer_list<std::string_view> words, DevicePtr r, DevicePtr c) {
    expect_error(ErrorCode::invalid_argument, words, [&] { const KdaState state(device, config, r, c); });
  };
  refused({"recurrent", "null"}, {}, conv.get());
  refused({"conv", "null"}, recurrent.get(), {});
  refused({"recurrent", "multiple of 4"}, recurrent.get().offset(2), conv.get());
  refused({"conv", "multiple of 4"}, recurrent.get(), conv.get().offset(1));
  refused({"recurrent", std::to_string(recurrent_bytes)}, recurrent.get().offset(4), conv.get());
  refused({"conv", std::to_string(conv_bytes)}, recurrent.get(), conv.get().offset(4));
  refused({"recurrent", std::to_string(recurrent_bytes)}, DevicePtr(0x1000), conv.get());
  refused({"recurrent", "conv", "overlap"}, recurrent.get(), recurrent.get().offset(recurrent_bytes - conv_bytes));
  const Buffer both(device, recurrent_bytes + conv_bytes);
  CHECK_NOTHROW(KdaState(device, config, both.get(), both.get().offset(recurrent_bytes)));
  CHECK_NOTHROW(KdaState(device, config, both.get().offset(conv_bytes), both.get()));
}

TEST_CASE("a geometry that no kernel handles has no state", "[kda][state][refusal]") {
  KdaConfig config = softplus_layer();
  config.head_dim = 96;
  const auto device = open_test_device();
  expect_error(ErrorCode::unsupported, {"96", "64 or 128"}, [&] { const KdaState state(device, config); });
  CHECK(device->memory_info().live == 0);
}

TEST_CASE("a state owns its memory and keeps its device", "[kda][state]") {
  const KdaConfig config = softplus_layer();
  const auto device = open_test_device();
  {
    KdaState state(device, config);
    const std::uint64_t live = device->memory_info().live;
    CHECK(live >= KdaState::recurrent_bytes(config) + KdaState::conv_bytes(config));
    state.import_recurrent(std::span<const float>(numbered(config.recurrent_elements())));
    const KdaState moved = std::move(state);
    CHECK(device->memory_info().live == live);
    CHECK(recurrent_on_device(moved) == numbered(config.recurrent_elements()));
  }
  CHECK(device->memory_info().live == 0);
}

}  // namespace kdart::test
