// The backend's own words for cuBLASLt against the toolkit's header, where there is one.
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <type_traits>

#include "backends/cuda/cublaslt.h"

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>

namespace kdart::test {
namespace {

// Passed alike: of one size, and both addresses or neither.
template <class A, class B>
constexpr bool passed_alike = sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>;

template <class Ours, class Theirs>
constexpr bool called_alike = false;
template <class R, class... A, class S, class... B>
constexpr bool called_alike<R (*)(A...), S (*)(B...)> = [] {
  if constexpr (sizeof...(A) == sizeof...(B)) {
    return passed_alike<R, S> && (passed_alike<A, B> && ...);
  } else {
    return false;
  }
}();

using Functions = cuda::CublasLtFunctions;

}  // namespace

TEST_CASE("cuda: the words for cuBLASLt are those of its header", "[cuda][gemm][no-device]") {
#define KDART_TEST_STATUS(name, number) CHECK(static_cast<int>(::name) == (number));
  KDART_CUBLAS_STATUSES(KDART_TEST_STATUS)
#undef KDART_TEST_STATUS
#define KDART_TEST_NUMBER(name) CHECK(static_cast<long long>(::name) == static_cast<long long>(cuda::name));
  KDART_TEST_NUMBER(CUDA_R_32F)
  KDART_TEST_NUMBER(CUDA_R_16BF)
  KDART_TEST_NUMBER(CUBLAS_COMPUTE_32F)
  KDART_TEST_NUMBER(CUBLAS_OP_T)
  KDART_TEST_NUMBER(CUBLASLT_MATRIX_LAYOUT_COLS)
  KDART_TEST_NUMBER(CUBLASLT_MATRIX_LAYOUT_LD)
  KDART_TEST_NUMBER(CUBLASLT_MATMUL_DESC_TRANSA)
  KDART_TEST_NUMBER(CUBLASLT_MATMUL_DESC_EPILOGUE)
  KDART_TEST_NUMBER(CUBLASLT_MATMUL_DESC_BIAS_POINTER)
  KDART_TEST_NUMBER(CUBLASLT_EPILOGUE_BIAS)
  KDART_TEST_NUMBER(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
  KDART_TEST_NUMBER(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
  KDART_TEST_NUMBER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES)
  KDART_TEST_NUMBER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES)
  KDART_TEST_NUMBER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES)
  KDART_TEST_NUMBER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES)
  KDART_TEST_NUMBER(CUBLASLT_REDUCTION_SCHEME_NONE)
  KDART_TEST_NUMBER(CUBLASLT_ALGO_CONFIG_ID)
  KDART_TEST_NUMBER(CUBLASLT_ALGO_CONFIG_TILE_ID)
  KDART_TEST_NUMBER(CUBLASLT_ALGO_CONFIG_SPLITK_NUM)
  KDART_TEST_NUMBER(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME)
#undef KDART_TEST_NUMBER

  CHECK(sizeof(cuda::cublasLtMatmulAlgo_t) == sizeof(::cublasLtMatmulAlgo_t));
  CHECK(sizeof(cuda::cublasLtMatmulHeuristicResult_t) == sizeof(::cublasLtMatmulHeuristicResult_t));
  CHECK(offsetof(cuda::cublasLtMatmulHeuristicResult_t, workspaceSize) ==
        offsetof(::cublasLtMatmulHeuristicResult_t, workspaceSize));
  CHECK(offsetof(cuda::cublasLtMatmulHeuristicResult_t, state) == offsetof(::cublasLtMatmulHeuristicResult_t, state));

  CHECK(called_alike<decltype(Functions::create), decltype(&::cublasLtCreate)>);
  CHECK(called_alike<decltype(Functions::destroy), decltype(&::cublasLtDestroy)>);
  CHECK(called_alike<decltype(Functions::layout_create), decltype(&::cublasLtMatrixLayoutCreate)>);
  CHECK(called_alike<decltype(Functions::layout_destroy), decltype(&::cublasLtMatrixLayoutDestroy)>);
  CHECK(called_alike<decltype(Functions::layout_set), decltype(&::cublasLtMatrixLayoutSetAttribute)>);
  CHECK(called_alike<decltype(Functions::desc_create), decltype(&::cublasLtMatmulDescCreate)>);
  CHECK(called_alike<decltype(Functions::desc_destroy), decltype(&::cublasLtMatmulDescDestroy)>);
  CHECK(called_alike<decltype(Functions::desc_set), decltype(&::cublasLtMatmulDescSetAttribute)>);
  CHECK(called_alike<decltype(Functions::preference_create), decltype(&::cublasLtMatmulPreferenceCreate)>);
  CHECK(called_alike<decltype(Functions::preference_destroy), decltype(&::cublasLtMatmulPreferenceDestroy)>);
  CHECK(called_alike<decltype(Functions::preference_set), decltype(&::cublasLtMatmulPreferenceSetAttribute)>);
  CHECK(called_alike<decltype(Functions::heuristic), decltype(&::cublasLtMatmulAlgoGetHeuristic)>);
  CHECK(called_alike<decltype(Functions::algo_check), decltype(&::cublasLtMatmulAlgoCheck)>);
  CHECK(called_alike<decltype(Functions::algo_get), decltype(&::cublasLtMatmulAlgoConfigGetAttribute)>);
  CHECK(called_alike<decltype(Functions::matmul), decltype(&::cublasLtMatmul)>);
}

}  // namespace kdart::test

#else

namespace kdart::test {

TEST_CASE("cuda: the words for cuBLASLt are those of its header", "[cuda][gemm][no-device]") {
  SKIP("there is no cublasLt.h here");
}

}  // namespace kdart::test

#endif
