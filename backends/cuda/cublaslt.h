// What this backend uses of cuBLASLt: its types, numbers and entry points, as the binary interfaces of versions 11 to 13
// have them, and the library opened at run time. Written out here, so that building needs no toolkit; a test compares it
// with cublasLt.h where there is one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/api.h"
#include "core/runtime/driver_library.h"
#include "kdart/device_info.h"
#include "kdart/error.h"

namespace kdart::cuda {

// NOLINTBEGIN(readability-identifier-naming, bugprone-macro-parentheses): the library's names, and parameter lists.
// --- types ------------------------------------------------------------------------------------------------------------

using cublasStatus_t = int;
using cublasLtHandle_t = struct cublasLtContext*;
using cublasLtMatmulDesc_t = struct cublasLtMatmulDescOpaque*;
using cublasLtMatrixLayout_t = struct cublasLtMatrixLayoutOpaque*;
using cublasLtMatmulPreference_t = struct cublasLtMatmulPreferenceOpaque*;

struct cublasLtMatmulAlgo_t {
  std::uint64_t data[8];
};

struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  std::size_t workspaceSize;
  cublasStatus_t state;
  float wavesCount;
  int reserved[4];
};

// --- numbers ----------------------------------------------------------------------------------------------------------

// X(name, number): the answers that kdart knows.
#define KDART_CUBLAS_STATUSES(X)        \
  X(CUBLAS_STATUS_SUCCESS, 0)           \
  X(CUBLAS_STATUS_NOT_INITIALIZED, 1)   \
  X(CUBLAS_STATUS_ALLOC_FAILED, 3)      \
  X(CUBLAS_STATUS_INVALID_VALUE, 7)     \
  X(CUBLAS_STATUS_ARCH_MISMATCH, 8)     \
  X(CUBLAS_STATUS_MAPPING_ERROR, 11)    \
  X(CUBLAS_STATUS_EXECUTION_FAILED, 13) \
  X(CUBLAS_STATUS_INTERNAL_ERROR, 14)   \
  X(CUBLAS_STATUS_NOT_SUPPORTED, 15)    \
  X(CUBLAS_STATUS_LICENSE_ERROR, 16)

enum : cublasStatus_t {
#define KDART_CUBLAS_STATUS(name, number) name = (number),
  KDART_CUBLAS_STATUSES(KDART_CUBLAS_STATUS)
#undef KDART_CUBLAS_STATUS
};

constexpr int CUDA_R_32F = 0;
constexpr int CUDA_R_16BF = 14;
constexpr int CUBLAS_COMPUTE_32F = 68;
constexpr std::int32_t CUBLAS_OP_T = 1;

constexpr int CUBLASLT_MATRIX_LAYOUT_COLS = 3;  // uint64_t
constexpr int CUBLASLT_MATRIX_LAYOUT_LD = 4;    // int64_t

constexpr int CUBLASLT_MATMUL_DESC_TRANSA = 3;        // int32_t
constexpr int CUBLASLT_MATMUL_DESC_EPILOGUE = 7;      // uint32_t
constexpr int CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8;  // void*
constexpr std::uint32_t CUBLASLT_EPILOGUE_BIAS = 4;

constexpr int CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1;    // uint64_t
constexpr int CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3;  // uint32_t
constexpr int CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5;  // uint32_t, as the three after it
constexpr int CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6;
constexpr int CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7;
constexpr int CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8;
constexpr std::uint32_t CUBLASLT_REDUCTION_SCHEME_NONE = 0;

constexpr int CUBLASLT_ALGO_CONFIG_ID = 0;                // int32_t
constexpr int CUBLASLT_ALGO_CONFIG_TILE_ID = 1;           // uint32_t
constexpr int CUBLASLT_ALGO_CONFIG_SPLITK_NUM = 2;        // int32_t
constexpr int CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME = 3;  // uint32_t

// --- entry points -----------------------------------------------------------------------------------------------------
//
// X(member of CublasLtFunctions, the library's symbol, parameters); all answer a cublasStatus_t. `int` stands for the
// library's enumerations.

