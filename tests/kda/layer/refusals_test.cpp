// Calls that are refused: the code, a message that names thing, value and limit, nothing launched, nothing changed, and a
// layer that still works afterwards.
#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "kdart/kda_kernels.h"
#include "kdart/launch.h"
#include "tests/support/counting_backend.h"
#include "tests/support/expect_error.h"
#include "tests/support/kernel_set_folder.h"
#include "tests/support/layer_runner.h"
#include "tests/support/mini_model.h"
#include "tests/support/models.h"
#include "tools/reference/random_model.h"

namespace kdart::test {
namespace {

constexpr std::uint32_t tokens = 5;

// A layer on a device that counts, with a known good run to compare later runs with.
struct Bench {
  explicit Bench(const KdaConfig& geometry = softplus_layer())
      : config(geometry),
        device(CountingBackend::over(open_test_device())),
        host(reference::random_weights(config, 3)),
        weights(KdaDeviceWeights::upload(device, host)),
        runner(weights, tokens),
        input(random_input(config, tokens, 1)),
        expected(runner.run(input, {{Call::decode_k, tokens}})) {
    runner.start(input);
    device->synchronize(runner.stream());
    before = fetch(runner.state());
    submitted = device->submitted();
  }

  // `call` is refused with `code`; afterwards all is as before, and the layer computes what it did.
  void refused(ErrorCode code, std::initializer_list<std::string_view> words, const std::function<void()>& call) {
    expect_error(code, words, call);
    CHECK(device->submitted() == submitted);
    CHECK(difference(fetch(runner.state()), before) == "");
    CHECK(difference(runner.run(input, {{Call::decode_k, tokens}}), expected) == "");
    runner.start(input);
    device->synchronize(runner.stream());
    submitted = device->submitted();
  }

