// Which kernels of a set a layer uses, and getting each ready.
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "core/kda/layer_impl.h"
#include "core/runtime/fail.h"

namespace kdart::detail {
namespace {

using namespace kernels;

// recurrent_smem asks for no more than every device gives without opting in, even where more is there: a set's tile is
// chosen for that.
constexpr std::uint64_t recurrent_shared_limit = 49152;

constexpr std::array<std::pair<std::string_view, KernelHandle LayerKernels::*>, 16> members = {{
    {"dense_gemm_bf16", &LayerKernels::dense_gemm_bf16},
    {"dense_gemv_bf16", &LayerKernels::dense_gemv_bf16},
    {"dense_gemv_bf16_batchm", &LayerKernels::dense_gemv_bf16_batchm},
    {"pack_qkv", &LayerKernels::pack_qkv},
    {"gate", &LayerKernels::gate},
    {"sigmoid", &LayerKernels::sigmoid},
    {"conv_decode", &LayerKernels::conv_decode},
    {"conv_prefill", &LayerKernels::conv_prefill},
    {"l2", &LayerKernels::l2},
    {"fill", &LayerKernels::fill},
    {"split_widen", &LayerKernels::split_widen},
    {"recurrent", &LayerKernels::recurrent},
    {"recurrent_smem", &LayerKernels::recurrent_smem},
    {"chunk_prepare", &LayerKernels::chunk_prepare},
    {"chunk_scan", &LayerKernels::chunk_scan},
    {"o_norm", &LayerKernels::o_norm},
}};

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void check_without(const Contract& contract, const std::vector<std::string>& without) {
  for (const std::string& name : without) {
    const ContractKernel* kernel = contract.find(name);
    if (kernel == nullptr) {
      fail(ErrorCode::kernel_not_found, "KdaOptions: 'without' names '{}', which is no kernel of set '{}'", name,
           contract.set);
    }
    if (kernel->required) {
      fail(ErrorCode::kernel_not_found, "KdaOptions: 'without' names '{}', which the layer cannot do without", name);
    }
  }
}

// The contract's own formula says how much it needs.
template <class Args>
LaunchShape shape_of(const Args& args) {
  std::array<std::byte, max_argument_bytes> block{};
  std::memcpy(block.data(), &args, Args::contract().argument_bytes);
  return Args::contract().shape(block.data());
}

RecurrentSmemArgs smem_geometry(const KdaConfig& config, std::uint32_t v_per_block) {
  RecurrentSmemArgs args{};
  args.rows = 1;
  args.key_heads = args.value_heads = config.heads;
  args.key_dim = args.value_dim = config.head_dim;
  args.v_per_block = v_per_block;
  return args;
}

bool smem_fits(const KdaConfig& config, std::uint32_t v_per_block, const DeviceLimits& limits) {
  if (v_per_block == 0 || config.head_dim % v_per_block != 0) return false;
  const std::uint64_t limit = std::min(recurrent_shared_limit, limits.shared_memory_per_block);
  return shape_of(smem_geometry(config, v_per_block)).shared_bytes <= limit;
}

}  // namespace

LayerKernels find_kernels(const LoadedSet& set, const KdaOptions& options, const KdaConfig& config,
                          const DeviceInfo& device) {
  const Contract& contract = kda_contract();
  check_without(contract, options.without);
  LayerKernels kernels;
  for (const auto& [name, member] : members) {
    if (contains(options.without, name)) continue;
    kernels.*member = contract.find(name)->required ? set.get(name) : set.find(name);
  }
  if (kernels.recurrent_smem) {
    kernels.v_per_block = set.tunable("recurrent_smem", "v_per_block", 32);
    if (!smem_fits(config, kernels.v_per_block, device.limits)) kernels.recurrent_smem = {};
  }
  return kernels;
}

void prepare_kernels(GpuBackend& backend, const LayerKernels& kernels, const KdaConfig& config, std::uint32_t chunk) {
  const auto prepare = [&](KernelHandle kernel, const auto& args) {
    if (!kernel) return;
    const LaunchShape shape = shape_of(args);
    try {
      backend.prepare(kernel, shape.block, shape.shared_bytes);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::invalid_launch) throw;
      fail(ErrorCode::unsupported, "{} cannot run this layer: {}", backend.info().id, error.what());
    }
  };
  const std::uint32_t d = config.head_dim;
  prepare(kernels.dense_gemm_bf16, DenseGemmBf16Args{});
  prepare(kernels.dense_gemv_bf16, DenseGemvBf16Args{});
  for (std::uint32_t m = 2; m <= 16; ++m) {
    DenseGemvBf16BatchmArgs args{};
    args.m = m;
    prepare(kernels.dense_gemv_bf16_batchm, args);
  }
  prepare(kernels.pack_qkv, PackQkvArgs{});
  prepare(kernels.gate, GateArgs{});
  prepare(kernels.sigmoid, SigmoidArgs{});
  prepare(kernels.conv_decode, ConvDecodeArgs{});
  prepare(kernels.conv_prefill, ConvPrefillArgs{});
  prepare(kernels.l2, L2Args{});
  prepare(kernels.fill, FillArgs{});
  prepare(kernels.split_widen, SplitWidenArgs{});
  RecurrentArgs recurrent{};
  recurrent.key_dim = recurrent.value_dim = d;
  prepare(kernels.recurrent, recurrent);
  prepare(kernels.recurrent_smem, smem_geometry(config, std::max(kernels.v_per_block, 1U)));
  ChunkPrepareArgs chunk_prepare{};
  chunk_prepare.key_dim = chunk_prepare.value_dim = d;
  chunk_prepare.chunk = chunk;
  prepare(kernels.chunk_prepare, chunk_prepare);
  ChunkScanArgs chunk_scan{};
  chunk_scan.key_dim = chunk_scan.value_dim = d;
  chunk_scan.chunk = chunk;
  prepare(kernels.chunk_scan, chunk_scan);
  ONormArgs o_norm{};
  o_norm.head_dim = d;
  prepare(kernels.o_norm, o_norm);
}

}  // namespace kdart::detail
