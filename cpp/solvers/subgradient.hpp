// Stochastic subgradient with the step 1 / t, written in the dual.
//
//   w_t = (1 - 1/t) w_{t-1} - (n/t) mass_i psi_i(u),   u the loss-augmented argmax of block i at w_{t-1}
//
// Hence w_t = (n/t) S_t with S_t = - sum_{j <= t} mass psi(u_j). W holds S. Instead of w, the loss is scaled, since
// argmax [Delta + (n/t) <S, psi>] = argmax [(t/n) Delta + <S, psi>]. The counts of the chosen outputs after p full
// passes, divided by p, are feasible multipliers that give w. So the certificate is free. With an origin m, W holds S_t
// + (t/n) m, which takes one sweep over w per step. The average 2/(T(T+1)) sum_t t w_t = 2n/(T(T+1)) sum_t S_t only
// needs sum_j j delta_j.
#pragma once

#include "solvers/dual_ascent.hpp"

namespace mm {

template <class Structure>
VisitReport subgradient_pass(DualState<Structure>& state, const int64_t* order, int64_t n, double active) {
  using Label = typename Structure::Label;
  const Structure& structure = state.structure;
  auto scratch = structure.scratch();
  Move<Structure> move;
  std::vector<Label> found, truth;
  VisitReport report;
  for (int64_t k = 0; k < n; ++k) {
    poll();
    const int64_t i = order[k];
    const double scale = state.steps > 0 ? state.steps / active : 1;
    found.resize(structure.output_size(i));
    state.read_truth(i, truth);
    structure.open(i, state.W.data(), scratch, true, static_cast<typename Structure::Real>(scale));
    const double value = structure.best(scratch, state.W.data(), found.data());
    report.violation += state.mass[i] * (value - structure.score(scratch, truth.data())) / scale;
    ++report.oracle_calls;
    ++report.updates;
    state.steps += 1;
    if (!state.origin.empty()) {
      const double grown = state.steps / active - scale;
      for (size_t j = 0; j < state.W.size(); ++j) state.W[j] += grown * state.origin[j];
      state.watch();
    }
    int u = state.find(i, found.data());
    if (u < 0)
      u = state.add(i, found.data(), 0);
    else if constexpr (given_planes<Structure>)
      state.structure.release(found[0]);
    state.blocks[i].planes[u].multiplier += state.mass[i];
    structure.build_pair(scratch, i, state.output(i, u), truth.data());
    move.renew();
    state.shift(move, scratch, -state.mass[i]);
    if (!state.weighted.empty()) state.weigh(move, scratch, -state.mass[i] * state.steps);
  }
  return report;
}

}  // namespace mm
