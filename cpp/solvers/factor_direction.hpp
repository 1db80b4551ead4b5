// Directions in which the marginals q of a factor move, inside of its active set: see gdmm.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "solvers/path_decomposition.hpp"

namespace mm {

enum class Direction : int { pairwise, away, frank_wolfe };

// The direction d over the active labels, by their scores s; returns the factor's gap, mass s(best) - <q, s>.
inline double choose(Direction rule, const std::vector<Share>& shares, const std::vector<double>& scores,
                     double mass, std::vector<double>& d) {
  int best = 0, worst = -1;
  double mean = 0;
  for (int n = 0; n < static_cast<int>(shares.size()); ++n) {
    mean += shares[n].mass * scores[n];
    if (scores[n] > scores[best]) best = n;
    if (shares[n].mass > 0 && (worst < 0 || scores[n] < scores[worst])) worst = n;
  }
  const double gap = mass * scores[best] - mean, away = mean - mass * scores[worst];
  d.assign(shares.size(), 0);
  if (rule == Direction::pairwise) {
    if (best != worst) d[best] = mass, d[worst] = -mass;
    return std::max(0.0, gap);
  }
  const bool back = rule == Direction::away && away > gap;
  for (size_t n = 0; n < shares.size(); ++n) d[n] = back ? shares[n].mass : -shares[n].mass;
  d[back ? worst : best] += back ? -mass : mass;
  return std::max(0.0, gap);
}

// |M d|^2 for one end of a pair
inline double marginal_squares(const std::vector<Share>& shares, const std::vector<double>& d,
                               int32_t Share::* end) {
  double sum = 0;
  for (size_t n = 0; n < shares.size(); ++n)
    for (size_t m = 0; m < shares.size(); ++m)
      if (shares[n].*end == shares[m].*end) sum += d[n] * d[m];
  return sum;
}

}  // namespace mm
