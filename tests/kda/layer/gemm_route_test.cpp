// Prefill through a device's own matrix products, where the device has them: right, the same bits for any number of rows,
// and all of prefill's promises with them.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "kdart/gemm_service.h"
#include "kdart/owned.h"
#include "tests/support/layer_runner.h"
#include "tests/support/models.h"
#include "tests/support/random_values.h"
#include "tools/reference/cases.h"
#include "tools/reference/random_model.h"

namespace kdart::test {
namespace {

// The device and its service, or a skip.
struct Device {
  Device() : gpu(open_test_device()), service(gpu->service<GemmService>()) {
    if (service == nullptr) SKIP(gpu->info().id << " has no GEMM service");
  }
  std::shared_ptr<GpuBackend> gpu;
  GemmService* service;
};

struct Shape {
  std::uint32_t n, k;
  bool bias;
};

// One product's operands: rows of a repeat after `distinct` of them, rows of b after a few hundred.
class Operands {
 public:
  static constexpr std::uint32_t distinct = 300;

  Operands(const Device& device, const Shape& shape, std::uint32_t most_rows)
      : gpu_(device.gpu), service_(device.service), shape_(shape), stream_(gpu_) {
    Random random(shape.n + 7 * shape.k);
    host_a = random.bf16_normals(std::size_t{distinct} * shape.k, 1.0);
    host_b = random.bf16_normals(std::size_t{std::min(shape.n, 256U)} * shape.k, 1.0);
    a_ = repeated(host_a, most_rows);
    b_ = repeated(host_b, shape.n);
    if (shape.bias) {
      host_bias = random.bf16_normals(shape.n, 1.0);
      bias_ = Buffer(gpu_, shape.n * sizeof(bf16));
      gpu_->copy_h2d(bias_.get(), host_bias.data(), bias_.bytes());
    }
    c_ = Buffer(gpu_, std::uint64_t{most_rows} * shape.n * sizeof(bf16));
    workspace_ = Buffer(gpu_, service_->workspace_bytes(most_rows, shape.n, shape.k));
  }

  // The last `kept` of the rows [first, first + m).
  [[nodiscard]] std::vector<bf16> rows(std::uint32_t first, std::uint32_t m, std::uint32_t kept) const {
    gpu_->fill(c_.get(), 0x7FC0U, sizeof(bf16), std::uint64_t{m} * shape_.n, stream_.get());
    service_->gemm_bf16(a_.get().offset(std::uint64_t{first} * shape_.k * sizeof(bf16)), b_.get(),
                        shape_.bias ? bias_.get() : DevicePtr(), c_.get(), m, shape_.n, shape_.k, shape_.k, shape_.k,
                        shape_.n, workspace_.get(), workspace_.bytes(), stream_.get());
    gpu_->synchronize(stream_.get());
    return download<bf16>(*gpu_, c_.get().offset(std::uint64_t{m - kept} * shape_.n * sizeof(bf16)),
                          std::size_t{kept} * shape_.n);
  }
  [[nodiscard]] std::vector<bf16> rows(std::uint32_t first, std::uint32_t m) const { return rows(first, m, m); }

  std::vector<bf16> host_a, host_b, host_bias;

 private:
  [[nodiscard]] Buffer repeated(const std::vector<bf16>& values, std::uint32_t rows) const {
    Buffer buffer(gpu_, std::uint64_t{rows} * shape_.k * sizeof(bf16));
    const std::uint64_t block = values.size() * sizeof(bf16);
    for (std::uint64_t at = 0; at < buffer.bytes(); at += block)
      gpu_->copy_h2d(buffer.get().offset(at), values.data(), std::min(block, buffer.bytes() - at));
    return buffer;
  }

