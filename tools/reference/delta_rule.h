// The recurrence of one head over consecutive tokens, in float64 (kda.md section 1).
#pragma once

#include <cstddef>

namespace kdart::reference {

// Where one head's values lie: those of the next token are `stride` further on, its beta `beta_stride`, its decay `dim`.
struct HeadTokens {
  const double* q;
  const double* k;
  const double* v;
  const double* decay;  // exp(g), dense
  const double* beta;
  double* out;
  std::size_t tokens, dim;  // dim is a multiple of 16
  std::size_t stride, beta_stride;
};

// state [dim, dim] key-major, read and updated. Sums ascend over the key index.
void delta_rule(const HeadTokens& head, double* state);

}  // namespace kdart::reference
