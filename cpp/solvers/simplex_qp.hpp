// Quadratic program over the simplex, for the multipliers of cutting planes:
//
//   max_beta <b, beta> - 1/2 beta' H beta,   beta >= 0,   sum beta fixed
//
// Makes pair steps with the second-order choice from the given beta, until the gap sum_c beta_c (max slope - slope_c)
// is at most `tolerance`; slope = b - H beta.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/interrupt.hpp"

namespace mm {

// H is n x n with rows of length `stride`. Makes at most `most` steps. Returns the gap that is left.
inline double simplex_qp(const double* H, int64_t stride, const double* b, double* beta, int64_t n,
                         double tolerance, int64_t most) {
  std::vector<double> slope(b, b + n);
  for (int64_t c = 0; c < n; ++c)
    for (int64_t k = 0; k < n && beta[c] != 0; ++k) slope[k] -= beta[c] * H[c * stride + k];
  double gap = 0;
  for (int64_t step = 0; step <= most; ++step) {
    poll();
    int64_t u = 0, v = -1;
    gap = 0;
    for (int64_t c = 1; c < n; ++c)
      if (slope[c] > slope[u]) u = c;
    for (int64_t c = 0; c < n; ++c) gap += beta[c] * (slope[u] - slope[c]);
    if (gap <= tolerance || step == most) break;
    double best = 0, move = 0;
    for (int64_t c = 0; c < n; ++c) {
      const double g = slope[u] - slope[c];
      if (beta[c] <= 0 || g <= 0) continue;
      const double curvature = H[u * stride + u] + H[c * stride + c] - 2 * H[u * stride + c];
      const double t = curvature * beta[c] <= g ? beta[c] : g / curvature;
      const double gain = t * (g - t * curvature / 2);
      if (gain > best) best = gain, v = c, move = t;
    }
    if (v < 0) break;
    beta[v] = move == beta[v] ? 0 : beta[v] - move;
    beta[u] += move;
    for (int64_t k = 0; k < n; ++k) slope[k] -= move * (H[u * stride + k] - H[v * stride + k]);
  }
  return gap;
}

}  // namespace mm
