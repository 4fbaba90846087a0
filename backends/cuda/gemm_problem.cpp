#include "backends/cuda/gemm_problem.h"

#include <limits>

#include "core/runtime/fail.h"
#include "kdart/bf16.h"

namespace kdart::cuda {
namespace {

using detail::fail;

constexpr std::uint64_t alignment = 16;  // of addresses and, in bytes, of rows

void check_stride(std::string_view name, std::uint32_t stride, std::string_view width_name, std::uint32_t width) {
  if (stride < width || stride % (alignment / sizeof(bf16)) != 0) {
    fail(ErrorCode::invalid_argument, "gemm_bf16: {} is {}, it must be a multiple of 8 and at least {}, {}", name,
         stride, width_name, width);
  }
}

void check_operand(std::string_view name, DevicePtr memory) {
  if (!memory) fail(ErrorCode::invalid_argument, "gemm_bf16: {} is null", name);
  if (memory.address() % alignment != 0) {
    fail(ErrorCode::invalid_argument, "gemm_bf16: {} is at {:#x}, which is not a multiple of {} bytes", name,
         memory.address(), alignment);
  }
}

std::uint64_t extent(std::uint32_t rows, std::uint32_t stride, std::uint32_t width) {
  return ((std::uint64_t{rows} - 1) * stride + width) * sizeof(bf16);
}

void check_apart(std::string_view name, DevicePtr memory, std::uint64_t bytes, DevicePtr c, std::uint64_t c_bytes) {
  const bool apart = memory < c ? c.address() - memory.address() >= bytes : memory.address() - c.address() >= c_bytes;
  if (!apart) {
    fail(ErrorCode::invalid_argument, "gemm_bf16: {} ({} bytes at {:#x}) and c ({} bytes at {:#x}) overlap", name,
         bytes, memory.address(), c_bytes, c.address());
  }
}

const void* pointer(DevicePtr memory) noexcept {
  return reinterpret_cast<const void*>(memory.address());
}

// The alternatives may use what every call has and nothing more.
class Preference {
 public:
  explicit Preference(const CublasLtFunctions& lt) : lt_(&lt) {
    check_cublas(lt.preference_create(&preference_), "describing a choice of products");
    try {
      set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{0});
      set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, CUBLASLT_REDUCTION_SCHEME_NONE);
      for (const int operand : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                                CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
        set(operand, static_cast<std::uint32_t>(alignment));
    } catch (...) {
      static_cast<void>(lt.preference_destroy(preference_));
      throw;
    }
  }
  ~Preference() { static_cast<void>(lt_->preference_destroy(preference_)); }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;

  [[nodiscard]] cublasLtMatmulPreference_t get() const noexcept { return preference_; }

 private:
  template <class T>
  void set(int attribute, T value) {
    check_cublas(lt_->preference_set(preference_, attribute, &value, sizeof value), "describing a choice of products");
  }

  const CublasLtFunctions* lt_;
  cublasLtMatmulPreference_t preference_ = nullptr;
};

}  // namespace

void check_operands(const GemmOperands& x, const GemmShape& shape) {
  constexpr auto most = static_cast<std::uint32_t>(std::numeric_limits<std::int32_t>::max());
  if (x.m > most) fail(ErrorCode::invalid_argument, "gemm_bf16: m is {}, at most {} is allowed", x.m, most);
  check_stride("lda", x.lda, "k", shape.k);
  check_stride("ldb", x.ldb, "k", shape.k);
  check_stride("ldc", x.ldc, "n", shape.n);
  check_operand("a", x.a);
  check_operand("b", x.b);
  check_operand("c", x.c);
  if (x.m == 0) return;
  check_operand("workspace", x.workspace);
  if (x.workspace_bytes < gemm_workspace_bytes) {
    fail(ErrorCode::invalid_argument, "gemm_bf16: workspace has {} bytes, {} are needed", x.workspace_bytes,
         gemm_workspace_bytes);
  }
  const std::uint64_t c_bytes = extent(x.m, x.ldc, shape.n);
  check_apart("a", x.a, extent(x.m, x.lda, shape.k), x.c, c_bytes);
  check_apart("b", x.b, extent(shape.n, x.ldb, shape.k), x.c, c_bytes);
  if (!x.bias) return;
  check_operand("bias", x.bias);
  check_apart("bias", x.bias, shape.n * sizeof(bf16), x.c, c_bytes);
}

