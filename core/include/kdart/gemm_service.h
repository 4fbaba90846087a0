// An optional service: the vendor's own matrix product (cuBLASLt, hipBLASLt). Experimental.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kdart/export.h"
#include "kdart/types.h"

namespace kdart {

// Obtained with `backend.service<GemmService>()`; null where the backend has none, and on a layer that does not wrap it.
// Valid while the backend lives. Calls on one stream must not overlap.
class KDART_API GemmService {
 public:
  static constexpr std::string_view service_id = "gemm.bf16/1";

  // The most that workspace_bytes() may ask for.
  static constexpr std::uint64_t max_workspace_bytes = 4096;

  GemmService(const GemmService&) = delete;
  GemmService& operator=(const GemmService&) = delete;
  virtual ~GemmService() = default;

  // Gets products of this n and k ready, for every m: chooses one algorithm and checks, on the device, that a row has the
  // same bits whatever m is and wherever it stands. False when no algorithm does; the caller then takes a product of its
  // own. Slow the first time, waits for the device; not within a capture. Any thread. Throws what device work throws.
  [[nodiscard]] virtual bool prepare(std::uint32_t n, std::uint32_t k, bool bias) = 0;
  // C[m, n] = A[m, k] * B[n, k]^T + bias[n], all bf16 and row-major, summed in f32 and rounded once. lda, ldb and ldc are
  // the elements from one row to the next: at least k, k and n, multiples of 8. Addresses are multiples of 16, and like a
  // launch's they need not be known to the backend. `bias` may be null. C overlaps none of the others. The same row gives
  // the same bits for every m. (n, k, bias or none) was prepared. `workspace` is workspace_bytes() of scratch, or more,
  // that no other work uses until the stream has passed the call; what it holds does not matter. May stand in a capture.
  // Throws invalid_argument, invalid_handle, unsupported (not prepared).
  virtual void gemm_bf16(DevicePtr a, DevicePtr b, DevicePtr bias, DevicePtr c, std::uint32_t m, std::uint32_t n,
                         std::uint32_t k, std::uint32_t lda, std::uint32_t ldb, std::uint32_t ldc, DevicePtr workspace,
                         std::uint64_t workspace_size, Stream stream) = 0;
  // The scratch that a product of this shape needs: at most max_workspace_bytes.
  [[nodiscard]] virtual std::uint64_t workspace_bytes(std::uint32_t m, std::uint32_t n, std::uint32_t k) const = 0;

 protected:
  GemmService() = default;
};

}  // namespace kdart
