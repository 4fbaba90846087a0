// The projections of the reference: float64 rows times a bf16 weight, blocked for caches and registers, on all cores.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kdart/bf16.h"

namespace kdart::reference {

// Rows of float64 in the order in which project() reads them; packed once, used by any number of projections.
class PackedRows {
 public:
  // values [rows, columns], row-major.
  PackedRows(std::span<const bf16> values, std::size_t rows, std::size_t columns);
  PackedRows(std::span<const double> values, std::size_t rows, std::size_t columns);

  [[nodiscard]] std::size_t rows() const noexcept { return rows_; }
  [[nodiscard]] std::size_t columns() const noexcept { return columns_; }
  // Columns [first, first + depth) of a tile of rows, [depth][tile_rows]; rows past the last are 0. `first` is a multiple
  // of depth_block.
  [[nodiscard]] const double* tile(std::size_t index, std::size_t first) const;

  static constexpr std::size_t tile_rows = 8;
  static constexpr std::size_t depth_block = 256;  // columns that are summed before the next ones are looked at

 private:
  template <class T>
  void pack(std::span<const T> values);

  std::size_t rows_, columns_, tiles_;
  std::vector<double> packed_;
};

// x times the transpose of weight [outputs, x.columns()], plus bias [outputs] or nothing: [x.rows(), outputs]. Each weight is
// widened where it is used: the weights are never held in float64 as a whole. Any columns and outputs. The order of a sum
// depends on x.columns() alone: a row has the same bits whatever rows are beside it.
[[nodiscard]] std::vector<double> project(const PackedRows& x, std::span<const bf16> weight, std::size_t outputs,
                                          std::span<const bf16> bias = {});

}  // namespace kdart::reference
