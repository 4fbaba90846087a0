// Prefill's matrix products: which of them the device's own GEMM service does, and each of them.
#include <algorithm>
#include <vector>

#include "core/kda/layer_impl.h"
#include "core/runtime/fail.h"

namespace kdart {

using namespace kernels;

namespace {

constexpr std::uint64_t service_alignment = 16;  // of every address that a GEMM service takes

// In the order of the calls.
std::vector<ProductShape> product_shapes(const KdaDeviceWeights& weights) {
  const KdaConfig& c = weights.config;
  std::vector<ProductShape> shapes = {{3 * c.qkv(), c.hidden_size, false},
                                      {c.decay_rank, c.hidden_size, false},
                                      {c.qkv(), c.decay_rank, false},
                                      {c.heads, c.hidden_size, false}};
  if (weights.g_proj) {
    shapes.push_back({c.qkv(), c.hidden_size, false});
  } else {
    shapes.push_back({c.output_gate_rank, c.hidden_size, false});
    shapes.push_back({c.qkv(), c.output_gate_rank, static_cast<bool>(weights.g_b_bias)});
  }
  shapes.push_back({c.hidden_size, c.qkv(), false});
  return shapes;
}

GemmService* wanted_service(GpuBackend& backend, const KdaOptions& options) {
  if (options.gemm == KdaGemm::own || options.route == KdaRoute::reference) return nullptr;
  auto* service = backend.service<GemmService>();
  if (service == nullptr && options.gemm == KdaGemm::service) {
    detail::fail(ErrorCode::unsupported, "KdaOptions: gemm asks for the GEMM service, and {} has none",
                 backend.info().id);
  }
  return service;
}

}  // namespace

LayerProducts detail::choose_products(GpuBackend& backend, const KdaDeviceWeights& weights, const KdaOptions& options) {
  LayerProducts products;
  products.service = wanted_service(backend, options);
  for (const ProductShape& shape : product_shapes(weights)) {
    const bool taken = products.service != nullptr && products.service->prepare(shape.n, shape.k, shape.bias);
    if (taken) products.shapes.push_back(shape);
    ++(taken ? products.count.service : products.count.own);
  }
  if (options.gemm == KdaGemm::service && products.count.service == 0) {
    fail(ErrorCode::unsupported,
         "KdaOptions: gemm asks for the GEMM service, and that of {} takes none of the layer's {} "
         "products",
         backend.info().id, products.count.own);
  }
  return products;
}

bool LayerProducts::takes(const ProductShape& shape) const {
  return std::find(shapes.begin(), shapes.end(), shape) != shapes.end();
}

void KdaLayer::Impl::project_matrix(const LayerCall& call, const Projection& p) const {
  if (products.takes({p.n, p.k, static_cast<bool>(p.bias)})) {
    project_by_service(call, p);
    return;
  }
  KernelLaunch(gpu(), kernels.dense_gemm_bf16)
      .args(DenseGemmBf16Args{
          .a = p.a, .b = p.weight, .bias = p.bias, .c = p.c, .m = p.m, .n = p.n, .k = p.k, .lda = p.k, .ldc = p.ldc})
      .launch(call.stream);
}

// Scratch for a service: the gates, which are not there yet when a call begins, and of no use any more when it ends.
constexpr auto service_scratch = &KdaWorkspace::Layout::gate;
static_assert(GemmService::max_workspace_bytes <= KdaWorkspace::max_chunk * std::uint64_t{32} * sizeof(float));

// A caller's `out` may lie where no service writes. Its bits must not tell: the same product, and then a copy.
void KdaLayer::Impl::project_by_service(const LayerCall& call, const Projection& p) const {
  const bool aligned = p.c.address() % service_alignment == 0;
  const DevicePtr c = aligned ? p.c : call.ws.at(&KdaWorkspace::Layout::unaligned_out);
  products.service->gemm_bf16(p.a, p.weight, p.bias, c, p.m, p.n, p.k, p.k, p.k, p.ldc, call.ws.at(service_scratch),
                              GemmService::max_workspace_bytes, call.stream);
  if (!aligned) copy_elements(call, p.c, c, std::uint64_t{p.m} * p.ldc);
}

// pack_qkv of one row whose three parts lie one after the other: unlike the backend's copies, it takes any address, also
// one that the backend does not know.
void KdaLayer::Impl::copy_elements(const LayerCall& call, DevicePtr to, DevicePtr from, std::uint64_t count) const {
  constexpr std::uint64_t most = std::uint64_t{1} << 30;
  for (std::uint64_t first = 0; first < count; first += most) {
    const auto width = static_cast<std::uint32_t>(std::min(most, count - first));
    const std::uint32_t quarter = width / 4;
    const DevicePtr source = from.offset(first * sizeof(bf16));
    KernelLaunch(gpu(), kernels.pack_qkv)
        .args(PackQkvArgs{.q = source,
                          .k = source.offset(std::uint64_t{quarter} * sizeof(bf16)),
                          .v = source.offset(std::uint64_t{2} * quarter * sizeof(bf16)),
                          .out = to.offset(first * sizeof(bf16)),
                          .tokens = 1,
                          .key_channels = quarter,
                          .value_channels = width - 2 * quarter})
        .launch(call.stream);
  }
}

}  // namespace kdart
