#include "tools/reference/matrix.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "tools/reference/parallel.h"
#include "tools/reference/vector_units.h"

namespace kdart::reference {
namespace {

constexpr std::size_t tile_rows = PackedRows::tile_rows;
constexpr std::size_t depth_block = PackedRows::depth_block;
constexpr std::size_t panel_outputs = 16;  // side by side in vectors
constexpr std::size_t panels_per_piece = 4;
constexpr std::size_t piece_outputs = panel_outputs * panels_per_piece;  // of one piece of work

using Panel = std::array<double, depth_block * panel_outputs>;  // [depth][panel_outputs]
using Tile = std::array<double, tile_rows * panel_outputs>;

struct Two {
  using Vector [[gnu::vector_size(16)]] = double;
  static constexpr std::size_t width = 2, rows = 4;
};
struct Four {
  using Vector [[gnu::vector_size(32)]] = double;
  static constexpr std::size_t width = 4, rows = 4;
};
struct Eight {
  using Vector [[gnu::vector_size(64)]] = double;
  static constexpr std::size_t width = 8, rows = 8;
};

// By reference: a vector that a function of no level returns would be against the calling convention of its level.
template <class Vector>
[[gnu::always_inline]] inline void load(Vector& value, const double* from) {
  std::memcpy(&value, from, sizeof(value));
}
template <class Vector>
[[gnu::always_inline]] inline void add(double* target, const Vector& value) {
  Vector sum;
  load(sum, target);
  sum += value;
  std::memcpy(target, &sum, sizeof(sum));
}

// sums [tile_rows][panel_outputs] += the tile's rows times the panel's outputs, `depth` columns of both. Shape::rows rows
// and two vectors of outputs at a time: what fits in the registers. The compiler keeps it there if it unrolls early, as
// it is told to.
template <class Shape>
[[gnu::always_inline]] inline void multiply(const double* x, const double* w, std::size_t depth, double* sums) {
  for (std::size_t row = 0; row < tile_rows; row += Shape::rows) {
    for (std::size_t output = 0; output < panel_outputs; output += 2 * Shape::width) {
      typename Shape::Vector part[Shape::rows][2] = {};
      for (std::size_t c = 0; c < depth; ++c) {
        typename Shape::Vector w0, w1;
        load(w0, w + c * panel_outputs + output);
        load(w1, w + c * panel_outputs + output + Shape::width);
#pragma GCC unroll 8
        for (std::size_t r = 0; r < Shape::rows; ++r) {
          part[r][0] += w0 * x[c * tile_rows + row + r];
          part[r][1] += w1 * x[c * tile_rows + row + r];
        }
      }
#pragma GCC unroll 8
      for (std::size_t r = 0; r < Shape::rows; ++r) {
        add(sums + (row + r) * panel_outputs + output, part[r][0]);
        add(sums + (row + r) * panel_outputs + output + Shape::width, part[r][1]);
      }
    }
  }
}

using Multiply = void (*)(const double*, const double*, std::size_t, double*);
void multiply_plain(const double* x, const double* w, std::size_t depth, double* sums) {
  multiply<Two>(x, w, depth, sums);
}
KDART_WITH_AVX2 void multiply_avx2(const double* x, const double* w, std::size_t depth, double* sums) {
  multiply<Four>(x, w, depth, sums);
}
KDART_WITH_AVX512 void multiply_avx512(const double* x, const double* w, std::size_t depth, double* sums) {
  multiply<Eight>(x, w, depth, sums);
}

Multiply best_multiply() {
  switch (vector_units()) {
    case VectorUnits::avx512:
      return multiply_avx512;
    case VectorUnits::avx2:
      return multiply_avx2;
    case VectorUnits::plain:
      break;
  }
  return multiply_plain;
}

double wide(bf16 x) {
  return static_cast<double>(to_float(x));
}
double wide(double x) {
  return x;
}

// Some outputs of a projection, for all rows.
class Piece {
 public:
  Piece(const PackedRows& x, std::span<const bf16> weight, std::size_t first, std::size_t count)
      : x_(x), weight_(weight), first_(first), count_(count), multiply_(best_multiply()) {}

