// Offsets beyond 32 bits: slots and rows so far apart that element counts, and not only byte counts, pass 2^32. The memory
// is 18 GiB of which little is ever touched: on the CPU a sparse mapping, made known with import_memory.
#include <sys/mman.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdint>

#include "kdart/kda_kernels.h"
#include "tests/kda/kernels/problems.h"

namespace kdart::test {
namespace {

constexpr std::uint32_t rows = 3;
// Row 2 begins at element 2^32 + 128: an offset cut to 32 bits lands on row 0.
constexpr std::uint32_t far_stride = 0x80000000U + 64;
constexpr std::uint64_t array_spacing = 1 << 18;  // bytes between the first rows of two arrays

// Rows of several arrays, each row `far_stride` elements after the one before.
class FarMemory {
 public:
  explicit FarMemory(KernelRunner& runner) : backend_(runner.backend()) {
    if (backend_->info().backend != "cpu") {
      const std::uint64_t limit = backend_->info().limits.allocation;
      if (backend_->info().type == DeviceType::cpu) SKIP("its memory is the host's, and is not sparse");
      if (limit != 0 && limit < bytes) SKIP("one allocation here is at most " << limit << " bytes");
      if (backend_->memory_info().free < bytes) SKIP("less than 18 GiB of device memory are free");
      allocated_ = Buffer(backend_, bytes);
      base_ = allocated_.get();
      return;
    }
    memory_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory_ == MAP_FAILED) SKIP("this machine maps no 18 GiB of sparse memory");
    base_ = backend_->import_memory(reinterpret_cast<std::uintptr_t>(memory_), bytes);
  }
  FarMemory(const FarMemory&) = delete;
  FarMemory& operator=(const FarMemory&) = delete;
  ~FarMemory() {
    if (memory_ == MAP_FAILED) return;
    if (base_) backend_->release_import(base_);
    munmap(memory_, bytes);
  }

  // The address of a new array whose rows are those of `packed`.
  template <class T>
  DevicePtr array(const std::vector<T>& packed) {
    const DevicePtr first = base_.offset(arrays_++ * array_spacing);
    const std::size_t width = packed.size() / rows;
    REQUIRE(width * sizeof(T) <= array_spacing);
    for (std::uint64_t r = 0; r < rows; ++r) {
      backend_->copy_h2d(first.offset(r * far_stride * sizeof(T)), &packed[r * width], width * sizeof(T));
    }
    return first;
  }
  template <class T>
  DevicePtr array(std::size_t width) {
    return array(std::vector<T>(rows * width));
  }
  template <class T>
  std::vector<T> read(DevicePtr first, std::size_t width) const {
    std::vector<T> packed(rows * width);
    for (std::uint64_t r = 0; r < rows; ++r) {
      backend_->copy_d2h(&packed[r * width], first.offset(r * far_stride * sizeof(T)), width * sizeof(T));
    }
    return packed;
  }

 private:
  static constexpr std::uint64_t bytes = 2 * std::uint64_t{far_stride} * sizeof(float) + (64 << 20);

  std::shared_ptr<GpuBackend> backend_;
  void* memory_ = MAP_FAILED;
  Buffer allocated_;
  DevicePtr base_;
  std::uint64_t arrays_ = 0;
};

template <class Args>
void check_recurrent(KernelRunner& runner, const RecurrentProblem& p, Args args) {
  FarMemory memory(runner);
  const std::size_t elements = p.width() * p.head_dim;
  args.q = memory.array(p.q);
  args.k = memory.array(p.k);
  args.v = memory.array(p.v);
  args.gate = memory.array(p.gate);
  args.beta = memory.array(p.beta);
  args.state = memory.array(p.state);
  args.out = memory.array<float>(p.width());
  args.slot_stride = far_stride;
  args.slot_count = args.rows = rows;
  args.key_heads = args.value_heads = p.heads;
  args.key_dim = args.value_dim = p.head_dim;
  args.scale = p.scale;
  args.q_stride = args.k_stride = args.v_stride = args.gate_stride = args.beta_stride = args.out_stride = far_stride;
  runner.run(args);
  const auto near = p.run(runner);
  CHECK(same_bits(memory.read<float>(args.out, p.width()), near.out));
  CHECK(same_bits(memory.read<float>(args.state, elements), near.state));
}

template <class Args>
void check_projection(KernelRunner& runner) {
  INFO(Args::contract().name);
  auto p = GemmProblem::random(1, rows, 37, 264, true);
  FarMemory memory(runner);
  const DevicePtr c = memory.array<bf16>(p.n);
  runner.run(Args{.a = memory.array(packed(p.a, rows, p.k, p.lda)),
                  .b = runner.input(p.b, 16).get(),
                  .bias = runner.input(p.bias).get(),
                  .c = c,
                  .m = rows,
                  .n = p.n,
                  .k = p.k,
                  .lda = far_stride,
                  .ldc = far_stride});
  CHECK(same_bits(memory.read<bf16>(c, p.n), p.run<Args>(runner)));
}

}  // namespace