#define KDART_CUBLASLT_FUNCTIONS(X)                                                                                    \
  X(create, "cublasLtCreate", (cublasLtHandle_t*))                                                                     \
  X(destroy, "cublasLtDestroy", (cublasLtHandle_t))                                                                    \
  X(layout_create, "cublasLtMatrixLayoutCreate",                                                                       \
    (cublasLtMatrixLayout_t*, int type, std::uint64_t rows, std::uint64_t cols, std::int64_t ld))                      \
  X(layout_destroy, "cublasLtMatrixLayoutDestroy", (cublasLtMatrixLayout_t))                                           \
  X(layout_set, "cublasLtMatrixLayoutSetAttribute", (cublasLtMatrixLayout_t, int, const void*, std::size_t))           \
  X(desc_create, "cublasLtMatmulDescCreate", (cublasLtMatmulDesc_t*, int compute, int scale))                          \
  X(desc_destroy, "cublasLtMatmulDescDestroy", (cublasLtMatmulDesc_t))                                                 \
  X(desc_set, "cublasLtMatmulDescSetAttribute", (cublasLtMatmulDesc_t, int, const void*, std::size_t))                 \
  X(preference_create, "cublasLtMatmulPreferenceCreate", (cublasLtMatmulPreference_t*))                                \
  X(preference_destroy, "cublasLtMatmulPreferenceDestroy", (cublasLtMatmulPreference_t))                               \
  X(preference_set, "cublasLtMatmulPreferenceSetAttribute",                                                            \
    (cublasLtMatmulPreference_t, int, const void*, std::size_t))                                                       \
  X(heuristic, "cublasLtMatmulAlgoGetHeuristic",                                                                       \
    (cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,                       \
     cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t, int,                              \
     cublasLtMatmulHeuristicResult_t*, int*))                                                                          \
  X(algo_check, "cublasLtMatmulAlgoCheck",                                                                             \
    (cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,                       \
     cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t*,                                  \
     cublasLtMatmulHeuristicResult_t*))                                                                                \
  X(algo_get, "cublasLtMatmulAlgoConfigGetAttribute",                                                                  \
    (const cublasLtMatmulAlgo_t*, int, void*, std::size_t, std::size_t*))                                              \
  X(matmul, "cublasLtMatmul",                                                                                          \
    (cublasLtHandle_t, cublasLtMatmulDesc_t, const void* alpha, const void* a, cublasLtMatrixLayout_t, const void* b,  \
     cublasLtMatrixLayout_t, const void* beta, const void* c, cublasLtMatrixLayout_t, void* d, cublasLtMatrixLayout_t, \
     const cublasLtMatmulAlgo_t*, void* workspace, std::size_t workspace_bytes, CUstream))

// The table. It is filled once and never changed.
struct CublasLtFunctions {
#define KDART_CUBLASLT_MEMBER(member, symbol, parameters) cublasStatus_t(*member) parameters = nullptr;
  KDART_CUBLASLT_FUNCTIONS(KDART_CUBLASLT_MEMBER)
#undef KDART_CUBLASLT_MEMBER
};
// NOLINTEND(readability-identifier-naming, bugprone-macro-parentheses)

class CublasLtLibrary {
 public:
  // Opens what OpenOptions::gemm_library names; else a copy that the process has, or the newest that a driver of
  // `cuda_version` (1000 * major) takes. Throws Error: driver_missing, driver_too_old (an entry point is absent).
  CublasLtLibrary(const OpenOptions& options, int cuda_version);
  // What is looked for: a library of a later major version than the driver's would open, and then refuse to start.
  [[nodiscard]] static std::vector<std::string> names_for(int cuda_version);

  [[nodiscard]] const CublasLtFunctions& functions() const noexcept { return functions_; }
  [[nodiscard]] const std::string& file() const noexcept { return library_.file(); }
  [[nodiscard]] std::size_t version() const noexcept { return version_; }  // as 130002; 0 when it does not say

 private:
  detail::DriverLibrary library_;
  CublasLtFunctions functions_;
  std::size_t version_ = 0;
};

// "CUBLAS_STATUS_NOT_SUPPORTED"; "cublasStatus_t" and the number for one that this build does not know.
[[nodiscard]] std::string status_name(cublasStatus_t status);
// What an answer means to a caller. One that is not known is driver_error, kept by its number.
[[nodiscard]] ErrorCode code_of_status(cublasStatus_t status) noexcept;
// Throws for an answer other than CUBLAS_STATUS_SUCCESS.
[[noreturn]] void fail_cublas(cublasStatus_t status, std::string_view doing);
inline void check_cublas(cublasStatus_t status, std::string_view doing) {
  if (status != CUBLAS_STATUS_SUCCESS) [[unlikely]]
    fail_cublas(status, doing);
}

}  // namespace kdart::cuda
