// Algorithm 2 of Yen et al.: Frank-Wolfe with away steps over all factors of all examples at once.
//
//   q = sum_v c_v v over bases v in A, each a label of every factor (times its mass);  c >= 0, sum_v c_v = 1     (14)
//   v+ : the best label of every factor at the gradient                                                         (15)
//   v- : the base of A with the least score                                                                     (16)
//   repeat  d = v+ - q with a step in [0, 1], or d = q - v- with a step in [0, c_v- / (1 - c_v-)],
//           whichever is steeper; make the exact step; update A and w                                            (17)
//   until a step does not use up v-
//
// The paper prints c_v- as the longest away step; then v- would keep a part of its coefficient. It prints (15) over the
// wrong labels only. Here its first half, the best vertex, may contain true labels; this version converges.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "solvers/gdmm.hpp"

namespace mm {

class ChainFrankWolfe {
 public:
  explicit ChainFrankWolfe(ChainGdmm& gdmm) : g_(gdmm) {
    Base truth{1, {}, {}};
    for (const auto& labels : g_.factors.labels) truth.labels.push_back(labels[0].label);
    for (const auto& pairs : g_.factors.pairs)
      truth.pairs.push_back(pairs.empty() ? none : std::pair(pairs[0].first, pairs[0].second));
    bases_.push_back(std::move(truth));
  }

  size_t bases() const { return bases_.size(); }

  // Makes steps until one is not a drop step.
  ChainGdmmReport pass(const ChainGdmmOptions& options) {
    ChainGdmmReport report;
    while (step(options, report)) poll();
    return report;
  }

 private:
  struct Base {
    double c;
    std::vector<int32_t> labels;
    std::vector<std::pair<int32_t, int32_t>> pairs;
    bool operator==(const Base& other) const { return labels == other.labels && pairs == other.pairs; }
  };
  ChainGdmm& g_;
  std::vector<Base> bases_;
  std::vector<double> values_;

  // Stands for the pair that the first position of a sequence does not have.
  static constexpr std::pair<int32_t, int32_t> none{-1, -1};

  // Computes the scores of all bases, of q, and of the best vertex. Returns the best vertex.
  Base look(const ChainGdmmOptions& options, double& mean, double& top, ChainGdmmReport& report) {
    Base best{0, {}, {}};
    values_.assign(bases_.size(), 0);
    mean = top = 0;
    for (int64_t r = 0; r < static_cast<int64_t>(g_.factors.labels.size()); ++r) {
      const double mass = g_.factors.mass(r);
      g_.score_variable(r, options.rho);
      best.labels.push_back(g_.best_label(options.partitions));
      top += mass * g_.scores_[best.labels[r]];
      for (const ActiveLabel& y : g_.factors.labels[r]) mean += y.mass * g_.scores_[y.label];
      for (size_t k = 0; k < bases_.size(); ++k) values_[k] += mass * g_.scores_[bases_[k].labels[r]];
      ++report.searches;
      best.pairs.push_back(none);
      if (!g_.factors.first(r)) look_at_pair(r, options, best, mean, top, report);
    }
    return best;
  }
  void look_at_pair(int64_t r, const ChainGdmmOptions& options, Base& best, double& mean, double& top,
                    ChainGdmmReport& report) {
    const double mass = g_.factors.mass(r);
    const Scored found = g_.best_pair(r, options.rho, options.exhaustive);
    best.pairs.back() = {found.first, found.second};
    top += mass * found.score;
    for (const ActivePair& p : g_.factors.pairs[r])
      mean += p.mass * g_.pair_score(r, p.first, p.second, options.rho);
    for (size_t k = 0; k < bases_.size(); ++k)
      values_[k] += mass * g_.pair_score(r, bases_[k].pairs[r].first, bases_[k].pairs[r].second, options.rho);
    ++report.searches;
  }

