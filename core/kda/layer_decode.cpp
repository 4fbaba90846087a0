// Decode: projections of all rows at once, then convolution and recurrence row by row, each row with the bits it would
// have alone.
#include <algorithm>

#include "core/kda/layer_impl.h"

namespace kdart {

using namespace kernels;
using Layout = KdaWorkspace::Layout;

namespace {

constexpr std::uint32_t widest_batch = 16;  // rows that dense_gemv_bf16_batchm takes

std::span<const StateSnapshot> rest_of(std::span<const StateSnapshot> snapshots, std::uint64_t first) {
  return snapshots.subspan(std::min<std::size_t>(snapshots.size(), first));
}

}  // namespace

// Never the matrix kernel: which rows share a launch depends on their number, and the bits must not.
void KdaLayer::Impl::project_rows(const LayerCall& call, const Projection& p) const {
  const bool batched = static_cast<bool>(kernels.dense_gemv_bf16_batchm);
  for (std::uint32_t row = 0; row < p.m;) {
    const std::uint32_t rows = batched ? std::min(p.m - row, widest_batch) : 1;
    const DevicePtr a = p.a.offset(std::uint64_t{row} * p.k * sizeof(bf16));
    const DevicePtr c = p.c.offset(std::uint64_t{row} * p.ldc * sizeof(bf16));
    if (rows == 1) {
      KernelLaunch(gpu(), kernels.dense_gemv_bf16)
          .args(DenseGemvBf16Args{
              .a = a, .b = p.weight, .bias = p.bias, .c = c, .m = 1, .n = p.n, .k = p.k, .lda = p.k, .ldc = p.ldc})
          .launch(call.stream);
    } else {
      KernelLaunch(gpu(), kernels.dense_gemv_bf16_batchm)
          .args(DenseGemvBf16BatchmArgs{
              .a = a, .b = p.weight, .bias = p.bias, .c = c, .m = rows, .n = p.n, .k = p.k, .lda = p.k, .ldc = p.ldc})
          .launch(call.stream);
    }
    row += rows;
  }
}

void KdaLayer::Impl::convolve_rows(const LayerCall& call, std::uint32_t tokens,
                                   std::span<const StateSnapshot> snapshots) const {
  const KdaConfig& c = config();
  const std::uint32_t channels = c.conv_channels();
  for (std::uint32_t t = 0; t < tokens; ++t) {
    const std::uint64_t row = std::uint64_t{t} * channels * sizeof(bf16);
    KernelLaunch(gpu(), kernels.conv_decode)
        .args(ConvDecodeArgs{.state = call.state.conv(),
                             .x = call.ws.at(&Layout::qkv).offset(row),
                             .w = weights->conv,
                             .out = call.ws.at(&Layout::conv_bf16).offset(row),
                             .slots = {},
                             .slot_stride = c.conv_elements(),
                             .slot_count = 1,
                             .rows = 1,
                             .channels = channels,
                             .taps = c.conv_kernel,
                             .qk_channels = 2 * c.qkv(),
                             .head_dim = c.head_dim,
                             .l2_eps = c.l2_eps,
                             .x_stride = channels,
                             .out_stride = channels})
        .launch(call.stream);
    if (t < snapshots.size()) {
      gpu().copy_d2d_async(snapshots[t].conv, call.state.conv(), KdaState::conv_bytes(c), call.stream);
    }
  }
}

// Row t of the workspace as the arguments of either recurrent kernel: the same fields, but for the tile.
template <class Args>
Args KdaLayer::Impl::recurrent_args(const LayerCall& call, std::uint32_t t) const {
  const KdaConfig& c = config();
  const auto row = [&](std::uint64_t Layout::* part, std::uint64_t width) {
    return call.ws.at(part).offset(t * width * sizeof(float));
  };
  Args args{};
  args.q = row(&Layout::q, c.qkv());
  args.k = row(&Layout::k, c.qkv());
  args.v = row(&Layout::v, c.qkv());
  args.gate = row(&Layout::gate, c.qkv());
  args.beta = row(&Layout::beta, c.heads);
  args.state = call.state.recurrent();
  args.out = row(&Layout::core, c.qkv());
  args.slot_stride = c.recurrent_elements();
  args.slot_count = 1;
  args.rows = 1;
  args.key_heads = args.value_heads = c.heads;
  args.key_dim = args.value_dim = c.head_dim;
  args.scale = attention_scale(c);
  args.q_stride = args.k_stride = args.v_stride = args.gate_stride = args.out_stride = c.qkv();
  args.beta_stride = c.heads;
  return args;
}

void KdaLayer::Impl::recur_rows(const LayerCall& call, std::uint32_t tokens,
                                std::span<const StateSnapshot> snapshots) const {
  for (std::uint32_t t = 0; t < tokens; ++t) {
    if (kernels.recurrent_smem) {
      auto args = recurrent_args<RecurrentSmemArgs>(call, t);
      args.v_per_block = kernels.v_per_block;
      KernelLaunch(gpu(), kernels.recurrent_smem).args(args).launch(call.stream);
    } else {
      KernelLaunch(gpu(), kernels.recurrent).args(recurrent_args<RecurrentArgs>(call, t)).launch(call.stream);
    }
    if (t < snapshots.size()) {
      gpu().copy_d2d_async(snapshots[t].recurrent, call.state.recurrent(), KdaState::recurrent_bytes(config()),
                           call.stream);
    }
  }
}

template <class Inputs, class Finish>
void KdaLayer::Impl::decode_piece(const LayerCall& call, std::uint32_t tokens, std::span<const StateSnapshot> snapshots,
                                  const Inputs& inputs, const Finish& finish) const {
  ProjectedRows rows;
  measured(KdaSpan::front_end, call.stream, [&] {
    rows = inputs();
    gates(call, rows, tokens);
    convolve_rows(call, tokens, snapshots);
    split(call, tokens);
  });
  measured(KdaSpan::recurrence, call.stream, [&] { recur_rows(call, tokens, snapshots); });
  measured(KdaSpan::back_end, call.stream, [&] { finish(rows); });
}

void KdaLayer::decode(DevicePtr hidden, KdaState& state, KdaWorkspace& ws, Stream stream, DevicePtr out) const {
  impl_->decode_hidden("KdaLayer::decode", {state, ws, stream}, hidden, 1, {}, out);
}

void KdaLayer::decode_k(DevicePtr hidden, std::uint32_t tokens, KdaState& state, KdaWorkspace& ws,
                        std::span<const StateSnapshot> snapshots, Stream stream, DevicePtr out) const {
  impl_->decode_hidden("KdaLayer::decode_k", {state, ws, stream}, hidden, tokens, snapshots, out);
}

void KdaLayer::Impl::decode_hidden(std::string_view name, const LayerCall& call, DevicePtr hidden, std::uint32_t tokens,
                                   std::span<const StateSnapshot> snapshots, DevicePtr out) const {
  check_call(name, tokens, call);
  check_snapshots(name, tokens, call.state, snapshots);
  if (!out) out = call.ws.final_out();
  check_rows(name, hidden, out);
  for_each_piece(tokens, call.ws.rows(), [&](std::uint64_t first, std::uint32_t count) {
    const std::uint64_t row = first * config().hidden_size * sizeof(bf16);
    decode_piece(
        call, count, rest_of(snapshots, first),
        [&] { return project_inputs(call, hidden.offset(row), count, &Impl::project_rows); },
        [&](const ProjectedRows& rows) {
          output_norm(call, rows, count, call.ws.at(&Layout::normed));
          project_output(call, count, out.offset(row), &Impl::project_rows);
        });
  });
}

void KdaLayer::decode_k_core(const KdaCoreInputs& inputs, std::uint32_t tokens, KdaState& state, KdaWorkspace& ws,
                             std::span<const StateSnapshot> snapshots, Stream stream, DevicePtr out) const {
  const LayerCall call{state, ws, stream};
  impl_->check_call("KdaLayer::decode_k_core", tokens, call);
  impl_->check_snapshots("KdaLayer::decode_k_core", tokens, state, snapshots);
  impl_->check_core("KdaLayer::decode_k_core", inputs, out);
  for_each_piece(tokens, ws.rows(), [&](std::uint64_t first, std::uint32_t count) {
    impl_->decode_piece(
        call, count, rest_of(snapshots, first),
        [&] { return impl_->take_inputs(call, advance(inputs, impl_->config(), first), count); },
        [&](const ProjectedRows& rows) {
          impl_->output_norm(call, rows, count, out.offset(first * impl_->config().qkv() * sizeof(bf16)));
        });
  });
}

}  // namespace kdart
