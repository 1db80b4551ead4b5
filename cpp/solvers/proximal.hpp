// The outer step of accelerated proximal dual ascent: a new centre, with momentum.
//
//   z' = w + beta (w - w_previous);   w' = (q + k' z') / (1 + k')   with q = (1 + k) w - k z unchanged
//
// With bounds it is the unclipped v that follows the law, and w = max(lower, v).
#pragma once

#include "solvers/dual_state.hpp"

namespace mm {

template <class Structure>
double squared_distance_to_center(const DualState<Structure>& state) {
  if (state.center.empty()) return 0;
  return state.squared_length([&](size_t j) { return static_cast<double>(state.W[j]) - state.center[j]; });
}

template <class Structure>
void recenter(DualState<Structure>& state, double momentum, double proximity) {
  using Real = typename Structure::Real;
  if (state.center.empty()) {
    state.center = state.W;
    state.previous = state.W;
  }
  const Real k = static_cast<Real>(state.proximity), beta = static_cast<Real>(momentum);
  const Real next = static_cast<Real>(proximity), h = static_cast<Real>(1 / (1 + proximity));
  Real *W = state.W.data(), *z = state.center.data(), *p = state.previous.data();
  Real* v = state.behind.empty() ? W : state.behind.data();
  for (size_t j = 0; j < state.W.size(); ++j) {
    const Real w = W[j], q = (1 + k) * v[j] - k * z[j], center = w + beta * (w - p[j]);
    p[j] = w;
    z[j] = center;
    v[j] = (q + next * center) * h;
  }
  for (size_t j = 0; j < state.behind.size(); ++j) W[j] = static_cast<Real>(state.metric.clipped(j, v[j]));
  state.proximity = proximity;
  state.watch();
}

}  // namespace mm
