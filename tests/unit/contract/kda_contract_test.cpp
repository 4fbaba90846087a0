// The generated contract: offsets, formulas and extents as the library sees them.
#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>
#include <vector>

#include "kdart/kda_kernels.h"
#include "kdart/launch.h"

namespace kdart::kernels {
namespace {

template <KernelArguments Args>
std::array<std::byte, max_argument_bytes> block_of(const Args& args) {
  std::array<std::byte, max_argument_bytes> block{};
  std::memcpy(block.data(), &args, Args::contract().argument_bytes);
  return block;
}

template <KernelArguments Args>
LaunchShape shape_of(const Args& args) {
  return Args::contract().shape(block_of(args).data());
}

template <KernelArguments Args>
std::uint64_t extent_of(const Args& args, std::string_view argument) {
  const ContractKernel& kernel = Args::contract();
  std::vector<std::uint64_t> elements(kernel.args.size(), 12345);
  kernel.extents(block_of(args).data(), elements.data());
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (kernel.args[i].name == argument) return elements[i];
  }
  FAIL("no argument " << argument);
  return 0;
}

RecurrentSmemArgs recurrent_smem(std::uint32_t rows, std::uint32_t v_per_block) {
  RecurrentSmemArgs args{};
  args.slot_stride = 1'000'000;
  args.slot_count = rows;
  args.rows = rows;
  args.key_heads = args.value_heads = 64;
  args.key_dim = args.value_dim = 128;
  args.q_stride = 8192;
  args.beta_stride = 64;
  args.v_per_block = v_per_block;
  return args;
}

}  // namespace

TEST_CASE("the contract lists every kernel with arguments in natural order", "[contract]") {
  const Contract& contract = kda_contract();
  CHECK(contract.set == "kda");
  CHECK(contract.kernels.size() == 16);
  for (const ContractKernel& kernel : contract.kernels) {
    INFO(kernel.name);
    CHECK(contract.find(kernel.name) == &kernel);
    std::uint32_t end = 0;
    for (const ContractArg& arg : kernel.args) {
      INFO(arg.name);
      CHECK(arg.offset >= end);
      CHECK(arg.offset < end + arg.size);
      CHECK(arg.offset % arg.size == 0);
      CHECK((arg.kind == ArgKind::ptr) == (arg.access != ArgAccess::none));
      CHECK((arg.kind == ArgKind::ptr) == !arg.extent.empty());
      CHECK((arg.kind == ArgKind::ptr) == (arg.alignment > 0));
      end = std::uint32_t{arg.offset} + arg.size;
    }
    CHECK(kernel.argument_bytes == end);
  }
  CHECK(contract.find("no_such_kernel") == nullptr);
}

TEST_CASE("optional kernels and nullable arguments are told apart", "[contract]") {
  for (const ContractKernel& kernel : kda_contract().kernels) {
    INFO(kernel.name);
    CHECK(kernel.required == (kernel.name != "recurrent_smem" && kernel.name != "dense_gemv_bf16_batchm"));
    for (const ContractArg& arg : kernel.args) CHECK(arg.nullable == (arg.name == "bias" || arg.name == "slots"));
  }
}

TEST_CASE("a launch takes its shape from the formulas", "[contract]") {
  CHECK(shape_of(recurrent_smem(3, 32)).grid == Dim3{64, 4, 3});
  CHECK(shape_of(recurrent_smem(3, 32)).block == Dim3{32, 1, 1});
  CHECK(shape_of(recurrent_smem(3, 32)).shared_bytes == (3 * 128 + 32 * 129) * 4);
  CHECK(shape_of(recurrent_smem(3, 64)).shared_bytes == 34'560);

  DenseGemvBf16Args gemv{};
  gemv.m = 1;
  gemv.n = 65;
  CHECK(shape_of(gemv).grid == Dim3{3, 1, 1});

  ChunkPrepareArgs prepare{};
  prepare.value_heads = 12;
  prepare.key_dim = 128;
  prepare.chunk = 32;
  prepare.tokens = 33;
  CHECK(shape_of(prepare).grid == Dim3{2, 12, 1});
  CHECK(shape_of(prepare).shared_bytes == (32 * 128 + 32 * 32 + 32) * 4);

  ChunkScanArgs scan{};
  scan.key_dim = 128;
  scan.chunk = 32;
  CHECK(shape_of(scan).shared_bytes == 36'864);
}

TEST_CASE("grid axes stop at 65,535 and a count of 0 gives a grid of 0", "[contract]") {
  FillArgs fill{};
  fill.n = std::uint64_t{1} << 40;
  CHECK(shape_of(fill).grid == Dim3{65535, 1, 1});
  fill.n = std::uint64_t{65535} * 256;
  CHECK(shape_of(fill).grid == Dim3{65535, 1, 1});
  fill.n = std::uint64_t{65534} * 256;
  CHECK(shape_of(fill).grid == Dim3{65534, 1, 1});
  fill.n = 0;
  CHECK(shape_of(fill).grid == Dim3{0, 1, 1});
}

TEST_CASE("formulas saturate instead of wrapping", "[contract]") {
  constexpr std::uint32_t most = std::numeric_limits<std::uint32_t>::max();
  ChunkPrepareArgs prepare{};
  prepare.key_dim = most;
  prepare.chunk = most;
  CHECK(shape_of(prepare).shared_bytes == most);

  // v_per_block 0 divides by zero: no blocks, and a block of no threads, which a launch refuses.
  CHECK(shape_of(recurrent_smem(1, 0)).grid.y == 0);
  CHECK(shape_of(recurrent_smem(1, 0)).block.x == 0);

  RecurrentArgs recurrent{};
  recurrent.slot_count = most;
  recurrent.slot_stride = std::numeric_limits<std::uint64_t>::max();
  CHECK(extent_of(recurrent, "state") == std::numeric_limits<std::uint64_t>::max());
}

TEST_CASE("extents count the elements that a kernel may touch", "[contract]") {
  const auto args = recurrent_smem(3, 32);
  CHECK(extent_of(args, "q") == 2 * 8192 + 64 * 128);
  CHECK(extent_of(args, "beta") == 2 * 64 + 64);
  CHECK(extent_of(args, "state") == 2'000'000 + 64 * 128 * 128);
  CHECK(extent_of(args, "slots") == 3);
  CHECK(extent_of(args, "rows") == 0);  // a scalar

  // A million tokens: more elements than 32 bits count.
  GateArgs gate{};
  gate.tokens = 1 << 20;
  gate.heads = 64;
  gate.head_dim = 128;
  CHECK(extent_of(gate, "out") == std::uint64_t{1} << 33);

  DenseGemmBf16Args gemm{};
  gemm.m = 5;
  gemm.n = 3;
  gemm.k = 8;
  gemm.lda = 16;
  gemm.ldc = 4;
  CHECK(extent_of(gemm, "a") == 4 * 16 + 8);
  CHECK(extent_of(gemm, "b") == 24);
  CHECK(extent_of(gemm, "c") == 4 * 4 + 3);
}

}  // namespace kdart::kernels