TEST_CASE("the recurrence reaches slots and rows beyond 2^32 elements", "[kernel][recurrent][far]") {
  KernelRunner runner;
  const auto p = RecurrentProblem::random(1, rows, 1, 64);
  check_recurrent(runner, p, kernels::RecurrentArgs{});
  if (runner.has("recurrent_smem")) {
    kernels::RecurrentSmemArgs args{};
    args.v_per_block = 32;
    check_recurrent(runner, p, args);
  }
}

TEST_CASE("projections reach rows beyond 2^32 elements", "[kernel][gemm][far]") {
  KernelRunner runner;
  check_projection<kernels::DenseGemmBf16Args>(runner);
  check_projection<kernels::DenseGemvBf16Args>(runner);
  if (runner.has("dense_gemv_bf16_batchm")) check_projection<kernels::DenseGemvBf16BatchmArgs>(runner);
}

TEST_CASE("conv_decode reaches slots and rows beyond 2^32 elements", "[kernel][conv][far]") {
  KernelRunner runner;
  const auto p = ConvProblem::random(2, rows, 1, 64);
  const std::size_t window = p.state.size();
  std::vector<float> windows;  // each row a sequence of its own
  for (std::uint32_t r = 0; r < rows; ++r) {
    for (const float value : p.state) windows.push_back(value + static_cast<float>(r));
  }
  FarMemory memory(runner);
  const DevicePtr state = memory.array(windows);
  const DevicePtr out = memory.array<bf16>(p.channels());
  const auto w = runner.input(p.w);
  runner.run(kernels::ConvDecodeArgs{.state = state,
                                     .x = memory.array(p.x),
                                     .w = w.get(),
                                     .out = out,
                                     .slots = {},
                                     .slot_stride = far_stride,
                                     .slot_count = rows,
                                     .rows = rows,
                                     .channels = p.channels(),
                                     .taps = ConvProblem::taps,
                                     .qk_channels = p.qk_channels(),
                                     .head_dim = p.head_dim,
                                     .l2_eps = p.l2_eps,
                                     .x_stride = far_stride,
                                     .out_stride = far_stride});
  const auto found = memory.read<bf16>(out, p.channels());
  const auto found_state = memory.read<float>(state, window);
  for (std::size_t r = 0; r < rows; ++r) {
    ConvProblem alone = p;
    alone.tokens = 1;
    alone.x.assign(&p.x[r * p.channels()], &p.x[r * p.channels()] + p.channels());
    alone.state.assign(&windows[r * window], &windows[r * window] + window);
    const auto near = alone.decode(runner);
    CHECK(same_bits(std::vector<bf16>(&found[r * p.channels()], &found[r * p.channels()] + p.channels()), near.out));
    CHECK(same_bits(std::vector<float>(&found_state[r * window], &found_state[r * window] + window), near.state));
  }
}

TEST_CASE("conv_prefill and l2 reach rows beyond 2^32 elements", "[kernel][conv][far]") {
  KernelRunner runner;
  const auto p = ConvProblem::random(3, rows, 1, 64);
  FarMemory memory(runner);
  const auto state = runner.inout(p.state);
  const auto w = runner.input(p.w);
  const DevicePtr silu = memory.array<float>(p.channels());
  const DevicePtr out = memory.array<bf16>(p.channels());
  runner.run(kernels::ConvPrefillArgs{.state = state.get(),
                                      .x = memory.array(p.x),
                                      .w = w.get(),
                                      .out = silu,
                                      .channels = p.channels(),
                                      .taps = ConvProblem::taps,
                                      .tokens = rows,
                                      .x_stride = far_stride,
                                      .out_stride = far_stride});
  runner.run(kernels::L2Args{.in = silu,
                             .out = out,
                             .tokens = rows,
                             .channels = p.channels(),
                             .qk_channels = p.qk_channels(),
                             .head_dim = p.head_dim,
                             .l2_eps = p.l2_eps,
                             .in_stride = far_stride,
                             .out_stride = far_stride});
  std::vector<float> near_silu;
  const auto near = p.prefill(runner, &near_silu);
  CHECK(same_bits(memory.read<float>(silu, p.channels()), near_silu));
  CHECK(same_bits(memory.read<bf16>(out, p.channels()), near.out));
  CHECK(same_bits(state.read(), near.state));
}

}  // namespace kdart::test