  KdaConfig config;
  std::shared_ptr<CountingBackend> device;
  KdaWeights host;
  std::shared_ptr<const KdaDeviceWeights> weights;
  LayerRunner runner;
  Input input;
  Output expected;
  HostState before;
  std::uint64_t submitted = 0;
};

// The three calls that take hidden rows, with these arguments.
struct RowCalls {
  Bench& bench;
  void refused(std::initializer_list<std::string_view> words, DevicePtr hidden, std::uint32_t count, KdaState& state,
               KdaWorkspace& ws, DevicePtr out) const {
    const KdaLayer& layer = bench.runner.layer();
    const Stream stream = bench.runner.stream();
    bench.refused(ErrorCode::invalid_argument, words,
                  [&] { layer.decode_k(hidden, count, state, ws, {}, stream, out); });
    bench.refused(ErrorCode::invalid_argument, words, [&] { layer.prefill(hidden, count, state, ws, stream, out); });
    bench.refused(ErrorCode::invalid_argument, words,
                  [&] { layer.prefill_with_pad_fill(hidden, count, state, ws, stream, 7.5F, out); });
    if (count == 1) {
      bench.refused(ErrorCode::invalid_argument, words, [&] { layer.decode(hidden, state, ws, stream, out); });
    }
  }
};

}  // namespace

TEST_CASE("0 tokens and more than the workspace holds are refused", "[kda][layer][refusal]") {
  Bench bench;
  const RowCalls calls{bench};
  LayerRunner& r = bench.runner;
  calls.refused({"KdaLayer::", "0 tokens", "at least 1"}, r.hidden(0), 0, r.state(), r.workspace(), r.out(0));
  calls.refused({"KdaLayer::", "6 tokens", "at most 5"}, r.hidden(0), tokens + 1, r.state(), r.workspace(), r.out(0));
  calls.refused({"4294967295 tokens", "at most 5"}, r.hidden(0), ~0U, r.state(), r.workspace(), r.out(0));
}

TEST_CASE("null and misaligned rows are refused", "[kda][layer][refusal]") {
  Bench bench;
  const RowCalls calls{bench};
  LayerRunner& r = bench.runner;
  calls.refused({"hidden", "null"}, {}, 1, r.state(), r.workspace(), r.out(0));
  for (const std::uint64_t shift : {1U, 2U, 8U}) {
    calls.refused({"hidden", "multiple of 16"}, r.hidden(0).offset(shift), 1, r.state(), r.workspace(), r.out(0));
  }
  calls.refused({"out", "multiple of 2"}, r.hidden(0), 1, r.state(), r.workspace(), r.out(0).offset(1));
}

TEST_CASE("a state or workspace of another geometry is refused", "[kda][layer][refusal]") {
  Bench bench;
  const RowCalls calls{bench};
  LayerRunner& r = bench.runner;
  // One head more, the other gate law, another eps: all of it is the layer's geometry.
  KdaConfig other_eps = bench.config;
  other_eps.rms_norm_eps = 1e-6F;
  KdaConfig more_heads = bench.config;
  more_heads.heads = 3;
  for (const KdaConfig& other : {lower_bound_layer(), more_heads, other_eps}) {
    KdaState state(bench.device, other);
    KdaWorkspace ws(bench.device, other, tokens);
    bench.submitted = bench.device->submitted();  // making them zeroes memory
    calls.refused({"state", "geometry"}, r.hidden(0), 1, state, r.workspace(), r.out(0));
    calls.refused({"workspace", "geometry"}, r.hidden(0), 1, r.state(), ws, r.out(0));
  }
}

TEST_CASE("a state or workspace on another device object is refused", "[kda][layer][refusal]") {
  Bench bench;
  const RowCalls calls{bench};
  LayerRunner& r = bench.runner;
  const auto other = open_test_device();
  KdaState state(other, bench.config);
  KdaWorkspace ws(other, bench.config, tokens);
  calls.refused({"device", other->info().id}, r.hidden(0), 1, state, r.workspace(), r.out(0));
  calls.refused({"device", other->info().id}, r.hidden(0), 1, r.state(), ws, r.out(0));
}

TEST_CASE("a null or stale stream is refused", "[kda][layer][refusal]") {
  Bench bench;
  LayerRunner& r = bench.runner;
  const Stream stale = OwnedStream(bench.device).get();
  for (const Stream stream : {Stream{}, stale}) {
    bench.refused(ErrorCode::invalid_handle, {"stream"},
                  [&] { r.layer().decode(r.hidden(0), r.state(), r.workspace(), stream); });
    bench.refused(ErrorCode::invalid_handle, {"stream"},
                  [&] { r.layer().prefill(r.hidden(0), tokens, r.state(), r.workspace(), stream); });
  }
}

TEST_CASE("options that no layer can have are refused", "[kda][layer][refusal]") {
  Bench bench;
  const std::uint64_t live = bench.device->memory_info().live;
  const auto refused = [&](ErrorCode code, std::initializer_list<std::string_view> words, const KdaOptions& options) {
    bench.refused(code, words, [&] { const KdaLayer layer(bench.weights, options); });
    CHECK(bench.device->memory_info().live == live);
  };
  KdaOptions options;
  for (const std::uint32_t chunk : {0U, 8U, 15U, 64U}) {
    options.chunk = chunk;
    refused(ErrorCode::invalid_argument, {"chunk is " + std::to_string(chunk), "16 or 32"}, options);
  }
  options = {};
  options.without = {"recurrent_smem", "recurent"};
  refused(ErrorCode::kernel_not_found, {"'recurent'", "kda"}, options);
  for (const char* required : {"recurrent", "dense_gemm_bf16", "chunk_scan", "fill"}) {
    options.without = {required};
    refused(ErrorCode::kernel_not_found, {std::string("'") + required + "'", "without"}, options);
  }
}

TEST_CASE("weights that do not fit their geometry are refused before anything is allocated", "[kda][layer][refusal]") {
  Bench bench;
  const std::uint64_t created = bench.device->created();
  KdaWeights weights = bench.host;
  weights.k_proj = weights.k_proj.first(weights.k_proj.size() - 1);
  bench.refused(ErrorCode::invalid_argument,
                {"k_proj", std::to_string(weights.k_proj.size()), std::to_string(weights.k_proj.size() + 1)},
                [&] { const KdaLayer layer(bench.device, weights); });
  weights = bench.host;
  weights.config.head_dim = 96;
  bench.refused(ErrorCode::unsupported, {"head_dim", "96", "64 or 128"},
                [&] { const KdaLayer layer(bench.device, weights); });
  CHECK(bench.device->created() == created);
}

TEST_CASE("kernels that were loaded on another device object are refused", "[kda][layer][refusal]") {
  Bench bench;
  const KdaLayer elsewhere(open_test_device(), bench.host);
  KdaOptions options;
  options.kernels = elsewhere.kernels();
  bench.refused(ErrorCode::invalid_handle, {"kernel", "another backend"},
                [&] { const KdaLayer layer(bench.weights, options); });
}

TEST_CASE("a set that lacks a kernel: refused when the layer needs it, done without when not",
          "[kda][layer][refusal][kernels]") {
  Bench bench;
  const Contract& contract = kernels::kda_contract();
  const auto built_in = KernelSet::embedded(contract, bench.device->info().backend);
  const auto lacking = [&](const TempFolder& folder, const std::set<std::string>& names) {
    write_kernel_set(*built_in, folder.path(), names);
    KdaOptions options;
    options.kernels = bench.device->load(KernelSet::from_directory(contract, folder.path()));
    return options;
  };
  for (const char* name : {"chunk_prepare", "conv_decode"}) {
    const TempFolder folder;
    const KdaOptions options = lacking(folder, {name});
    CHECK(options.kernels->missing() == std::vector<std::string_view>{name});
    CHECK_FALSE(options.kernels->find(name));
    bench.refused(ErrorCode::kernel_not_found, {name}, [&] { const KdaLayer layer(bench.weights, options); });
  }
  const TempFolder folder;
  const KdaOptions options = lacking(folder, {"recurrent_smem", "dense_gemv_bf16_batchm"});
  CHECK(options.kernels->missing() == std::vector<std::string_view>{"dense_gemv_bf16_batchm", "recurrent_smem"});
  LayerRunner poorer(bench.weights, tokens, options);
  CHECK(poorer.layer().recurrent_kernel() == "recurrent");
  CHECK(difference(poorer.run(bench.input, decode_cycle(tokens)), bench.expected) == "");
}

TEST_CASE("a launch that does not fit its kernel is refused and names what is wrong",
          "[kda][layer][refusal][kernels]") {
  Bench bench;
  const LoadedSet& set = *bench.runner.layer().kernels();
  const Stream stream = bench.runner.stream();
  const Buffer memory(bench.device, 4096);
  const KernelHandle fill = set.get("fill");
  const kernels::FillArgs good{.dst = memory.get(), .n = 16, .value = 1.0F};
  bench.submitted = bench.device->submitted();

  bench.refused(ErrorCode::invalid_launch, {"fill", "3 arguments expected, 2 given", "value"}, [&] {
    KernelLaunch(bench.device, fill).grid(1).block(256).arg(memory.get()).arg(std::uint64_t{16}).launch(stream);
  });
  bench.refused(ErrorCode::invalid_launch, {"fill", "argument 2", "'n'", "u64", "u32"}, [&] {
    KernelLaunch(bench.device, fill).grid(1).block(256).arg(memory.get()).arg(16U).arg(1.0F).launch(stream);
  });
  bench.refused(ErrorCode::invalid_launch, {"fill", "'dst'", "null"}, [&] {
    KernelLaunch(bench.device, fill).args(kernels::FillArgs{.dst = {}, .n = 16, .value = 1.0F}).launch(stream);
  });
  const std::uint64_t limit = bench.device->info().limits.shared_memory_per_block;
  bench.refused(
      ErrorCode::invalid_launch, {"fill", "shared memory", std::to_string(limit + 4), std::to_string(limit)}, [&] {
        KernelLaunch(bench.device, fill).args(good).shared_mem(static_cast<std::uint32_t>(limit + 4)).launch(stream);
      });
  bench.refused(ErrorCode::invalid_launch, {"fill", "block.y", "0"},
                [&] { KernelLaunch(bench.device, fill).args(good).block(256, 0).launch(stream); });
  bench.refused(ErrorCode::invalid_handle, {"kernel"},
                [&] { KernelLaunch(bench.device, KernelHandle{}).args(good).launch(stream); });
}

// Everything a layer call needs, made one after the other.
namespace {
void make_everything(const std::shared_ptr<GpuBackend>& device, const KdaWeights& weights) {
  const KdaLayer layer(device, weights);
  const KdaState state(device, weights.config);
  const KdaWorkspace ws(device, weights.config, tokens);
}
}  // namespace

TEST_CASE("a memory limit that is passed at any allocation leaves nothing behind", "[kda][layer][refusal][memory]") {
  const KdaConfig config = softplus_layer();
  const KdaWeights weights = reference::random_weights(config, 5);
  const auto counter = CountingBackend::over(open_test_device());
  make_everything(counter, weights);
  const std::vector<std::uint64_t> sizes = counter->allocations();
  REQUIRE(sizes.size() >= 4);  // weights, two states, workspace

  std::uint64_t needed = 0;
  for (const std::uint64_t size : sizes) {
    needed += size;
    INFO(needed << " bytes needed, one less allowed");
    OpenOptions options;
    options.memory_limit = needed - 1;
    const auto device = open_test_device(options);
    const std::uint64_t live = device->memory_info().live;
    expect_error(ErrorCode::out_of_device_memory,
                 {std::to_string(size), std::to_string(needed - 1), std::to_string(needed - size)},
                 [&] { make_everything(device, weights); });
    CHECK(device->memory_info().live == live);
    CHECK(Buffer(device, needed - 1 - live).get());  // all of the limit can still be had
  }
  OpenOptions options;
  options.memory_limit = needed;
  const auto device = open_test_device(options);
  CHECK_NOTHROW(make_everything(device, weights));
  CHECK(device->memory_info().live == 0);
}

}  // namespace kdart::test
