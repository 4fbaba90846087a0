// Which of prefill's products go to the device's GEMM service, with services on the CPU that do what dense_gemm_bf16 does:
// all ways then have the same bits.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "kdart/forwarding_backend.h"
#include "kdart/gemm_service.h"
#include "kdart/kda_kernels.h"
#include "kdart/registry.h"
#include "tests/support/expect_error.h"
#include "tests/support/layer_runner.h"
#include "tests/support/models.h"
#include "tools/reference/random_model.h"

namespace kdart::test {
namespace {

struct Shape {
  std::uint32_t n, k;
  bool bias;
  friend bool operator==(const Shape&, const Shape&) = default;
};

// Launches the kernel of a set that the test loaded.
class KernelService final : public GemmService {
 public:
  bool prepare(std::uint32_t n, std::uint32_t k, bool bias) override {
    asked.push_back({n, k, bias});
    if (refuses && refuses(asked.back())) return false;
    prepared.push_back(asked.back());
    return true;
  }
  void gemm_bf16(DevicePtr a, DevicePtr b, DevicePtr bias, DevicePtr c, std::uint32_t m, std::uint32_t n,
                 std::uint32_t k, std::uint32_t lda, std::uint32_t ldb, std::uint32_t ldc, DevicePtr, std::uint64_t,
                 Stream stream) override {
    const Shape shape{n, k, static_cast<bool>(bias)};
    CHECK(std::find(prepared.begin(), prepared.end(), shape) != prepared.end());
    for (const DevicePtr memory : {a, b, bias, c}) CHECK(memory.address() % 16 == 0);
    CHECK(lda == k);
    CHECK(ldb == k);
    CHECK(ldc == n);
    calls.push_back(shape);
    rows.push_back(m);
    KernelLaunch(*gpu, kernel)
        .args(kernels::DenseGemmBf16Args{
            .a = a, .b = b, .bias = bias, .c = c, .m = m, .n = n, .k = k, .lda = lda, .ldc = ldc})
        .launch(stream);
  }
  std::uint64_t workspace_bytes(std::uint32_t, std::uint32_t, std::uint32_t) const override { return 0; }

  std::function<bool(const Shape&)> refuses;
  std::vector<Shape> asked, prepared, calls;
  std::vector<std::uint32_t> rows;  // of each call
  GpuBackend* gpu = nullptr;
  KernelHandle kernel;
};

// The CPU device with a service.
class ServiceBackend final : public ForwardingBackend {
 public:
  [[nodiscard]] static std::shared_ptr<ServiceBackend> open() {
    return std::shared_ptr<ServiceBackend>(new ServiceBackend(open_device("cpu:0")));
  }
  ~ServiceBackend() override { shut_down(); }

  KernelService gemm;

 protected:
  void* do_service(std::string_view id) override {
    return id == GemmService::service_id ? static_cast<GemmService*>(&gemm) : nullptr;
  }

 private:
  explicit ServiceBackend(std::shared_ptr<GpuBackend> inner) : ForwardingBackend(std::move(inner)) {}
};

// A layer's weights on such a device, and the set whose kernel the service launches.
struct Bench {
  explicit Bench(const KdaConfig& geometry)
      : config(geometry),
        device(ServiceBackend::open()),
        set(device->load(KernelSet::embedded(kernels::kda_contract(), "cpu"))),
        weights(KdaDeviceWeights::upload(device, reference::random_weights(config, 29))) {
    device->gemm.gpu = device.get();
    device->gemm.kernel = set->get("dense_gemm_bf16");
  }
  [[nodiscard]] KdaOptions options(KdaGemm gemm, KdaRoute route = KdaRoute::automatic) const {
    KdaOptions result;
    result.gemm = gemm;
    result.route = route;
    result.kernels = set;
    return result;
  }
  [[nodiscard]] KernelService& service() const { return device->gemm; }

