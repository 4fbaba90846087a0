#include "tools/reference/delta_rule.h"

#include <array>
#include <cmath>

#include "tools/reference/vector_units.h"

namespace kdart::reference {
namespace {

// Value columns do not meet: so many at a time stay in the nearest cache for all tokens.
constexpr std::size_t group = 16;

// Columns [first, first + group) of one head.
[[gnu::always_inline]] inline void columns(const HeadTokens& head, double* state, std::size_t first) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(head.dim));
  for (std::size_t t = 0; t < head.tokens; ++t) {
    const double* q = head.q + t * head.stride;
    const double* k = head.k + t * head.stride;
    const double* v = head.v + t * head.stride + first;
    const double* decay = head.decay + t * head.dim;
    double* out = head.out + t * head.stride + first;
    std::array<double, group> d{};
    for (std::size_t i = 0; i < head.dim; ++i) {
      double* row = state + i * head.dim + first;
      for (std::size_t j = 0; j < group; ++j) row[j] *= decay[i];
      for (std::size_t j = 0; j < group; ++j) d[j] += row[j] * k[i];
    }
    for (std::size_t j = 0; j < group; ++j) d[j] = head.beta[t * head.beta_stride] * (v[j] - d[j]);
    std::array<double, group> sum{};
    for (std::size_t i = 0; i < head.dim; ++i) {
      double* row = state + i * head.dim + first;
      for (std::size_t j = 0; j < group; ++j) row[j] += k[i] * d[j];
      for (std::size_t j = 0; j < group; ++j) sum[j] += row[j] * q[i];
    }
    for (std::size_t j = 0; j < group; ++j) out[j] = sum[j] * scale;
  }
}

[[gnu::always_inline]] inline void all_columns(const HeadTokens& head, double* state) {
  for (std::size_t first = 0; first < head.dim; first += group) columns(head, state, first);
}

void run_plain(const HeadTokens& head, double* state) {
  all_columns(head, state);
}
KDART_WITH_AVX2 void run_avx2(const HeadTokens& head, double* state) {
  all_columns(head, state);
}
KDART_WITH_AVX512 void run_avx512(const HeadTokens& head, double* state) {
  all_columns(head, state);
}

}  // namespace

void delta_rule(const HeadTokens& head, double* state) {
  switch (vector_units()) {
    case VectorUnits::avx512:
      run_avx512(head, state);
      return;
    case VectorUnits::avx2:
      run_avx2(head, state);
      return;
    case VectorUnits::plain:
      run_plain(head, state);
      return;
  }
}

}  // namespace kdart::reference
