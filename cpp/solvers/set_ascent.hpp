// Cutting planes for the summed error: sets of violators as planes (Balamurugan, Shevade and Babu, Section III).
//
//   xi_i(w) = max over sets S of outputs: sum_{y in S} s_i(y), attained by all violators    (OP2-n-slack)
//   a_i(y) = sum_{S holding y} beta_i(S),   beta_i >= 0, sum_S beta_i(S) <= mass_i
//
// `cut_of_violators` makes one plane for the whole risk (OP2-1-slack). SetAscent keeps sets for each block, as flags
// over V_i, and moves their multipliers by pair steps. The empty set has the rest of the mass.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "solvers/box_ascent.hpp"

namespace mm {

struct CutReport {
  double offset = 0;
  int64_t oracle_calls = 0, found = 0;
};

// Algorithm 1, lines 8 to 18. The violators among the cached outputs get the state's clock as stamp. `slacks`
// receives the sum of their scores in each block, and `vector` the sum of their vectors, each times the mass of its
// block.
template <class Structure>
CutReport cut_of_violators(DualState<Structure>& state, bool complete, const typename Structure::Real* W,
                           bool oracle, int threads, double* slacks, std::vector<double>& vector) {
  const int64_t n = static_cast<int64_t>(state.blocks.size());
  int64_t labels = 0;
  for (int64_t i = 0; i < n; ++i) labels += state.structure.output_size(i);
  const int parts = parts_with_sums(threads, labels, state.structure.weights());
  std::vector<CutReport> reports(parts);
  std::vector<std::vector<double>> sums(parts);
  ++state.clock;
  parallel_parts(n, parts, [&](int64_t from, int64_t to, int k) {
    BoxAscent<Structure> worker(state, complete);
    sums[k].assign(state.structure.weights(), 0);
    std::vector<double> c;
    for (int64_t i = from; i < to; ++i) {
      poll();
      slacks[i] = 0;
      const double mass = state.mass[i];
      if (mass == 0 || (!oracle && worker.size(i) < 2)) continue;
      reports[k].found += worker.open(i, W, oracle || complete);
      reports[k].oracle_calls += oracle;
      c.assign(worker.size(i), 0);
      const double own = worker.own_score(i);
      for (int j = 1; j < worker.size(i); ++j) {
        const double g = worker.score(i, j) - own;
        if (!(g > 0)) continue;
        slacks[i] += g;
        c[j] = mass, c[0] -= mass;
        state.blocks[i].planes[j].stamp = state.clock;
        reports[k].offset += mass * state.structure.loss(i, state.output(i, j));
      }
      if (c[0] == 0) continue;
      state.structure.build_mixture(worker.scratch(), i, state.blocks[i].outputs.data(), c.data(),
                                    worker.size(i));
      state.structure.apply(worker.scratch(), sums[k].data(), 1);
    }
  });
  vector.assign(state.structure.weights(), 0);
  CutReport total;
  for (int k = 0; k < parts; ++k) {
    total.offset += reports[k].offset;
    total.oracle_calls += reports[k].oracle_calls, total.found += reports[k].found;
    for (size_t j = 0; j < sums[k].size(); ++j) vector[j] += sums[k][j];
  }
  return total;
}

struct SetReport {
  int64_t oracle_calls = 0, found = 0;
  double violation = 0;  // sum_i mass_i times the slack of block i over V_i minus its current lower bound
  double gain = 0;       // increase of the dual
};

template <class Structure>
class SetAscent {
 public:
  using State = DualState<Structure>;

  SetAscent(State& state, bool complete) : state_(state), box_(state, complete), sets_(state.blocks.size()) {}

  // With the oracle: the set of all violators of a block joins if it violates by more than `tolerance`. Without the
  // oracle: one pair step for each block, towards the set with the best score.
  SetReport pass(const int64_t* order, int64_t n, bool oracle, double tolerance) {
    SetReport report;
    for (int64_t k = 0; k < n; ++k) poll(), visit(order[k], oracle, tolerance, report);
    return report;
  }

  // Starts at the multipliers a of the state. Layers of a become sets; the outputs with the largest a are in most sets.
  void from_multipliers() {
    std::vector<double> levels;
    for (size_t i = 0; i < sets_.size(); ++i) {
      const auto& planes = state_.blocks[i].planes;
      levels.assign(1, 0);
      for (const Kept& plane : planes)
        if (plane.multiplier > 0) levels.push_back(plane.multiplier);
      std::sort(levels.begin(), levels.end());
      sets_[i].clear();
      for (size_t l = 1; l < levels.size(); ++l) {
        if (levels[l] == levels[l - 1]) continue;
        Set set{levels[l] - levels[l - 1], std::vector<uint8_t>(planes.size(), 0)};
        for (size_t j = 1; j < planes.size(); ++j) set.holds[j] = planes[j].multiplier >= levels[l];
        sets_[i].push_back(std::move(set));
      }
    }
  }