  KdaConfig config;
  std::shared_ptr<ServiceBackend> device;
  std::shared_ptr<LoadedSet> set;
  std::shared_ptr<const KdaDeviceWeights> weights;
};

// Every product of a layer in the order of its calls.
std::vector<Shape> products_of(const KdaConfig& c) {
  std::vector<Shape> shapes = {{3 * c.qkv(), c.hidden_size, false},
                               {c.decay_rank, c.hidden_size, false},
                               {c.qkv(), c.decay_rank, false},
                               {c.heads, c.hidden_size, false}};
  if (c.output_gate_rank == 0) {
    shapes.push_back({c.qkv(), c.hidden_size, false});
  } else {
    shapes.push_back({c.output_gate_rank, c.hidden_size, false});
    shapes.push_back({c.qkv(), c.output_gate_rank, c.output_gate_bias});
  }
  shapes.push_back({c.hidden_size, c.qkv(), false});
  return shapes;
}

}  // namespace

TEST_CASE("prefill takes the service for every product at any number of tokens", "[kda][layer][gemm]") {
  for (const KdaConfig& config : {softplus_layer(), lower_bound_layer(), full_rank_layer()}) {
    const Bench bench(config);
    const std::vector<Shape> products = products_of(config);
    LayerRunner own(bench.weights, 48, bench.options(KdaGemm::own));  // whole chunks, so that a call is one piece
    CHECK(own.layer().prefill_gemm().service == 0);
    CHECK(own.layer().prefill_gemm().own == products.size());
    CHECK(bench.service().asked.empty());

    LayerRunner runner(bench.weights, 48, bench.options(KdaGemm::automatic));
    CHECK(runner.layer().prefill_gemm().service == products.size());
    CHECK(runner.layer().prefill_gemm().own == 0);
    CHECK(bench.service().asked == products);
    for (const std::uint32_t tokens : {1U, 2U, 16U, 17U, 40U}) {
      INFO(config.heads << " heads, " << tokens << " tokens");
      const Input input = random_input(config, tokens, tokens);
      bench.service().calls.clear();
      bench.service().rows.clear();
      const Output output = runner.run(input, prefill_whole(tokens));
      CHECK(bench.service().calls == products);
      CHECK(bench.service().rows == std::vector<std::uint32_t>(products.size(), tokens));
      CHECK(difference(output, own.run(input, prefill_whole(tokens))) == "");
    }
  }
}

TEST_CASE("decode never takes the service", "[kda][layer][gemm]") {
  const KdaConfig config = softplus_layer();
  const Bench bench(config);
  LayerRunner runner(bench.weights, 40, bench.options(KdaGemm::service));
  const Input input = random_input(config, 40, 1);
  static_cast<void>(runner.run(input, decode_cycle(40)));
  static_cast<void>(runner.run(slice(input, 0, 3), decode_each(3)));
  CHECK(bench.service().calls.empty());
}

TEST_CASE("the reference route and KdaGemm own ask no service", "[kda][layer][gemm]") {
  const KdaConfig config = softplus_layer();
  const Bench bench(config);
  for (const KdaOptions& options : {bench.options(KdaGemm::automatic, KdaRoute::reference),
                                    bench.options(KdaGemm::own, KdaRoute::reference), bench.options(KdaGemm::own)}) {
    LayerRunner runner(bench.weights, 20, options);
    CHECK(runner.layer().prefill_gemm().service == 0);
    CHECK(runner.layer().prefill_gemm().own == 7);
    static_cast<void>(runner.run(random_input(config, 20, 1), prefill_whole(20)));
  }
  CHECK(bench.service().asked.empty());
  CHECK(bench.service().calls.empty());
}

TEST_CASE("a product that the service refuses takes the set's own kernel", "[kda][layer][gemm]") {
  const KdaConfig config = softplus_layer();
  const std::vector<Shape> products = products_of(config);
  const Input input = random_input(config, 21, 3);
  for (const Shape& refused : products) {
    INFO(refused.n << " x " << refused.k);
    const Bench bench(config);
    bench.service().refuses = [&](const Shape& shape) { return shape == refused; };
    LayerRunner runner(bench.weights, 32, bench.options(KdaGemm::service));
    CHECK(runner.layer().prefill_gemm().service == 6);
    CHECK(runner.layer().prefill_gemm().own == 1);
    LayerRunner own(bench.weights, 32, bench.options(KdaGemm::own));
    CHECK(difference(runner.run(input, prefill_whole(21)), own.run(input, prefill_whole(21))) == "");
    std::vector<Shape> expected = products;
    std::erase(expected, refused);
    CHECK(bench.service().calls == expected);
  }
}

TEST_CASE("a layer that must have the service is refused without one", "[kda][layer][gemm][refusal]") {
  const KdaConfig config = softplus_layer();
  const Bench bench(config);
  expect_error(ErrorCode::invalid_argument, {"reference", "GEMM service"},
               [&] { const KdaLayer layer(bench.weights, bench.options(KdaGemm::service, KdaRoute::reference)); });
  CHECK(bench.service().asked.empty());
  bench.service().refuses = [](const Shape&) { return true; };
  expect_error(ErrorCode::unsupported, {"GEMM service", "cpu:0", "none", "7"},
               [&] { const KdaLayer layer(bench.weights, bench.options(KdaGemm::service)); });
  const KdaLayer automatic(bench.weights, bench.options(KdaGemm::automatic));
  CHECK(automatic.prefill_gemm().service == 0);
  CHECK(automatic.prefill_gemm().own == 7);

  const auto plain = open_device("cpu:0");
  CHECK(plain->service<GemmService>() == nullptr);
  const auto weights = KdaDeviceWeights::upload(plain, reference::random_weights(config, 29));
  KdaOptions options;
  options.gemm = KdaGemm::service;
  expect_error(ErrorCode::unsupported, {"GEMM service", "cpu:0"}, [&] { const KdaLayer layer(weights, options); });
  CHECK(KdaLayer(weights).prefill_gemm().own == 7);
}

TEST_CASE("an error of the service leaves the call that made it", "[kda][layer][gemm][refusal]") {
  const KdaConfig config = softplus_layer();
  const Bench bench(config);
  bench.service().refuses = [](const Shape&) -> bool { throw Error(ErrorCode::driver_error, "the library says no"); };
  expect_error(ErrorCode::driver_error, {"the library says no"},
               [&] { const KdaLayer layer(bench.weights, bench.options(KdaGemm::automatic)); });
}

// The service takes multiples of 16 alone, `out` may be any multiple of 2, and of memory that the backend does not know.
TEST_CASE("with the service the bits do not depend on where out lies", "[kda][layer][gemm][memory]") {
  constexpr std::uint32_t tokens = 50;
  constexpr std::size_t guard = 64;
  KdaConfig wide = one_head_layer();
  wide.hidden_size = 2048;  // a row of the result is wider than all that the workspace has besides
  for (const KdaConfig& config : {softplus_layer(), full_rank_layer(), wide}) {
    const Bench bench(config);
    LayerRunner runner(bench.weights, tokens, bench.options(KdaGemm::service), 32);  // in two pieces
    const Input input = random_input(config, tokens, 7);
    const Output expected = runner.run(input, prefill_whole(tokens));
    const std::size_t elements = expected.out.size();
    std::vector<bf16> memory(elements + 2 * guard + 8);
    for (std::size_t shift = 0; shift < 8; ++shift) {
      INFO(config.hidden_size << " wide, shifted by " << shift);
      std::fill(memory.begin(), memory.end(), bf16{0xA5A5});
      bf16* out = memory.data() + guard + shift;
      runner.start(input);
      runner.layer().prefill(runner.hidden(0), tokens, runner.state(), runner.workspace(), runner.stream(),
                             DevicePtr(reinterpret_cast<std::uintptr_t>(out)));
      const Output states = runner.finish();
      CHECK(std::equal(expected.out.begin(), expected.out.end(), out));
      CHECK(states.recurrent == expected.recurrent);
      const auto untouched = [](bf16 value) { return value == bf16{0xA5A5}; };
      CHECK(std::all_of(memory.data(), out, untouched));
      CHECK(std::all_of(out + elements, memory.data() + memory.size(), untouched));
    }
  }
}

TEST_CASE("a captured prefill through the service replays the bits of the call", "[kda][layer][gemm][graph]") {
  const KdaConfig config = lower_bound_layer();
  const Bench bench(config);
  LayerRunner runner(bench.weights, 35, bench.options(KdaGemm::service));
  const Input input = random_input(config, 35, 5);
  const Output expected = runner.run(input, prefill_whole(35));
  bench.device->begin_capture(runner.stream());
  runner.submit({Call::prefill, 35}, 0);
  const OwnedGraph graph(bench.device, bench.device->end_capture(runner.stream()));
  for (int i = 0; i < 2; ++i) {
    runner.start(input);
    bench.device->launch_graph(graph.get(), runner.stream());
    CHECK(difference(runner.finish(), expected) == "");
  }
}

TEST_CASE("prefill through the service in pieces has the bits of one piece", "[kda][layer][gemm]") {
  const KdaConfig config = softplus_layer();
  const Bench bench(config);
  LayerRunner whole(bench.weights, 75, bench.options(KdaGemm::service));
  LayerRunner pieces(bench.weights, 75, bench.options(KdaGemm::service), 32);
  const Input input = random_input(config, 75, 6);
  const Output expected = whole.run(input, prefill_whole(75));
  CHECK(difference(pieces.run(input, prefill_whole(75)), expected) == "");
  CHECK(difference(whole.run(input, prefill_cut(48, 75)), expected) == "");
}

}  // namespace kdart::test