  // Makes one step. Returns whether it was a drop step.
  bool step(const ChainGdmmOptions& options, ChainGdmmReport& report) {
    double mean = 0, top = 0;
    Base towards = look(options, mean, top, report);
    const size_t worst =
        static_cast<size_t>(std::min_element(values_.begin(), values_.end()) - values_.begin());
    if (report.updates == 0) report.violation = std::max(0.0, top - mean);
    const double away = mean - values_[worst];
    const bool back = away > top - mean && bases_[worst].c < 1;
    const double slope = back ? away : top - mean;
    if (!(slope > 1e-14 * std::abs(mean))) return false;
    const double c = bases_[worst].c, longest = back ? c / (1 - c) : 1;
    const double sign = back ? -1 : 1;  // the direction is sign (vertex - q)
    const Base& vertex = back ? bases_[worst] : towards;
    const double free = slope / curvature(vertex, options.rho), gamma = std::min(longest, free);
    move(vertex, sign * gamma);
    ++report.updates;
    const bool drop = back && gamma == longest;
    for (Base& base : bases_) base.c *= 1 - sign * gamma;
    if (back)
      drop ? void(bases_.erase(bases_.begin() + static_cast<int64_t>(worst)))
           : void(bases_[worst].c -= gamma);
    else
      join(std::move(towards), gamma);
    return drop;
  }
  void join(Base base, double c) {
    if (c >= 1) bases_.clear();
    const auto known = std::find(bases_.begin(), bases_.end(), base);
    if (known != bases_.end()) return void(known->c += c);
    base.c = c;
    bases_.push_back(std::move(base));
  }

  // Lists the changes that -gamma d makes, d = vertex - q: calls node(r, label, -gamma d), edge(y, z, -gamma d), and
  // apart(r, side, label, change of the residual).
  template <class Node, class Edge, class Apart>
  void each(const Base& vertex, double gamma, Node&& node, Edge&& edge, Apart&& apart) const {
    const ChainFactors& factors = g_.factors;
    const auto of_label = [&](int64_t r, int32_t y, double d) {
      node(r, y, -gamma * d);
      if (!factors.first(r)) apart(r, 0, y, -gamma * d);
      if (!factors.last(r)) apart(r, 1, y, -gamma * d);
    };
    const auto of_pair = [&](int64_t r, int32_t y, int32_t z, double d) {
      edge(y, z, -gamma * d);
      apart(r - 1, 1, y, gamma * d);
      apart(r, 0, z, gamma * d);
    };
    for (int64_t r = 0; r < static_cast<int64_t>(factors.labels.size()); ++r) {
      for (size_t n = 0; n < factors.labels[r].size(); ++n)  // `apart` may add to them
        of_label(r, factors.labels[r][n].label, -factors.labels[r][n].mass);
      of_label(r, vertex.labels[r], factors.mass(r));
      if (factors.first(r)) continue;
      for (const ActivePair& p : factors.pairs[r]) of_pair(r, p.first, p.second, -p.mass);
      of_pair(r, vertex.pairs[r].first, vertex.pairs[r].second, factors.mass(r));
    }
  }
  // |w(d)|^2 + rho sum_jf |M d_f - d_j|^2
  double curvature(const Base& vertex, double rho) const {
    std::vector<double> w(g_.structure.weights(), 0);
    std::map<std::tuple<int64_t, int, int32_t>, double> residuals;
    each(
        vertex, 1, [&](int64_t r, int32_t y, double c) { g_.add_node(r, y, c, w.data()); },
        [&](int32_t y, int32_t z, double c) { g_.structure.add_edge(y, z, c, w.data()); },
        [&](int64_t r, int side, int32_t y, double c) { residuals[{r, side, y}] += c; });
    double sum = 0, apart = 0;
    for (const double x : w) sum += x * x;
    for (const auto& [key, c] : residuals) apart += c * c;
    return sum + rho * apart;
  }
  // q += gamma (vertex - q); updates w and the residuals.
  void move(const Base& vertex, double gamma) {
    ChainFactors& factors = g_.factors;
    each(
        vertex, gamma, [&](int64_t r, int32_t y, double c) { g_.move_node(r, y, c); },
        [&](int32_t y, int32_t z, double c) { g_.move_edge(y, z, c); },
        [&](int64_t r, int side, int32_t y, double c) { factors.label(r, y).residual[side] += c; });
    for (int64_t r = 0; r < static_cast<int64_t>(factors.labels.size()); ++r) {
      const double all = factors.mass(r);
      for (ActiveLabel& y : factors.labels[r]) y.mass *= 1 - gamma;
      factors.label(r, vertex.labels[r]).mass += gamma * all;
      for (ActiveLabel& y : factors.labels[r]) drop_dust(y.mass, all);
      if (factors.first(r)) continue;
      for (ActivePair& p : factors.pairs[r]) p.mass *= 1 - gamma;
      factors.pair(r, vertex.pairs[r].first, vertex.pairs[r].second).mass += gamma * all;
      std::erase_if(factors.pairs[r], [&](const ActivePair& p) { return p.mass <= dust * all; });
    }
  }
  static constexpr double dust = 1e-15;
  static void drop_dust(double& mass, double all) {
    if (mass <= dust * all) mass = 0;
  }
};

}  // namespace mm
