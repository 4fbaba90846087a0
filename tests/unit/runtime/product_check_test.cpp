// The check of a vendor's products, with products on the host that keep their promises or break one of them.
#include "core/runtime/product_check.h"

#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/expect_error.h"

namespace kdart::test {
namespace {

using detail::Product;
using detail::ProductCheck;

const bf16* bf16s(DevicePtr memory) {
  return reinterpret_cast<const bf16*>(memory.address());
}

// One element: row `row` of a call of `m` rows, against column `column`.
struct Element {
  const bf16* a;
  const bf16* b;
  float bias;
  std::uint32_t row, m, k;
};
using Compute = std::function<bf16(const Element&)>;

float forward(const Element& e, std::uint32_t first, std::uint32_t last) {
  float sum = 0.0F;
  for (std::uint32_t i = first; i < last; ++i) sum += to_float(e.a[i]) * to_float(e.b[i]);
  return sum;
}

float backward(const Element& e) {
  float sum = 0.0F;
  for (std::uint32_t i = e.k; i-- > 0;) sum += to_float(e.a[i]) * to_float(e.b[i]);
  return sum;
}

bf16 plain(const Element& e) {
  return to_bf16(forward(e, 0, e.k) + e.bias);
}

class HostDevice final : public detail::ProductDevice {
 public:
  explicit HostDevice(Compute compute) : compute_(std::move(compute)) {}

  DevicePtr allocate(std::uint64_t bytes) override {
    memory_.emplace_back(bytes / sizeof(bf16) + 1);
    return DevicePtr(reinterpret_cast<std::uintptr_t>(memory_.back().data()));
  }
  void upload(DevicePtr to, const void* from, std::uint64_t bytes) override {
    std::memcpy(reinterpret_cast<void*>(to.address()), from, bytes);
  }
  void download(void* to, DevicePtr from, std::uint64_t bytes) override { std::memcpy(to, bf16s(from), bytes); }
  void multiply(const Product& p) override {
    products.push_back(p);
    if (!compute_) return;
    auto* c = reinterpret_cast<bf16*>(p.c.address());
    for (std::uint32_t row = 0; row < p.m; ++row) {
      for (std::uint32_t column = 0; column < p.n; ++column) {
        c[std::size_t{row} * p.n + column] = compute_({.a = bf16s(p.a) + std::size_t{row} * p.k,
                                                       .b = bf16s(p.b) + std::size_t{column} * p.k,
                                                       .bias = p.bias ? to_float(bf16s(p.bias)[column]) : 0.0F,
                                                       .row = row,
                                                       .m = p.m,
                                                       .k = p.k});
      }
    }
  }

  std::vector<Product> products;

 private:
  Compute compute_;
  std::vector<std::vector<bf16>> memory_;
};

std::string refusal(const Compute& compute, std::uint32_t n = 16, std::uint32_t k = 64, bool bias = true) {
  HostDevice device(compute);
  return ProductCheck(device, n, k, bias).refusal();
}

bool says(const std::string& text, const char* words) {
  INFO("refusal: '" << text << "'");
  return text.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("a product that sums every row in one order passes", "[runtime][product-check]") {
  for (const bool bias : {false, true}) {
    CHECK(refusal(plain, 8, 8, bias).empty());
    CHECK(refusal(plain, 72, 128, bias).empty());
    CHECK(refusal([](const Element& e) { return to_bf16(backward(e) + e.bias); }, 16, 264, bias).empty());
  }
  // In parts, but always the same ones.
  CHECK(refusal([](const Element& e) { return to_bf16((forward(e, 0, 16) + forward(e, 16, e.k)) + e.bias); }).empty());
}

TEST_CASE("a product whose order depends on the number of rows is refused", "[runtime][product-check]") {
  for (const std::uint32_t edge : {1U, 2U, 7U, 17U, 64U, 129U, 320U}) {
    INFO("another order beyond " << edge << " rows");
    for (const bool bias : {false, true}) {
      const auto compute = [&](const Element& e) {
        return to_bf16((e.m > edge ? backward(e) : forward(e, 0, e.k)) + e.bias);
      };
      CHECK(says(refusal(compute, 16, 64, bias), "differ in bits"));
    }
  }
}

TEST_CASE("a product whose order depends on where a row stands is refused", "[runtime][product-check]") {
  for (const std::uint32_t tile : {16U, 64U, 128U, 256U}) {
    INFO("tiles of " << tile);
    // The last tile, where it is not full, goes another way.
    const auto compute = [&](const Element& e) {
      const bool full = e.row < e.m / tile * tile;
      return to_bf16((full ? forward(e, 0, e.k) : backward(e)) + e.bias);
    };
    CHECK(says(refusal(compute), "differ in bits"));
  }
}

TEST_CASE("a product that splits its sums only for few rows is refused", "[runtime][product-check]") {
  const auto compute = [](const Element& e) {
    const float sum = e.m <= 64 ? forward(e, 0, e.k / 2) + forward(e, e.k / 2, e.k) : forward(e, 0, e.k);
    return to_bf16(sum);
  };
  CHECK(says(refusal(compute, 16, 128, false), "differ in bits"));
}

TEST_CASE("a product of other values is refused", "[runtime][product-check]") {
  CHECK(says(refusal({}), "it should be"));  // writes nothing
  CHECK(says(refusal([](const Element& e) { return to_bf16(forward(e, 0, e.k)); }), "it should be"));
  CHECK(says(refusal([](const Element& e) { return to_bf16(forward(e, 0, e.k - 8) + e.bias); }), "it should be"));
  CHECK(says(refusal([](const Element& e) { return to_bf16(1.02F * (forward(e, 0, e.k) + e.bias)); }), "it should be"));
  // Sums kept in bf16.
  const auto narrow = [](const Element& e) {
    bf16 sum{};
    for (std::uint32_t i = 0; i < e.k; ++i) sum = to_bf16(to_float(sum) + to_float(e.a[i]) * to_float(e.b[i]));
    return to_bf16(to_float(sum) + e.bias);
  };
  CHECK(says(refusal(narrow, 16, 512), "it should be"));
}

TEST_CASE("a wide product is checked on its last columns and a bounded number of others", "[runtime][product-check]") {
  for (const auto& [n, columns] : {std::pair(4088U, 4088U), std::pair(4096U, 2048U), std::pair(24576U, 2048U),
                                   std::pair(24584U, 2056U), std::pair(36856U, 4088U)}) {
    HostDevice device({});
    ProductCheck check(device, n, 8, false);
    CHECK(check.columns() == columns);
    CHECK_FALSE(check.refusal().empty());
    for (const Product& p : device.products) CHECK(p.n == columns);
  }
}

TEST_CASE("what a product throws leaves the check", "[runtime][product-check]") {
  HostDevice device([](const Element&) -> bf16 { throw std::runtime_error("not taken"); });
  ProductCheck check(device, 8, 8, false);
  CHECK_THROWS_AS(check.refusal(), std::runtime_error);
}

}  // namespace kdart::test
