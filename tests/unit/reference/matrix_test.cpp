#include "tools/reference/matrix.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "tools/reference/kernels_reference.h"
#include "tools/reference/random_model.h"

namespace kdart::reference {
namespace {

// Any row of random numbers.
std::vector<bf16> numbers(std::size_t count, std::uint64_t seed) {
  KdaConfig row;
  row.hidden_size = static_cast<std::uint32_t>(count);
  return random_hidden(row, 1, seed);
}

double worst_difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

struct Shape {
  std::size_t rows, outputs, columns;
};

TEST_CASE("reference: a projection equals plain sums for any shape") {
  for (const Shape& s : {Shape{1, 1, 1},
                         {1, 2, 8},
                         {3, 17, 5},
                         {7, 16, 255},
                         {8, 64, 256},
                         {9, 65, 257},
                         {16, 130, 512},
                         {33, 200, 700}}) {
    INFO(s.rows << " x " << s.outputs << " x " << s.columns);
    const auto x = numbers(s.rows * s.columns, 1);
    const auto weight = numbers(s.outputs * s.columns, 2);
    const auto bias = numbers(s.outputs, 3);
    const PackedRows packed(x, s.rows, s.columns);
    const auto bound = 1e-12 * static_cast<double>(s.columns);
    CHECK(worst_difference(project(packed, weight, s.outputs),
                           gemm(x, weight, {}, {s.rows, s.outputs, s.columns, s.columns})) < bound);
    CHECK(worst_difference(project(packed, weight, s.outputs, bias),
                           gemm(x, weight, bias, {s.rows, s.outputs, s.columns, s.columns})) < bound);
  }
}

TEST_CASE("reference: a row's projection has the same bits alone and among others, and from float64") {
  constexpr std::size_t rows = 100, outputs = 70, columns = 300;
  const auto x = numbers(rows * columns, 4);
  const auto weight = numbers(outputs * columns, 5);
  const auto all = project(PackedRows(x, rows, columns), weight, outputs);
  std::vector<double> widened;
  for (const bf16 value : x) widened.push_back(static_cast<double>(to_float(value)));
  CHECK(project(PackedRows(std::span<const double>(widened), rows, columns), weight, outputs) == all);
  for (const std::size_t row : {0U, 7U, 8U, 99U}) {
    const auto one = project(PackedRows(std::span(x).subspan(row * columns, columns), 1, columns), weight, outputs);
    CHECK(std::equal(one.begin(), one.end(), all.begin() + static_cast<std::ptrdiff_t>(row * outputs)));
  }
}

}  // namespace
}  // namespace kdart::reference
