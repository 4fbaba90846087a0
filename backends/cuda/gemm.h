// The GEMM service: cuBLASLt, opened at run time.
//
// cuBLASLt offers many algorithms for one shape and would take another for another number of rows. Here each (n, k, bias)
// has one, without split-K, without a workspace, summing in f32; and it is taken only after products on the device have
// shown that a row's bits depend neither on the number of rows nor on its place (core/runtime/product_check.h).
#pragma once

#include <memory>

#include "kdart/gemm_service.h"

namespace kdart::cuda {

class CudaBackend;

// Null where cuBLASLt cannot be opened or does not start; the reason goes to the log. The device's context is current.
[[nodiscard]] std::unique_ptr<GemmService> open_gemm(CudaBackend& backend);

}  // namespace kdart::cuda
