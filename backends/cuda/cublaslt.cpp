#include "backends/cuda/cublaslt.h"

#include "core/runtime/fail.h"
#include "core/runtime/messages.h"

namespace kdart::cuda {
std::vector<std::string> CublasLtLibrary::names_for(int cuda_version) {
  std::vector<std::string> names;
  for (const int major : {13, 12, 11}) {
    if (major <= cuda_version / 1000) names.push_back(detail::format("libcublasLt.so.{}", major));
  }
  names.emplace_back("libcublasLt.so");
  return names;
}

CublasLtLibrary::CublasLtLibrary(const OpenOptions& options, int cuda_version)
    : library_({.what = "cuBLASLt",
                .names = names_for(cuda_version),
                .entry = "cublasLtCreate",
                .path = options.gemm_library}) {
  std::string missing;
#define KDART_CUBLASLT_LOAD(member, symbol_name, parameters)                                       \
  functions_.member = reinterpret_cast<decltype(functions_.member)>(library_.symbol(symbol_name)); \
  if (functions_.member == nullptr && missing.empty()) missing = (symbol_name);
  KDART_CUBLASLT_FUNCTIONS(KDART_CUBLASLT_LOAD)
#undef KDART_CUBLASLT_LOAD
  if (!missing.empty()) {
    detail::fail(ErrorCode::driver_too_old, "cuBLASLt {} has no {}, which version 11 brought", detail::quote(file()),
                 missing);
  }
  const auto version = reinterpret_cast<std::size_t (*)()>(library_.symbol("cublasLtGetVersion"));
  if (version != nullptr) version_ = version();
}

std::string status_name(cublasStatus_t status) {
  switch (status) {
#define KDART_CUBLAS_NAME(name, number) \
  case name:                            \
    return #name;
    KDART_CUBLAS_STATUSES(KDART_CUBLAS_NAME)
#undef KDART_CUBLAS_NAME
    default:
      return detail::format("cublasStatus_t {}", status);
  }
}

ErrorCode code_of_status(cublasStatus_t status) noexcept {
  switch (status) {
    case CUBLAS_STATUS_ALLOC_FAILED:
      return ErrorCode::out_of_device_memory;
    case CUBLAS_STATUS_ARCH_MISMATCH:
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return ErrorCode::unsupported;
    default:
      return ErrorCode::driver_error;
  }
}

void fail_cublas(cublasStatus_t status, std::string_view doing) {
  const std::string name = status_name(status);
  throw Error(code_of_status(status), detail::format("{}: cuBLASLt answered {} ({})", doing, name, status), status,
              name);
}

}  // namespace kdart::cuda
