#include "kdart/workspace.h"

#include <algorithm>
#include <utility>

#include "core/kda/checks.h"
#include "core/runtime/fail.h"

namespace kdart {
namespace {

constexpr std::uint64_t alignment = 256;

std::uint64_t round_up(std::uint64_t x, std::uint64_t multiple) {
  return (x + multiple - 1) / multiple * multiple;
}

std::uint64_t rows_in_flight(std::uint32_t max_tokens, std::uint32_t max_tokens_per_launch) {
  if (max_tokens_per_launch == 0) return max_tokens;
  return std::min<std::uint64_t>(max_tokens, round_up(max_tokens_per_launch, KdaWorkspace::max_chunk));
}

// Places one part after the other.
class Planner {
 public:
  std::uint64_t place(std::uint64_t elements, std::uint64_t element_bytes) {
    std::uint64_t bytes = 0;
    const std::uint64_t start = end_;
    if (__builtin_mul_overflow(elements, element_bytes, &bytes) || bytes > limit || start > limit) {
      detail::fail(ErrorCode::invalid_argument, "KdaWorkspace: this geometry and max_tokens need more than {} bytes",
                   limit);
    }
    end_ = round_up(start + bytes, alignment);
    return start;
  }
  // Places it from `start` on, over parts that are there already.
  std::uint64_t place_over(std::uint64_t start, std::uint64_t elements, std::uint64_t element_bytes) {
    const std::uint64_t end = std::exchange(end_, start);
    place(elements, element_bytes);
    end_ = std::max(end_, end);
    return start;
  }
  [[nodiscard]] std::uint64_t end() const { return end_; }

 private:
  static constexpr std::uint64_t limit = std::uint64_t{1} << 60;
  std::uint64_t end_ = 0;
};

KdaWorkspace::Layout plan(const KdaConfig& config, std::uint64_t max_tokens, std::uint64_t rows) {
  const std::uint64_t padded = round_up(rows, KdaWorkspace::max_chunk);
  const std::uint64_t qkv = config.qkv();
  constexpr std::uint64_t bf16_bytes = 2;
  constexpr std::uint64_t f32_bytes = 4;
  Planner planner;
  KdaWorkspace::Layout layout;
  layout.qkv = planner.place(rows * 3 * qkv, bf16_bytes);
  layout.f_a = planner.place(rows * config.decay_rank, bf16_bytes);
  layout.f = planner.place(rows * qkv, bf16_bytes);
  layout.b = planner.place(rows * config.heads, bf16_bytes);
  layout.g_a = planner.place(rows * config.output_gate_rank, bf16_bytes);
  layout.z = planner.place(rows * qkv, bf16_bytes);
  layout.gate = planner.place(padded * qkv, f32_bytes);
  layout.beta = planner.place(padded * config.heads, f32_bytes);
  // The convolution's f32 output is dead once l2 has rounded it, before chunk_prepare writes gc, u and w.
  layout.gc = planner.place(padded * qkv, f32_bytes);
  layout.u = planner.place(padded * qkv, f32_bytes);
  layout.w = planner.place(padded * qkv, f32_bytes);
  layout.conv_f32 = layout.gc;
  layout.conv_bf16 = planner.place(rows * 3 * qkv, bf16_bytes);
  layout.q = planner.place(padded * qkv, f32_bytes);
  layout.k = planner.place(padded * qkv, f32_bytes);
  layout.v = planner.place(padded * qkv, f32_bytes);
  layout.core = planner.place(rows * qkv, f32_bytes);
  // When the last product runs, what it needs is in normed.
  layout.unaligned_out = planner.place_over(layout.gc, rows * config.hidden_size, bf16_bytes);
  layout.normed = planner.place(rows * qkv, bf16_bytes);
  layout.final_out = planner.place(max_tokens * config.hidden_size, bf16_bytes);
  layout.total = planner.end();
  return layout;
}

void check_tokens(std::uint32_t max_tokens) {
  if (max_tokens == 0) detail::fail(ErrorCode::invalid_argument, "KdaWorkspace: max_tokens is 0, at least 1 is needed");
}

}  // namespace

std::uint64_t KdaWorkspace::bytes(const KdaConfig& config, std::uint32_t max_tokens,
                                  std::uint32_t max_tokens_per_launch) {
  config.validate();
  check_tokens(max_tokens);
  return plan(config, max_tokens, rows_in_flight(max_tokens, max_tokens_per_launch)).total;
}

KdaWorkspace::KdaWorkspace(std::shared_ptr<GpuBackend> backend, const KdaConfig& config, std::uint32_t max_tokens,
                           std::uint32_t max_tokens_per_launch)
    : backend_(std::move(backend)), config_(config), max_tokens_(max_tokens) {
  detail::check_backend("KdaWorkspace", backend_);
  const std::uint64_t total = bytes(config, max_tokens, max_tokens_per_launch);
  rows_ = static_cast<std::uint32_t>(rows_in_flight(max_tokens, max_tokens_per_launch));
  layout_ = plan(config_, max_tokens_, rows_);
  own_ = Buffer(backend_, total);
  base_ = own_.get();
}

KdaWorkspace::KdaWorkspace(std::shared_ptr<GpuBackend> backend, const KdaConfig& config, DevicePtr memory,
                           std::uint32_t max_tokens, std::uint32_t max_tokens_per_launch)
    : backend_(std::move(backend)), config_(config), max_tokens_(max_tokens), base_(memory) {
  detail::check_backend("KdaWorkspace", backend_);
  const std::uint64_t total = bytes(config, max_tokens, max_tokens_per_launch);
  rows_ = static_cast<std::uint32_t>(rows_in_flight(max_tokens, max_tokens_per_launch));
  layout_ = plan(config_, max_tokens_, rows_);
  detail::check_memory(*backend_, "KdaWorkspace", "memory", base_, total, alignment);
}

}  // namespace kdart
