// Whether a vendor's matrix product keeps what GemmService promises: that a row has the same bits whatever the number of
// rows and wherever it stands. Runs products whose bits tell in which order they were summed, and looks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kdart/bf16.h"
#include "kdart/types.h"

namespace kdart::detail {

// c[m, n] = a[m, k] b[n, k]^T + bias, all rows packed.
struct Product {
  DevicePtr a, b, bias, c;  // `bias` is null where there is none
  std::uint32_t m = 0, n = 0, k = 0;
};

// The device, as the check uses it. What these throw leaves through the check.
class ProductDevice {
 public:
  // Alive until the check is over; 256-byte aligned.
  [[nodiscard]] virtual DevicePtr allocate(std::uint64_t bytes) = 0;
  // Done on return.
  virtual void upload(DevicePtr to, const void* from, std::uint64_t bytes) = 0;
  // After the products before it; done on return.
  virtual void download(void* to, DevicePtr from, std::uint64_t bytes) = 0;
  // With the candidate under test.
  virtual void multiply(const Product& product) = 0;

 protected:
  ProductDevice() = default;
  ~ProductDevice() = default;
  ProductDevice(const ProductDevice&) = default;
  ProductDevice& operator=(const ProductDevice&) = default;
};

// The operands for one (n, k, bias), made once and used for every candidate. They are the same on every machine. Half of
// the rows meet half of the columns in sums that cancel: what is left is the rounding of that very order. Of a wide product
// no more than 4,095 columns are computed, which bounds the memory; the columns of a row do not meet.
class ProductCheck {
 public:
  // `n` and `k` are multiples of 8, not 0. Allocates and uploads.
  ProductCheck(ProductDevice& device, std::uint32_t n, std::uint32_t k, bool bias);

  // Why a candidate is refused, "" when it passes.
  [[nodiscard]] std::string refusal();
  [[nodiscard]] std::uint32_t columns() const noexcept { return n_; }

 private:
  // A product of `m` rows from row `first` on, to row `to` of c.
  void multiply(std::uint32_t first, std::uint32_t m, std::uint32_t to);
  [[nodiscard]] std::vector<bf16> fetch(std::uint32_t first, std::uint32_t m);
  [[nodiscard]] std::string wrong_value(const std::vector<bf16>& whole) const;
  [[nodiscard]] std::string depends_on_range(const std::vector<bf16>& whole);
  [[nodiscard]] std::string depends_on_length(const std::vector<bf16>& whole);

  ProductDevice* device_;
  std::uint32_t n_, k_;
  std::vector<bf16> a_, b_, bias_;  // the rows of a that are not repeated; of b, likewise
  DevicePtr device_a_, device_b_, device_bias_, device_c_;
};

}  // namespace kdart::detail
