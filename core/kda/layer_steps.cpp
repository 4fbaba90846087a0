// The steps that decode and prefill share: projections, gates, the output norm.
#include "core/kda/layer_impl.h"

namespace kdart {

using namespace kernels;

ProjectedRows KdaLayer::Impl::project_inputs(const LayerCall& call, DevicePtr hidden, std::uint32_t tokens,
                                             Project project) const {
  using Layout = KdaWorkspace::Layout;
  const KdaConfig& c = config();
  const KdaDeviceWeights& w = *weights;
  const auto at = [&](std::uint64_t Layout::* part) { return call.ws.at(part); };
  const auto run = [&](DevicePtr a, std::uint32_t k, DevicePtr weight, DevicePtr bias, DevicePtr out, std::uint32_t n) {
    (this->*project)(call, {.a = a, .weight = weight, .bias = bias, .c = out, .m = tokens, .n = n, .k = k, .ldc = n});
    return out;
  };
  const auto low_rank = [&](DevicePtr down, DevicePtr up, DevicePtr bias, std::uint32_t rank, DevicePtr middle,
                            DevicePtr out) {
    run(hidden, c.hidden_size, down, {}, middle, rank);
    return run(middle, rank, up, bias, out, c.qkv());
  };

  run(hidden, c.hidden_size, w.qkv_proj, {}, at(&Layout::qkv), 3 * c.qkv());
  ProjectedRows rows;
  rows.f = low_rank(w.f_a_proj, w.f_b_proj, {}, c.decay_rank, at(&Layout::f_a), at(&Layout::f));
  rows.b = run(hidden, c.hidden_size, w.b_proj, {}, at(&Layout::b), c.heads);
  rows.z = w.g_proj
               ? run(hidden, c.hidden_size, w.g_proj, {}, at(&Layout::z), c.qkv())
               : low_rank(w.g_a_proj, w.g_b_proj, w.g_b_bias, c.output_gate_rank, at(&Layout::g_a), at(&Layout::z));
  return rows;
}

ProjectedRows KdaLayer::Impl::take_inputs(const LayerCall& call, const KdaCoreInputs& inputs,
                                          std::uint32_t tokens) const {
  KernelLaunch(gpu(), kernels.pack_qkv)
      .args(PackQkvArgs{.q = inputs.q,
                        .k = inputs.k,
                        .v = inputs.v,
                        .out = call.ws.at(&KdaWorkspace::Layout::qkv),
                        .tokens = tokens,
                        .key_channels = config().qkv(),
                        .value_channels = config().qkv()})
      .launch(call.stream);
  return {.f = inputs.f, .b = inputs.b, .z = inputs.z};
}

void KdaLayer::Impl::gates(const LayerCall& call, const ProjectedRows& rows, std::uint32_t tokens) const {
  const KdaConfig& c = config();
  KernelLaunch(gpu(), kernels.gate)
      .args(GateArgs{.f = rows.f,
                     .dt_bias = weights->dt_bias,
                     .a_log = weights->a_log,
                     .out = call.ws.at(&KdaWorkspace::Layout::gate),
                     .tokens = tokens,
                     .heads = c.heads,
                     .head_dim = c.head_dim,
                     .law = static_cast<std::uint32_t>(c.gate_law),
                     .lower_bound = c.gate_lower_bound})
      .launch(call.stream);
  KernelLaunch(gpu(), kernels.sigmoid)
      .args(SigmoidArgs{
          .b = rows.b, .out = call.ws.at(&KdaWorkspace::Layout::beta), .n = std::uint64_t{tokens} * c.heads})
      .launch(call.stream);
}

void KdaLayer::Impl::split(const LayerCall& call, std::uint32_t tokens) const {
  using Layout = KdaWorkspace::Layout;
  KernelLaunch(gpu(), kernels.split_widen)
      .args(SplitWidenArgs{.qkv = call.ws.at(&Layout::conv_bf16),
                           .q = call.ws.at(&Layout::q),
                           .k = call.ws.at(&Layout::k),
                           .v = call.ws.at(&Layout::v),
                           .tokens = tokens,
                           .key_channels = config().qkv(),
                           .value_channels = config().qkv()})
      .launch(call.stream);
}

void KdaLayer::Impl::output_norm(const LayerCall& call, const ProjectedRows& rows, std::uint32_t tokens,
                                 DevicePtr out) const {
  const KdaConfig& c = config();
  KernelLaunch(gpu(), kernels.o_norm)
      .args(ONormArgs{.core = call.ws.at(&KdaWorkspace::Layout::core),
                      .z = rows.z,
                      .weight = weights->o_norm,
                      .out = out,
                      .tokens = tokens,
                      .heads = c.heads,
                      .head_dim = c.head_dim,
                      .eps = c.rms_norm_eps})
      .launch(call.stream);
}

void KdaLayer::Impl::project_output(const LayerCall& call, std::uint32_t tokens, DevicePtr out, Project project) const {
  const KdaConfig& c = config();
  (this->*project)(call, {.a = call.ws.at(&KdaWorkspace::Layout::normed),
                          .weight = weights->o_proj,
                          .bias = {},
                          .c = out,
                          .m = tokens,
                          .n = c.hidden_size,
                          .k = c.qkv(),
                          .ldc = c.hidden_size});
}

}  // namespace kdart