  void run(std::span<const bf16> bias, std::span<double> y, std::size_t outputs) {
    const std::size_t tiles = (x_.rows() + tile_rows - 1) / tile_rows;
    std::vector<Tile> sums(tiles * panels_per_piece);
    for (std::size_t column = 0; column < x_.columns(); column += depth_block) {
      const std::size_t depth = std::min(depth_block, x_.columns() - column);
      for (std::size_t p = 0; p * panel_outputs < count_; ++p) widen(p, column, depth);
      for (std::size_t t = 0; t < tiles; ++t) {
        for (std::size_t p = 0; p * panel_outputs < count_; ++p) {
          multiply_(x_.tile(t, column), panels_[p].data(), depth, sums[t * panels_per_piece + p].data());
        }
      }
    }
    for (std::size_t row = 0; row < x_.rows(); ++row) {
      for (std::size_t i = 0; i < count_; ++i) {
        const Tile& tile = sums[row / tile_rows * panels_per_piece + i / panel_outputs];
        const double offset = bias.empty() ? 0.0 : wide(bias[first_ + i]);
        y[row * outputs + first_ + i] = tile[row % tile_rows * panel_outputs + i % panel_outputs] + offset;
      }
    }
  }

 private:
  // Outputs past the last are left as they are: what they give is not looked at, but must not be a trap either.
  void widen(std::size_t panel, std::size_t column, std::size_t depth) {
    const std::size_t first = panel * panel_outputs;
    for (std::size_t i = 0; i < std::min(panel_outputs, count_ - first); ++i) {
      const bf16* row = weight_.data() + (first_ + first + i) * x_.columns() + column;
      for (std::size_t c = 0; c < depth; ++c) panels_[panel][c * panel_outputs + i] = wide(row[c]);
    }
  }

  const PackedRows& x_;
  std::span<const bf16> weight_;
  std::size_t first_, count_;
  Multiply multiply_;
  std::vector<Panel> panels_{panels_per_piece};  // 0 at first
};

}  // namespace

PackedRows::PackedRows(std::span<const bf16> values, std::size_t rows, std::size_t columns)
    : rows_(rows),
      columns_(columns),
      tiles_((rows + tile_rows - 1) / tile_rows),
      packed_(tiles_ * tile_rows * columns) {
  pack(values);
}

PackedRows::PackedRows(std::span<const double> values, std::size_t rows, std::size_t columns)
    : rows_(rows),
      columns_(columns),
      tiles_((rows + tile_rows - 1) / tile_rows),
      packed_(tiles_ * tile_rows * columns) {
  pack(values);
}

const double* PackedRows::tile(std::size_t index, std::size_t first) const {
  return packed_.data() + (index * columns_ + first) * tile_rows;
}

template <class T>
void PackedRows::pack(std::span<const T> values) {
  parallel_for(tiles_, static_cast<double>(packed_.size()), [&](std::size_t tile) {
    const std::size_t first = tile * tile_rows;
    double* target = packed_.data() + first * columns_;
    for (std::size_t r = 0; r < std::min(tile_rows, rows_ - first); ++r) {
      const T* row = values.data() + (first + r) * columns_;
      for (std::size_t c = 0; c < columns_; ++c) target[c * tile_rows + r] = wide(row[c]);
    }
  });
}

std::vector<double> project(const PackedRows& x, std::span<const bf16> weight, std::size_t outputs,
                            std::span<const bf16> bias) {
  std::vector<double> y(x.rows() * outputs);
  const std::size_t pieces = (outputs + piece_outputs - 1) / piece_outputs;
  const double operations = static_cast<double>(y.size()) * static_cast<double>(x.columns());
  parallel_for(pieces, operations, [&](std::size_t i) {
    const std::size_t first = i * piece_outputs;
    Piece(x, weight, first, std::min(piece_outputs, outputs - first)).run(bias, y, outputs);
  });
  return y;
}

}  // namespace kdart::reference