  std::shared_ptr<GpuBackend> gpu_;
  GemmService* service_;
  Shape shape_;
  OwnedStream stream_;
  Buffer a_, b_, bias_, c_, workspace_;
};

// `rows` of a product that begins with row `first` of `all`.
bool same_rows(const std::vector<bf16>& rows, const std::vector<bf16>& all, std::uint32_t first, std::uint32_t n) {
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(std::size_t{first} * n);
  return std::equal(rows.begin(), rows.end(), begin);
}

// The distance to the next bf16.
double ulp(double x) {
  return std::exp2(std::max(std::floor(std::log2(std::abs(x))), -126.0) - 7);
}

// A layer every product of which is one that a service takes: whole groups of 8 everywhere.
KdaConfig service_layer() {
  KdaConfig config = softplus_layer();
  config.hidden_size = 512;
  config.heads = 8;
  config.decay_rank = 64;
  config.output_gate_rank = 64;
  return config;
}

KdaOptions with(KdaGemm gemm) {
  KdaOptions options;
  options.gemm = gemm;
  return options;
}

struct Model {
  explicit Model(const Device& device)
      : config(service_layer()),
        host(reference::random_weights(config, 83)),
        weights(KdaDeviceWeights::upload(device.gpu, host)) {}
  KdaConfig config;
  KdaWeights host;
  std::shared_ptr<const KdaDeviceWeights> weights;
};

}  // namespace

TEST_CASE("a service's products are within bf16 rounding of float64", "[kda][layer][gemm]") {
  const Device device;
  std::size_t taken = 0;
  for (const Shape& shape : {Shape{72, 72, false}, Shape{128, 16, false}, Shape{64, 2304, false}, Shape{96, 4096, true},
                             Shape{128, 8192, false}}) {
    if (!device.service->prepare(shape.n, shape.k, shape.bias)) continue;
    ++taken;
    INFO(shape.n << " x " << shape.k << ", bias " << shape.bias);
    constexpr std::uint32_t m = 45;
    const Operands x(device, shape, m);
    const std::vector<bf16> c = x.rows(0, m);
    std::size_t differ = 0;
    double worst = 0;
    for (std::size_t row = 0; row < m; ++row) {
      for (std::size_t column = 0; column < shape.n; ++column) {
        double sum = shape.bias ? static_cast<double>(to_float(x.host_bias[column])) : 0.0;
        double magnitude = std::abs(sum);
        for (std::size_t i = 0; i < shape.k; ++i) {
          const double product = static_cast<double>(to_float(x.host_a[row * shape.k + i])) *
                                 static_cast<double>(to_float(x.host_b[column * shape.k + i]));
          sum += product;
          magnitude += std::abs(product);
        }
        const bf16 found = c[row * shape.n + column];
        if (found != to_bf16(static_cast<float>(sum))) ++differ;
        // Rounded to bf16 once, from a sum in f32 of terms that may cancel.
        const double allowed = 0.5 * ulp(sum) + 0x1p-18 * magnitude;
        const double off = std::abs(static_cast<double>(to_float(found)) - sum) / allowed;
        worst = std::isnan(off) ? std::numeric_limits<double>::infinity() : std::max(worst, off);
      }
    }
    INFO(differ << " of " << c.size() << " elements are not the correctly rounded ones");
    CHECK(worst <= 1.0);
    CHECK(differ * 100 <= c.size());
  }
  if (taken == 0) SKIP(device.gpu->info().id << ": its GEMM service takes none of these products");
}

TEST_CASE("a row of a service's product has the same bits among any number of rows", "[kda][layer][gemm]") {
  const Device device;
  std::size_t taken = 0;
  // Those of GLM-5.3-Flash and Kimi-Linear, by width and depth.
  for (const Shape& shape :
       {Shape{24576, 4096, false}, Shape{128, 4096, false}, Shape{8192, 128, true}, Shape{64, 4096, false},
        Shape{4096, 8192, false}, Shape{12288, 2304, false}, Shape{32, 2304, false}, Shape{2304, 4096, false}}) {
    if (!device.service->prepare(shape.n, shape.k, shape.bias)) continue;
    ++taken;
    INFO(shape.n << " x " << shape.k);
    constexpr std::uint32_t longest = 13 * Operands::distinct + 1;
    const Operands x(device, shape, longest);
    const std::vector<bf16> all = x.rows(0, Operands::distinct);
    for (const std::uint32_t m : {1U, 2U, 3U, 8U, 15U, 17U, 33U, 64U, 127U, 128U, 129U, 255U, 257U, 299U}) {
      for (const std::uint32_t first : {0U, (Operands::distinct - m) / 2, Operands::distinct - m}) {
        INFO(m << " rows from row " << first);
        CHECK(same_rows(x.rows(first, m), all, first, shape.n));
      }
    }
    for (const std::uint32_t m : {2 * Operands::distinct, 7 * Operands::distinct, 13 * Operands::distinct}) {
      INFO("the last of " << m << " rows");
      CHECK(same_rows(x.rows(0, m, Operands::distinct), all, 0, shape.n));
    }
    CHECK(same_rows(x.rows(0, longest, 1), all, 0, shape.n));
  }
  if (taken == 0) SKIP(device.gpu->info().id << ": its GEMM service takes none of these products");
}

TEST_CASE("a layer takes the service of its device where it may", "[kda][layer][gemm]") {
  const Device device;
  const Model model(device);
  const KdaLayer automatic(model.weights);
  const KdaPrefillGemm use = automatic.prefill_gemm();
  CHECK(use.service + use.own == 7);
  CHECK(KdaLayer(model.weights, with(KdaGemm::own)).prefill_gemm().service == 0);
  KdaOptions reference;
  reference.route = KdaRoute::reference;
  CHECK(KdaLayer(model.weights, reference).prefill_gemm().service == 0);
  if (use.service == 0) SKIP(device.gpu->info().id << ": its GEMM service takes none of the layer's products");
  CHECK(KdaLayer(model.weights, with(KdaGemm::service)).prefill_gemm().service == use.service);
}

TEST_CASE("prefill through a service is within the bounds and cut at chunks it keeps its bits", "[kda][layer][gemm]") {
  const Device device;
  const Model model(device);
  for (const std::uint32_t tokens : {1U, 17U, 64U, 300U}) {
    INFO(tokens << " tokens");
    const Input input = random_input(model.config, tokens, tokens);
    LayerRunner runner(model.weights, 304);
    const Output whole = runner.run(input, prefill_whole(tokens));
    const reference::Bounds bounds = reference::base_bounds(tokens);
    check_figures(measure(whole, truth_of(model.host, input)), bounds.prefill_out, bounds.prefill_state);
    CHECK(difference(runner.run(input, prefill_whole(tokens)), whole) == "");
    for (const std::uint32_t cut : {16U, 48U, 160U, 288U}) {
      INFO("cut at " << cut);
      if (cut < tokens) CHECK(difference(runner.run(input, prefill_cut(cut, tokens)), whole) == "");
    }
    LayerRunner pieces(model.weights, 304, {}, 64);
    CHECK(difference(pieces.run(input, prefill_whole(tokens)), whole) == "");
    // Decode goes on from there with sums of its own order.
    LayerRunner own(model.weights, 304, with(KdaGemm::own));
    CHECK(difference(runner.run(input, decode_cycle(tokens)), own.run(input, decode_cycle(tokens))) == "");
  }
}

TEST_CASE("a captured prefill through a service replays the bits of the call", "[kda][layer][gemm][graph]") {
  const Device device;
  const Model model(device);
  constexpr std::uint32_t tokens = 100;
  LayerRunner runner(model.weights, tokens);
  const Input input = random_input(model.config, tokens, 9);
  const Output expected = runner.run(input, prefill_whole(tokens));
  device.gpu->begin_capture(runner.stream());
  runner.submit({Call::prefill, tokens}, 0);
  const OwnedGraph graph(device.gpu, device.gpu->end_capture(runner.stream()));
  for (int i = 0; i < 3; ++i) {
    runner.start(input);
    device.gpu->launch_graph(graph.get(), runner.stream());
    CHECK(difference(runner.finish(), expected) == "");
  }
}

TEST_CASE("prefill through a service writes the same bits to any address", "[kda][layer][gemm][memory]") {
  const Device device;
  const Model model(device);
  constexpr std::uint32_t tokens = 50;
  LayerRunner runner(model.weights, tokens);
  const Input input = random_input(model.config, tokens, 10);
  const Output expected = runner.run(input, prefill_whole(tokens));
  const Buffer memory(device.gpu, expected.out.size() * sizeof(bf16) + 64);
  for (const std::uint64_t shift : {0U, 2U, 8U, 14U, 16U, 30U}) {
    INFO("at " << shift << " bytes beyond a multiple of 256");
    runner.start(input);
    const DevicePtr out = memory.get().offset(shift);
    runner.layer().prefill(runner.hidden(0), tokens, runner.state(), runner.workspace(), runner.stream(), out);
    device.gpu->synchronize(runner.stream());
    CHECK(download<bf16>(*device.gpu, out, expected.out.size()) == expected.out);
  }
}

}  // namespace kdart::test
