#include "core/runtime/product_check.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "core/runtime/format.h"

namespace kdart::detail {
namespace {

constexpr std::uint32_t rows = 320;        // of a, then they repeat
constexpr std::uint32_t long_rows = 2053;  // several tiles of any size, the last of them nearly empty
constexpr std::uint32_t weight_rows = 256;
constexpr std::array<std::uint32_t, 6> sizes = {1, 2, 7, 17, 64, 129};

std::array<std::uint32_t, 4> starts(std::uint32_t size) {
  return {0, 5, 150, rows - size};
}

constexpr std::uint32_t range_rows = [] {
  std::uint32_t sum = 0;
  for (const std::uint32_t size : sizes) sum += 4 * size;
  return sum;
}();
constexpr std::uint32_t result_rows = std::max(long_rows, range_rows);

// Wide products as far as a multiple of every tile's width and the odd columns behind it.
std::uint32_t columns_of(std::uint32_t n) {
  constexpr std::uint32_t most = 4096;
  return n < most ? n : most / 2 + n % (most / 2);
}

// splitmix64's values as bf16 of random sign, with all significands and eight exponents.
class Values {
 public:
  explicit Values(std::uint64_t seed) : state_(seed) {}
  bf16 next() {
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    z ^= z >> 31;
    const std::uint64_t exponent = 123 + (z >> 7 & 7);  // 2^-4 .. 2^3
    return bf16{static_cast<std::uint16_t>((z >> 10 & 1) << 15 | exponent << 7 | (z & 127))};
  }

