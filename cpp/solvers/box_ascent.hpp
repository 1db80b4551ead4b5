// Dual coordinate ascent for the summed error (Balamurugan, Shevade and Babu, Algorithms 1 and 2).
//
//   D(a) = sum a Delta - 1/2 |q|^2,   0 <= a_i(y) <= mass_i,   q = - sum a psi
//   g = s_i(y) - s_i(y_i) = Delta_i(y) + <w, psi_i(y)>            the gradient for one multiplier (IV.5)
//   a_i(y) <- min(max(a_i(y) + g / |psi_i(y)|^2, 0), mass_i)      the step (IV.6), and w with it (IV.7)
//
// With a prior (metric.hpp) psi' Sigma psi replaces |psi|^2, and w moves by Sigma psi and is then clipped.
//
// V_i is the list of outputs kept for block i. It begins with the true output, which has no multiplier: the scores of
// the others are compared with its score. The problem reduced to the V_i has the gap
//   sum_i sum_{y in V_i} mass_i max(0, g) - a_i(y) g.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "models/violators.hpp"
#include "runtime/threads.hpp"
#include "solvers/dual_state.hpp"

namespace mm {

struct BoxOptions {
  bool oracle = true;  // search for a violator first (loop of type I), or not (type II)
  bool update = true;  // move multipliers, or only measure
  int keep = 0;        // forget outputs without a multiplier after this many oracle visits; 0: never
};

struct BoxReport {
  int64_t oracle_calls = 0, found = 0;
  double gap = 0;              // of the reduced problem; each block's part is taken at the w of its visit
  std::vector<double> shares;  // parts of the gap, in the order of the visits
  double change = 0;           // sum of the squared steps
};

template <class Structure>
class BoxAscent {
 public:
  using State = DualState<Structure>;
  using Real = typename Structure::Real;
  using Label = typename Structure::Label;

  explicit BoxAscent(State& state, bool complete)
      : state_(state), scratch_(state.structure.scratch()), complete_(complete) {}

  BoxReport pass(const int64_t* order, int64_t n, const BoxOptions& options) {
    BoxReport report;
    report.shares.resize(n);
    for (int64_t k = 0; k < n; ++k) {
      poll();
      const double before = report.gap;
      visit(order[k], options, report);
      report.shares[k] = report.gap - before;
    }
    return report;
  }

  // Adds all labels to V_i, for structures whose output is one label.
  static void fill(State& state, int64_t i) {
    state.materialize_truth(i, 0);
    for (Label k = 0; k < state.structure.labels(); ++k)
      if (state.find(i, &k) < 0) state.add(i, &k, 0);
  }

  // Computes the local scores at w. In an oracle visit, adds the worst output to V_i if it violates its constraint.
  // Returns whether an output was added.
  bool open(int64_t i, const Real* W, bool oracle) {
    const Structure& structure = state_.structure;
    const auto& block = state_.blocks[i];
    state_.materialize_truth(i, 0);  // V_i = { y_i }
    if (!oracle) {
      structure.open_where_different(i, W, scratch_, block.outputs.data(), size(i));
      return false;
    }
    structure.open(i, W, scratch_, true, 1);
    return !complete_ && ask_oracle(i, W);
  }

  int size(int64_t i) const { return static_cast<int>(state_.blocks[i].planes.size()); }
  double own_score(int64_t i) const { return state_.structure.score(scratch_, state_.output(i, 0)); }
  double score(int64_t i, int j) const { return state_.structure.score(scratch_, state_.output(i, j)); }
  typename Structure::Scratch& scratch() { return scratch_; }

  // The squared length of the move that was built in the scratch.
  double measure() {
    move_.renew();
    return state_.squared_norm(move_, scratch_);
  }
  // w += c Sigma * (that move)
  void shift(double c) { state_.shift(move_, scratch_, c); }

 private:
  State& state_;
  typename Structure::Scratch scratch_;
  Move<Structure> move_;
  bool complete_;  // V_i holds all outputs, so no search is needed
  std::vector<Label> found_;
  std::vector<double> steps_;

