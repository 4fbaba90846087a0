// The GEMM service: cuBLASLt, opened at run time.
#pragma once

#include <memory>

#include "kdart/gemm_service.h"

namespace kdart::cuda {

class CudaBackend;

// Null where cuBLASLt cannot be opened; the reason goes to the log. The device's context is current.
[[nodiscard]] std::unique_ptr<GemmService> open_gemm(CudaBackend& backend);

}  // namespace kdart::cuda
