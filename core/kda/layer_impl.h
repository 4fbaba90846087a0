// The layer's inside: which kernels it launches, and the steps that decode and prefill are made of.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kdart/gemm_service.h"
#include "kdart/kda_kernels.h"
#include "kdart/launch.h"
#include "kdart/layer.h"

namespace kdart {

// Handles of one loaded set, and the choices that follow from it. A handle of an optional kernel that the set lacks, or
// that the options forbid, is empty.
struct LayerKernels {
  KernelHandle dense_gemm_bf16, dense_gemv_bf16, dense_gemv_bf16_batchm;
  KernelHandle pack_qkv, gate, sigmoid, conv_decode, conv_prefill, l2, fill, split_widen;
  KernelHandle recurrent, recurrent_smem, chunk_prepare, chunk_scan, o_norm;
  std::uint32_t v_per_block = 0;  // recurrent_smem's tile
};

// c[m, n] = a[m, k] weight[n, k]^T, with a bias or without, for any m.
struct ProductShape {
  std::uint32_t n, k;
  bool bias;
  friend bool operator==(const ProductShape&, const ProductShape&) = default;
};

// Which of prefill's products the device's GEMM service does; dense_gemm_bf16 does all others.
struct LayerProducts {
  GemmService* service = nullptr;  // the backend's
  std::vector<ProductShape> shapes;
  KdaPrefillGemm count;
  [[nodiscard]] bool takes(const ProductShape& shape) const;
};

namespace detail {

// Looks every contract kernel up and decides the recurrent kernel. Throws kernel_not_found, unsupported.
[[nodiscard]] LayerKernels find_kernels(const LoadedSet& set, const KdaOptions& options, const KdaConfig& config,
                                        const DeviceInfo& device);
// Prepares every (kernel, block, shared memory) that a layer of this geometry launches.
void prepare_kernels(GpuBackend& backend, const LayerKernels& kernels, const KdaConfig& config, std::uint32_t chunk);
// Asks the device's GEMM service, where the options allow one, to prepare each of the layer's products. Throws
// unsupported, and what preparing throws.
[[nodiscard]] LayerProducts choose_products(GpuBackend& backend, const KdaDeviceWeights& weights,
                                            const KdaOptions& options);

}  // namespace detail

// One call's memory and stream.
struct LayerCall {
  KdaState& state;
  KdaWorkspace& ws;
  Stream stream;
};

// A row-major bf16 matrix times a weight: c[m, n] = a[m, k] weight[n, k]^T + bias. `ldc` is c's row stride; a's is k.
struct Projection {
  DevicePtr a, weight, bias, c;
  std::uint32_t m, n, k, ldc;
};

// Where the projected rows of f, b and z are: in the workspace, or the caller's. q | k | v is always in ws.qkv.
struct ProjectedRows {
  DevicePtr f, b, z;
};

// What prefill_with_pad_fill writes past the last token.
struct PadFill {
  bool on = false;
  float value = 0.0F;
};

// 1 / sqrt(D), rounded once.
[[nodiscard]] inline float attention_scale(const KdaConfig& config) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_dim)));
}

// The inputs from row `first` on.
[[nodiscard]] KdaCoreInputs advance(const KdaCoreInputs& inputs, const KdaConfig& config, std::uint64_t first);

// Calls step(first, count) for consecutive pieces of at most `most` tokens.
template <class Step>
void for_each_piece(std::uint32_t tokens, std::uint32_t most, const Step& step) {
  for (std::uint64_t first = 0; first < tokens; first += most) {
    step(first, static_cast<std::uint32_t>(std::min<std::uint64_t>(most, tokens - first)));
  }
}

struct KdaLayer::Impl {
  std::shared_ptr<const KdaDeviceWeights> weights;
  KdaOptions options;
  std::shared_ptr<LoadedSet> set;
  LayerKernels kernels;
  LayerProducts products;

  Impl(std::shared_ptr<const KdaDeviceWeights> device_weights, KdaOptions layer_options);

