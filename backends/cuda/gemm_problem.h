// One product as cuBLASLt has it described.
#pragma once

#include <cstdint>

#include "backends/cuda/cublaslt.h"
#include "kdart/types.h"

namespace kdart::cuda {

struct GemmShape {
  std::uint32_t n = 0, k = 0;
  bool bias = false;
  friend auto operator<=>(const GemmShape&, const GemmShape&) = default;
};

// Addresses and row strides (in elements) of C[m, n] = A[m, k] B[n, k]^T + bias.
struct GemmOperands {
  DevicePtr a, b, bias, c, workspace;
  std::uint32_t m = 0, lda = 0, ldb = 0, ldc = 0;
  std::uint64_t workspace_bytes = 0;
};

// The scratch that products get. Algorithms that hand out their tiles while they run count them in a few bytes of it.
constexpr std::uint64_t gemm_workspace_bytes = 256;

// What GemmService asks of a call. Throws invalid_argument naming the operand, its value and what is allowed.
void check_operands(const GemmOperands& x, const GemmShape& shape);

// The descriptors of one shape; rows and strides change from call to call. One call at a time.
//
// cuBLASLt counts columns first. Read so, C is D[n, m], B is a k x n matrix to be transposed, A is k x m: D = op(B) A. Its
// first operand is therefore the weight, and the bias, one per row of D, is its own epilogue.
class GemmProblem {
 public:
  // Throws what check_cublas throws, as the other functions here.
  GemmProblem(const CublasLtFunctions& lt, const GemmShape& shape);
  ~GemmProblem();
  GemmProblem(const GemmProblem&) = delete;
  GemmProblem& operator=(const GemmProblem&) = delete;

  void set_rows(std::uint32_t m);
  void set_bias(DevicePtr bias);
  // Describes the call, then makes it. The answer is the caller's to look at.
  [[nodiscard]] cublasStatus_t multiply(cublasLtHandle_t handle, const cublasLtMatmulAlgo_t& algorithm,
                                        const GemmOperands& operands, CUstream stream);
  // Whether the algorithm takes the product as it is described now, with no more than gemm_workspace_bytes.
  [[nodiscard]] bool takes(cublasLtHandle_t handle, const cublasLtMatmulAlgo_t& algorithm) const;
  // cuBLASLt's proposals, best first; at most `count`, into `results`. Returns how many there are.
  [[nodiscard]] int ask(cublasLtHandle_t handle, cublasLtMatmulHeuristicResult_t* results, int count) const;

 private:
  void set_stride(cublasLtMatrixLayout_t layout, std::uint32_t& known, std::uint32_t stride);
  void release() noexcept;

  const CublasLtFunctions* lt_;
  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatrixLayout_t weight_ = nullptr, input_ = nullptr, result_ = nullptr;
  // As the descriptors have it.
  std::uint32_t m_ = 1, lda_, ldb_, ldc_;
  DevicePtr bias_;
};

}  // namespace kdart::cuda