GemmProblem::GemmProblem(const CublasLtFunctions& lt, const GemmShape& shape)
    : lt_(&lt), lda_(shape.k), ldb_(shape.k), ldc_(shape.n) {
  constexpr std::string_view doing = "describing a product";
  try {
    check_cublas(lt.desc_create(&product_, CUBLAS_COMPUTE_32F, CUDA_R_32F), doing);
    check_cublas(lt.desc_set(product_, CUBLASLT_MATMUL_DESC_TRANSA, &CUBLAS_OP_T, sizeof CUBLAS_OP_T), doing);
    if (shape.bias) {
      check_cublas(
          lt.desc_set(product_, CUBLASLT_MATMUL_DESC_EPILOGUE, &CUBLASLT_EPILOGUE_BIAS, sizeof CUBLASLT_EPILOGUE_BIAS),
          doing);
    }
    check_cublas(lt.layout_create(&weight_, CUDA_R_16BF, shape.k, shape.n, shape.k), doing);
    check_cublas(lt.layout_create(&input_, CUDA_R_16BF, shape.k, m_, shape.k), doing);
    check_cublas(lt.layout_create(&result_, CUDA_R_16BF, shape.n, m_, shape.n), doing);
  } catch (...) {
    release();
    throw;
  }
}

GemmProblem::~GemmProblem() {
  release();
}

void GemmProblem::release() noexcept {
  for (cublasLtMatrixLayout_t layout : {weight_, input_, result_}) {
    if (layout != nullptr) static_cast<void>(lt_->layout_destroy(layout));
  }
  if (product_ != nullptr) static_cast<void>(lt_->desc_destroy(product_));
}

void GemmProblem::set_rows(std::uint32_t m) {
  if (m == m_) return;
  const std::uint64_t columns = m;
  m_ = 0;  // unknown, until all is well
  for (cublasLtMatrixLayout_t layout : {input_, result_}) {
    check_cublas(lt_->layout_set(layout, CUBLASLT_MATRIX_LAYOUT_COLS, &columns, sizeof columns),
                 "describing the rows of a product");
  }
  m_ = m;
}

void GemmProblem::set_bias(DevicePtr bias) {
  if (bias == bias_) return;
  const void* address = pointer(bias);
  check_cublas(
      lt_->desc_set(product_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(&address), sizeof address),
      "describing the bias of a product");
  bias_ = bias;
}

void GemmProblem::set_stride(cublasLtMatrixLayout_t layout, std::uint32_t& known, std::uint32_t stride) {
  if (stride == known) return;
  const std::int64_t leading = stride;
  known = 0;
  check_cublas(lt_->layout_set(layout, CUBLASLT_MATRIX_LAYOUT_LD, &leading, sizeof leading),
               "describing the strides of a product");
  known = stride;
}

cublasStatus_t GemmProblem::multiply(cublasLtHandle_t handle, const cublasLtMatmulAlgo_t& algorithm,
                                     const GemmOperands& operands, CUstream stream) {
  set_rows(operands.m);
  set_bias(operands.bias);
  set_stride(input_, lda_, operands.lda);
  set_stride(weight_, ldb_, operands.ldb);
  set_stride(result_, ldc_, operands.ldc);
  constexpr float one = 1.0F;
  constexpr float zero = 0.0F;
  void* c = reinterpret_cast<void*>(operands.c.address());
  return lt_->matmul(handle, product_, &one, pointer(operands.b), weight_, pointer(operands.a), input_, &zero, c,
                     result_, c, result_, &algorithm, reinterpret_cast<void*>(operands.workspace.address()),
                     gemm_workspace_bytes, stream);
}

bool GemmProblem::takes(cublasLtHandle_t handle, const cublasLtMatmulAlgo_t& algorithm) const {
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status =
      lt_->algo_check(handle, product_, weight_, input_, result_, result_, &algorithm, &result);
  switch (status) {
    case CUBLAS_STATUS_INVALID_VALUE:
    case CUBLAS_STATUS_NOT_SUPPORTED:
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return false;
    default:
      check_cublas(status, "looking at an algorithm of a product");
      return result.workspaceSize <= gemm_workspace_bytes;
  }
}

int GemmProblem::ask(cublasLtHandle_t handle, cublasLtMatmulHeuristicResult_t* results, int count) const {
  const Preference preference(*lt_);
  int found = 0;
  const cublasStatus_t status =
      lt_->heuristic(handle, product_, weight_, input_, result_, result_, preference.get(), count, results, &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return 0;
  check_cublas(status, "asking for the algorithms of a product");
  return found;
}

}  // namespace kdart::cuda