  [[nodiscard]] GpuBackend& gpu() const { return *weights->backend(); }
  [[nodiscard]] const KdaConfig& config() const { return weights->config; }

  // layer.cpp: what a call must satisfy before anything is launched.
  void check_call(std::string_view name, std::uint32_t tokens, const LayerCall& call) const;
  void check_rows(std::string_view name, DevicePtr hidden, DevicePtr out) const;
  void check_core(std::string_view name, const KdaCoreInputs& inputs, DevicePtr out) const;
  void check_snapshots(std::string_view name, std::uint32_t tokens, const KdaState& state,
                       std::span<const StateSnapshot> snapshots) const;
  // Most tokens in one piece of a prefill: whole chunks, within workspace and options.
  [[nodiscard]] std::uint32_t piece_tokens(const KdaWorkspace& ws) const;

  // layer_steps.cpp: what decode and prefill share.
  using Project = void (Impl::*)(const LayerCall&, const Projection&) const;
  [[nodiscard]] ProjectedRows project_inputs(const LayerCall& call, DevicePtr hidden, std::uint32_t tokens,
                                             Project project) const;
  [[nodiscard]] ProjectedRows take_inputs(const LayerCall& call, const KdaCoreInputs& inputs,
                                          std::uint32_t tokens) const;
  void gates(const LayerCall& call, const ProjectedRows& rows, std::uint32_t tokens) const;
  void split(const LayerCall& call, std::uint32_t tokens) const;
  void output_norm(const LayerCall& call, const ProjectedRows& rows, std::uint32_t tokens, DevicePtr out) const;
  void project_output(const LayerCall& call, std::uint32_t tokens, DevicePtr out, Project project) const;

  // layer_decode.cpp: row by row.
  void project_rows(const LayerCall& call, const Projection& projection) const;
  void convolve_rows(const LayerCall& call, std::uint32_t tokens, std::span<const StateSnapshot> snapshots) const;
  template <class Args>
  [[nodiscard]] Args recurrent_args(const LayerCall& call, std::uint32_t t) const;
  void recur_rows(const LayerCall& call, std::uint32_t tokens, std::span<const StateSnapshot> snapshots) const;
  template <class Inputs, class Finish>
  void decode_piece(const LayerCall& call, std::uint32_t tokens, std::span<const StateSnapshot> snapshots,
                    const Inputs& inputs, const Finish& finish) const;
  void decode_hidden(std::string_view name, const LayerCall& call, DevicePtr hidden, std::uint32_t tokens,
                     std::span<const StateSnapshot> snapshots, DevicePtr out) const;

  // layer_products.cpp: prefill's matrix products.
  void project_matrix(const LayerCall& call, const Projection& projection) const;
  void project_by_service(const LayerCall& call, const Projection& projection) const;
  void copy_elements(const LayerCall& call, DevicePtr to, DevicePtr from, std::uint64_t count) const;

  // layer_prefill.cpp: chunk by chunk.
  void convolve_tokens(const LayerCall& call, std::uint32_t tokens) const;
  void fill_padding(const LayerCall& call, std::uint32_t tokens, float value) const;
  void scan_chunks(const LayerCall& call, std::uint32_t tokens) const;
  template <class Inputs, class Finish>
  void prefill_piece(const LayerCall& call, std::uint32_t tokens, PadFill pad, const Inputs& inputs,
                     const Finish& finish) const;
  void prefill_hidden(std::string_view name, const LayerCall& call, DevicePtr hidden, std::uint32_t tokens,
                      DevicePtr out, PadFill pad) const;

  // Runs `step` between the profiler's begin and end of `span`.
  template <class Step>
  void measured(KdaSpan span, Stream stream, const Step& step) const {
    if (options.profiler != nullptr) options.profiler->begin(span, stream);
    step();
    if (options.profiler != nullptr) options.profiler->end(span, stream);
  }
};

}  // namespace kdart
