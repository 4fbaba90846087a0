// Prefill: projections as matrix products, the convolution over all tokens, the recurrence chunk by chunk. Long prompts
// run in pieces of whole chunks, which changes no bit.
#include <algorithm>

#include "core/kda/checks.h"
#include "core/kda/layer_impl.h"

namespace kdart {

using namespace kernels;
using Layout = KdaWorkspace::Layout;

void KdaLayer::Impl::convolve_tokens(const LayerCall& call, std::uint32_t tokens) const {
  const KdaConfig& c = config();
  const std::uint32_t channels = c.conv_channels();
  KernelLaunch(gpu(), kernels.conv_prefill)
      .args(ConvPrefillArgs{.state = call.state.conv(),
                            .x = call.ws.at(&Layout::qkv),
                            .w = weights->conv,
                            .out = call.ws.at(&Layout::conv_f32),
                            .channels = channels,
                            .taps = c.conv_kernel,
                            .tokens = tokens,
                            .x_stride = channels,
                            .out_stride = channels})
      .launch(call.stream);
  KernelLaunch(gpu(), kernels.l2)
      .args(L2Args{.in = call.ws.at(&Layout::conv_f32),
                   .out = call.ws.at(&Layout::conv_bf16),
                   .tokens = tokens,
                   .channels = channels,
                   .qk_channels = 2 * c.qkv(),
                   .head_dim = c.head_dim,
                   .l2_eps = c.l2_eps,
                   .in_stride = channels,
                   .out_stride = channels})
      .launch(call.stream);
}

// Rows [tokens, end of the last chunk) of what the chunk kernels read.
void KdaLayer::Impl::fill_padding(const LayerCall& call, std::uint32_t tokens, float value) const {
  const std::uint64_t padded = (std::uint64_t{tokens} + options.chunk - 1) / options.chunk * options.chunk;
  const auto fill_tail = [&](std::uint64_t Layout::* part, std::uint64_t width, float x) {
    const DevicePtr tail = call.ws.at(part).offset(tokens * width * sizeof(float));
    KernelLaunch(gpu(), kernels.fill)
        .args(FillArgs{.dst = tail, .n = (padded - tokens) * width, .value = x})
        .launch(call.stream);
  };
  for (const auto part : {&Layout::q, &Layout::k, &Layout::v}) fill_tail(part, config().qkv(), value);
  fill_tail(&Layout::gate, config().qkv(), 0.0F);
  fill_tail(&Layout::beta, config().heads, 0.0F);
}

void KdaLayer::Impl::scan_chunks(const LayerCall& call, std::uint32_t tokens) const {
  const KdaConfig& c = config();
  const auto at = [&](std::uint64_t Layout::* part) { return call.ws.at(part); };
  KernelLaunch(gpu(), kernels.chunk_prepare)
      .args(ChunkPrepareArgs{.k = at(&Layout::k),
                             .v = at(&Layout::v),
                             .gate = at(&Layout::gate),
                             .beta = at(&Layout::beta),
                             .gc = at(&Layout::gc),
                             .u = at(&Layout::u),
                             .w = at(&Layout::w),
                             .key_heads = c.heads,
                             .value_heads = c.heads,
                             .key_dim = c.head_dim,
                             .value_dim = c.head_dim,
                             .chunk = options.chunk,
                             .tokens = tokens})
      .launch(call.stream);
  KernelLaunch(gpu(), kernels.chunk_scan)
      .args(ChunkScanArgs{.q = at(&Layout::q),
                          .k = at(&Layout::k),
                          .gc = at(&Layout::gc),
                          .u = at(&Layout::u),
                          .w = at(&Layout::w),
                          .state = call.state.recurrent(),
                          .out = at(&Layout::core),
                          .key_heads = c.heads,
                          .value_heads = c.heads,
                          .key_dim = c.head_dim,
                          .value_dim = c.head_dim,
                          .chunk = options.chunk,
                          .chunks = (tokens + options.chunk - 1) / options.chunk,
                          .tokens = tokens,
                          .scale = attention_scale(c)})
      .launch(call.stream);
}

template <class Inputs, class Finish>
void KdaLayer::Impl::prefill_piece(const LayerCall& call, std::uint32_t tokens, PadFill pad, const Inputs& inputs,
                                   const Finish& finish) const {
  ProjectedRows rows;
  measured(KdaSpan::front_end, call.stream, [&] {
    rows = inputs();
    gates(call, rows, tokens);
    convolve_tokens(call, tokens);
    split(call, tokens);
    if (pad.on) fill_padding(call, tokens, pad.value);
  });
  measured(KdaSpan::recurrence, call.stream, [&] { scan_chunks(call, tokens); });
  measured(KdaSpan::back_end, call.stream, [&] { finish(rows); });
}

void KdaLayer::Impl::prefill_hidden(std::string_view name, const LayerCall& call, DevicePtr hidden,
                                    std::uint32_t tokens, DevicePtr out, PadFill pad) const {
  check_call(name, tokens, call);
  if (!out) out = call.ws.final_out();
  check_rows(name, hidden, out);
  for_each_piece(tokens, piece_tokens(call.ws), [&](std::uint64_t first, std::uint32_t count) {
    const std::uint64_t row = first * config().hidden_size * sizeof(bf16);
    prefill_piece(
        call, count, pad, [&] { return project_inputs(call, hidden.offset(row), count, &Impl::project_matrix); },
        [&](const ProjectedRows& rows) {
          output_norm(call, rows, count, call.ws.at(&Layout::normed));
          project_output(call, count, out.offset(row), &Impl::project_matrix);
        });
  });
}

void KdaLayer::prefill(DevicePtr hidden, std::uint32_t tokens, KdaState& state, KdaWorkspace& ws, Stream stream,
                       DevicePtr out) const {
  impl_->prefill_hidden("KdaLayer::prefill", {state, ws, stream}, hidden, tokens, out, {});
}

void KdaLayer::prefill_with_pad_fill(DevicePtr hidden, std::uint32_t tokens, KdaState& state, KdaWorkspace& ws,
                                     Stream stream, float value, DevicePtr out) const {
  impl_->prefill_hidden("KdaLayer::prefill_with_pad_fill", {state, ws, stream}, hidden, tokens, out,
                        {.on = true, .value = value});
}

void KdaLayer::prefill_core(const KdaCoreInputs& inputs, std::uint32_t tokens, KdaState& state, KdaWorkspace& ws,
                            Stream stream, DevicePtr out) const {
  const LayerCall call{state, ws, stream};
  impl_->check_call("KdaLayer::prefill_core", tokens, call);
  impl_->check_core("KdaLayer::prefill_core", inputs, out);
  for_each_piece(tokens, impl_->piece_tokens(ws), [&](std::uint64_t first, std::uint32_t count) {
    impl_->prefill_piece(
        call, count, {}, [&] { return impl_->take_inputs(call, advance(inputs, impl_->config(), first), count); },
        [&](const ProjectedRows& rows) {
          impl_->output_norm(call, rows, count, out.offset(first * impl_->config().qkv() * sizeof(bf16)));
        });
  });
}

}  // namespace kdart