  void visit(int64_t i, const BoxOptions& options, BoxReport& report) {
    auto& block = state_.blocks[i];
    if (!options.oracle && size(i) < 2) return;
    report.found += open(i, state_.W.data(), options.oracle || complete_);
    report.oracle_calls += options.oracle;
    const double mass = state_.mass[i];
    double own = own_score(i);
    const bool together = state_.structure.labels() > 0 && state_.metric.plain();
    if (together) steps_.assign(size(i), 0);
    for (int j = 1; j < size(i); ++j) {
      double& a = block.planes[j].multiplier;
      const double g = score(i, j) - own;
      report.gap += mass * std::max(0.0, g) - a * g;
      if (!options.update || g == 0 || (g > 0 ? a == mass : a == 0)) continue;
      state_.structure.build_pair(scratch_, i, state_.output(i, j), state_.output(i, 0));
      const double step = clipped(g, a, mass);
      report.change += step * step;
      if (together) {  // w moves once, when the block is done
        state_.structure.shifted(scratch_, -step);
        steps_[j] = -step, steps_[0] += step;
      } else {
        shift(-step);
        if (!state_.metric.plain() || !state_.structure.shifted(scratch_, -step))
          state_.structure.open(i, state_.W.data(), scratch_, true, 1);
      }
      own = own_score(i);
    }
    if (together) apply_steps(i);
    if (options.oracle && options.keep > 0 && !complete_) forget(i, options.keep);
  }

  // Makes step (IV.6) and returns it. A multiplier that reaches a bound is exactly at the bound.
  double clipped(double g, double& a, double mass) {
    const double curvature = measure();
    const double before = a, longest = g > 0 ? mass - a : a;
    if (curvature * longest <= std::abs(g))
      a = g > 0 ? mass : 0;
    else
      a = std::clamp(a + g / curvature, 0.0, mass);
    return a - before;
  }

  void apply_steps(int64_t i) {
    if (std::all_of(steps_.begin(), steps_.end(), [](double c) { return c == 0; })) return;
    state_.structure.build_mixture(scratch_, i, state_.blocks[i].outputs.data(), steps_.data(), size(i));
    state_.structure.apply(scratch_, state_.W.data(), 1);
  }

  bool ask_oracle(int64_t i, const Real* W) {
    const Structure& structure = state_.structure;
    found_.resize(structure.output_size(i));
    const double value = structure.best(scratch_, W, found_.data());
    const double own = own_score(i);
    // Scores carry rounding errors, so a smaller violation does not count.
    const bool fresh = value - own > 1e-13 * (1 + std::abs(own)) && state_.find(i, found_.data()) < 0;
    if (fresh) state_.add(i, found_.data(), 0);
    if constexpr (given_planes<Structure>)
      if (!fresh) state_.structure.release(found_[0]);
    return fresh;
  }

  void forget(int64_t i, int keep) {
    auto& planes = state_.blocks[i].planes;
    for (int j = size(i) - 1; j > 0; --j) {
      planes[j].idle = planes[j].multiplier > 0 ? 0 : planes[j].idle + 1;
      if (planes[j].idle > keep) state_.remove(i, j);
    }
  }
};

// Adds violators that are not kept yet to V_i until it holds `most` outputs besides the true one. It prefers the
// largest violations. Returns how many it added.
template <class Structure>
int64_t widen(DualState<Structure>& state, const typename Structure::Real* W, int64_t i, int64_t most,
              typename Structure::Scratch& s, Violators& sums) {
  using Label = typename Structure::Label;
  state.materialize_truth(i, 0);
  const int size = state.structure.output_size(i);
  const int64_t wanted = most - static_cast<int64_t>(state.blocks[i].planes.size()) + 1;
  if (wanted <= 0) return 0;
  state.structure.open(i, W, s, true, 1);
  state.structure.list_scores(s, sums);
  const double top = sums.prepare();
  if (!(top > 1e-13)) return 0;
  std::unordered_set<std::string> known;
  const auto key = [&](const Label* y) {
    return std::string(reinterpret_cast<const char*>(y), sizeof(Label) * size);
  };
  for (size_t j = 0; j < state.blocks[i].planes.size(); ++j)
    known.insert(key(state.output(i, static_cast<int>(j))));
  std::vector<Label> found, y(size);
  const auto collect = [&](const int32_t* labels, double v, double lost) {
    if ((sums.loss.empty() ? v : v * lost) <= 1e-13) return;
    std::copy(labels, labels + size, y.begin());
    if (!known.contains(key(y.data()))) found.insert(found.end(), y.begin(), y.end());
  };
  for (double least : {0.0, 0.3, 0.6, 0.8, 0.9, 0.95, 0.99}) {
    found.clear();
    if (sums.each(most + 1, least * top, collect)) break;
  }
  const int64_t n = std::min<int64_t>(wanted, static_cast<int64_t>(found.size()) / size);
  for (int64_t k = 0; k < n; ++k) state.add(i, found.data() + k * size, 0);
  return n;
}

}  // namespace mm