 private:
  std::uint64_t state_;
};

bf16 negated(bf16 x) {
  return bf16{static_cast<std::uint16_t>(x.bits ^ 0x8000U)};
}

// Rows of k values. In every even row the second half repeats the first one, with its sign changed where `negate` says
// so: a row of each kind has a sum of 0 with the other.
std::vector<bf16> make_rows(std::uint64_t seed, std::uint32_t count, std::uint32_t k, bool negate) {
  Values values(seed);
  std::vector<bf16> result(std::size_t{count} * k);
  for (bf16& value : result) value = values.next();
  for (std::size_t row = 0; row < count; row += 2) {
    bf16* begin = &result[row * k];
    for (std::size_t i = 0; i < k / 2; ++i) begin[k / 2 + i] = negate ? negated(begin[i]) : begin[i];
  }
  return result;
}

// Columns that cancel get none, so that nothing covers the rounding that is left in them.
std::vector<bf16> make_bias(std::uint32_t n) {
  Values values(3);
  std::vector<bf16> result(n);
  for (std::size_t i = 1; i < n; i += 2) result[i] = values.next();
  return result;
}

bool same_bits(const bf16* a, const bf16* b, std::size_t count) {
  return std::memcmp(a, b, count * sizeof(bf16)) == 0;
}

}  // namespace

ProductCheck::ProductCheck(ProductDevice& device, std::uint32_t n, std::uint32_t k, bool bias)
    : device_(&device),
      n_(columns_of(n)),
      k_(k),
      a_(make_rows(1, rows, k, false)),
      b_(make_rows(2, std::min(n_, weight_rows), k, true)) {
  const auto upload_repeated = [&](const std::vector<bf16>& source, std::uint32_t count) {
    const std::uint64_t bytes = std::uint64_t{count} * k_ * sizeof(bf16);
    const std::uint64_t block = source.size() * sizeof(bf16);
    const DevicePtr to = device_->allocate(bytes);
    for (std::uint64_t at = 0; at < bytes; at += block)
      device_->upload(to.offset(at), source.data(), std::min(block, bytes - at));
    return to;
  };
  device_a_ = upload_repeated(a_, long_rows);
  device_b_ = upload_repeated(b_, n_);
  if (bias) {
    bias_ = make_bias(n_);
    device_bias_ = device_->allocate(n_ * sizeof(bf16));
    device_->upload(device_bias_, bias_.data(), n_ * sizeof(bf16));
  }
  device_c_ = device_->allocate(std::uint64_t{result_rows} * n_ * sizeof(bf16));
}

std::string ProductCheck::refusal() {
  // A product that writes nothing must not find another candidate's results.
  const std::vector<bf16> nothing(std::size_t{result_rows} * n_, bf16{0x7FC0});
  device_->upload(device_c_, nothing.data(), nothing.size() * sizeof(bf16));
  multiply(0, rows, 0);
  const std::vector<bf16> whole = fetch(0, rows);
  std::string reason = wrong_value(whole);
  if (reason.empty()) reason = depends_on_range(whole);
  if (reason.empty()) reason = depends_on_length(whole);
  return reason;
}

void ProductCheck::multiply(std::uint32_t first, std::uint32_t m, std::uint32_t to) {
  device_->multiply({.a = device_a_.offset(std::uint64_t{first} * k_ * sizeof(bf16)),
                     .b = device_b_,
                     .bias = device_bias_,
                     .c = device_c_.offset(std::uint64_t{to} * n_ * sizeof(bf16)),
                     .m = m,
                     .n = n_,
                     .k = k_});
}

std::vector<bf16> ProductCheck::fetch(std::uint32_t first, std::uint32_t m) {
  std::vector<bf16> result(std::size_t{m} * n_);
  device_->download(result.data(), device_c_.offset(std::uint64_t{first} * n_ * sizeof(bf16)),
                    result.size() * sizeof(bf16));
  return result;
}

// A few elements against their sums in double. f32 sums are within 2^-16 of the sum of all magnitudes for any K that a
// layer has, also those of tensor cores, which truncate; sums in bf16 or f16 are not within 2^-14.
std::string ProductCheck::wrong_value(const std::vector<bf16>& whole) const {
  for (const std::uint32_t row : {0U, 1U, 2U, 163U, rows - 2, rows - 1}) {
    for (const std::uint32_t column : {0U, 1U, n_ / 2, n_ / 2 + 1, n_ - 2, n_ - 1}) {
      const bf16* a = &a_[std::size_t{row} * k_];
      const bf16* b = &b_[std::size_t{column % weight_rows} * k_];
      double sum = bias_.empty() ? 0.0 : static_cast<double>(to_float(bias_[column]));
      double magnitude = std::abs(sum);
      for (std::size_t i = 0; i < k_; ++i) {
        const double product = static_cast<double>(to_float(a[i])) * static_cast<double>(to_float(b[i]));
        sum += product;
        magnitude += std::abs(product);
      }
      const auto found = static_cast<double>(to_float(whole[std::size_t{row} * n_ + column]));
      const double bound = 0x1p-8 * std::abs(sum) + 0x1p-14 * magnitude;
      if (!(std::abs(found - sum) <= bound))
        return format("element [{}, {}] is {}, it should be {} within {}", row, column, found, sum, bound);
    }
  }
  return {};
}

std::string ProductCheck::depends_on_range(const std::vector<bf16>& whole) {
  std::uint32_t to = 0;
  for (const std::uint32_t size : sizes) {
    for (const std::uint32_t first : starts(size)) {
      multiply(first, size, to);
      to += size;
    }
  }
  const std::vector<bf16> ranges = fetch(0, range_rows);
  to = 0;
  for (const std::uint32_t size : sizes) {
    for (const std::uint32_t first : starts(size)) {
      const std::size_t count = std::size_t{size} * n_;
      if (!same_bits(&ranges[std::size_t{to} * n_], &whole[std::size_t{first} * n_], count))
        return format("{} rows from row {} on differ in bits from those rows among {}", size, first, rows);
      to += size;
    }
  }
  return {};
}

std::string ProductCheck::depends_on_length(const std::vector<bf16>& whole) {
  multiply(0, long_rows, 0);
  for (std::uint32_t first = 0; first < long_rows; first += rows) {
    const std::uint32_t count = std::min(rows, long_rows - first);
    if (!same_bits(fetch(first, count).data(), whole.data(), std::size_t{count} * n_))
      return format("rows {} to {} of {} differ in bits from the same rows among {}", first, first + count - 1,
                    long_rows, rows);
  }
  return {};
}

}  // namespace kdart::detail