  // Writes a_i(y) of the cached outputs, at most the mass.
  void to_multipliers() {
    for (size_t i = 0; i < sets_.size(); ++i) {
      auto& planes = state_.blocks[i].planes;
      for (size_t j = 0; j < planes.size(); ++j) {
        double a = 0;
        for (const Set& set : sets_[i]) a += set.has(j) ? set.beta : 0;
        planes[j].multiplier = std::min(a, state_.mass[i]);
      }
    }
  }

  int64_t sets() const {
    int64_t n = 0;
    for (const auto& own : sets_) n += static_cast<int64_t>(own.size());
    return n;
  }

 private:
  struct Set {
    double beta;
    std::vector<uint8_t> holds;  // a flag for each output that was cached when the set was made
    bool has(size_t j) const { return j < holds.size() && holds[j]; }
    bool operator==(const std::vector<uint8_t>& other) const {
      for (size_t j = 0; j < std::max(holds.size(), other.size()); ++j)
        if (has(j) != (j < other.size() && other[j])) return false;
      return true;
    }
  };
  State& state_;
  BoxAscent<Structure> box_;
  std::vector<std::vector<Set>> sets_;
  std::vector<double> scores_, values_, c_;
  std::vector<uint8_t> violators_;

  void visit(int64_t i, bool oracle, double tolerance, SetReport& report) {
    auto& own = sets_[i];
    if (!oracle && own.empty()) return;
    report.found += box_.open(i, state_.W.data(), oracle);
    report.oracle_calls += oracle;
    const int n = box_.size(i);
    scores_.assign(n, 0);
    violators_.assign(n, 0);
    const double truth = box_.own_score(i), mass = state_.mass[i];
    double slack = 0, mean = 0;
    for (int j = 1; j < n; ++j) {
      scores_[j] = box_.score(i, j) - truth;
      if (scores_[j] > 0) violators_[j] = 1, slack += scores_[j];
    }
    values_.assign(own.size(), 0);
    for (size_t k = 0; k < own.size(); ++k) {
      for (int j = 1; j < n; ++j) values_[k] += own[k].has(j) ? scores_[j] : 0;
      mean += own[k].beta * values_[k];
    }
    if (oracle) {
      const double violation = slack - mean / mass;
      report.violation += mass * violation;
      if (violation <= tolerance) return;
      for (const Set& set : own)
        if (set == violators_) return;
      return own.push_back({0, violators_});
    }
    pair(i, mean, report);
  }

  // Moves mass from the set with the largest gain to the set with the best value; -1 is the empty set.
  void pair(int64_t i, double mean, SetReport& report) {
    auto& own = sets_[i];
    int u = -1, v = -2;
    double top = 0, left = state_.mass[i], best = 0, step = 0;
    for (size_t k = 0; k < own.size(); ++k) {
      left -= own[k].beta;
      if (values_[k] > top) top = values_[k], u = static_cast<int>(k);
    }
    left = std::max(0.0, left);
    report.violation += state_.mass[i] * top - mean;
    for (int k = -1; k < static_cast<int>(own.size()); ++k) {
      const double beta = k < 0 ? left : own[k].beta, g = top - (k < 0 ? 0 : values_[k]);
      if (k == u || beta * g <= best) continue;
      const double curvature = build(i, u, k);
      const double t = curvature * beta <= g ? beta : g / curvature, gain = t * (g - t * curvature / 2);
      if (gain > best) best = gain, v = k, step = t;
    }
    if (v == -2) return;
    build(i, u, v);
    box_.shift(-step);
    if (v >= 0) own[v].beta = step == own[v].beta ? 0 : own[v].beta - step;
    if (u >= 0) own[u].beta += step;
    report.gain += best;
  }

  // Builds the move: the vector of set u minus the vector of set v. Returns its squared norm.
  double build(int64_t i, int u, int v) {
    const auto& own = sets_[i];
    const int n = box_.size(i);
    c_.assign(n, 0);
    for (int j = 1; j < n; ++j) {
      c_[j] = (u >= 0 && own[u].has(j) ? 1.0 : 0.0) - (v >= 0 && own[v].has(j) ? 1.0 : 0.0);
      c_[0] -= c_[j];
    }
    state_.structure.build_mixture(box_.scratch(), i, state_.blocks[i].outputs.data(), c_.data(), n);
    return box_.measure();
  }
};

}  // namespace mm
