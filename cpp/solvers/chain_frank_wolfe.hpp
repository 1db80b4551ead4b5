// Algorithm 2 of Yen et al. as printed: Frank-Wolfe with away steps over all factors of all examples at once.
//
//   q = sum_v c_v v over bases v in A, each a label of every factor (times its mass);  c >= 0, sum_v c_v = 1     (14)
//   v+ : the best label of every factor at the gradient                                                         (15)
//   v- : the base of A with the least score                                                                     (16)
//   repeat  d = v+ - q with a step in [0, 1], or d = q - v- with a step in [0, c_v- / (1 - c_v-)],
//           whichever is steeper; the exact step; A and w with it                                               (17)
//   until a step did not use up v-
//
// The paper prints c_v- as the longest away step; then v- would not lose all of its coefficient. (15) is printed over
// the wrong labels alone; its first half, the best vertex, may be the true label, and is what converges.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "solvers/gdmm.hpp"

namespace mm {

class ChainFrankWolfe {
 public:
  explicit ChainFrankWolfe(ChainGdmm& gdmm) : g_(gdmm) {
    Base truth{1, {}, {}};
    for (const auto& shares : g_.unigrams_) truth.labels.push_back(shares[0].first);
    for (const auto& pair : g_.pairs_) truth.pairs.push_back({pair.shares[0].first, pair.shares[0].second});
    bases_.push_back(std::move(truth));
  }

  size_t bases() const { return bases_.size(); }

  // Until a step that is not a drop step.
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

  double mass(size_t f) const { return g_.mass_[g_.pairs_[f].ends[0]]; }

  // The scores of all bases, of q, and of the best vertex, which is returned.
  Base look(const ChainGdmmOptions& options, double& mean, double& top, ChainGdmmReport& report) {
    Base best{0, {}, {}};
    values_.assign(bases_.size(), 0);
    mean = top = 0;
    for (size_t r = 0; r < g_.unigrams_.size(); ++r) {
      g_.score_variable(static_cast<int64_t>(r), options.rho);
      best.labels.push_back(g_.best_label(options.partitions));
      top += g_.mass_[r] * g_.scores_[best.labels[r]];
      for (const Share& s : g_.unigrams_[r]) mean += s.mass * g_.scores_[s.first];
      for (size_t k = 0; k < bases_.size(); ++k) values_[k] += g_.mass_[r] * g_.scores_[bases_[k].labels[r]];
    }
    for (size_t f = 0; f < g_.pairs_.size(); ++f) {
      const auto& pair = g_.pairs_[f];
      const Scored found = g_.best_pair(pair.messages[0], pair.messages[1], options.rho, options.exhaustive);
      best.pairs.emplace_back(found.first, found.second);
      top += mass(f) * found.score;
      const auto score = [&](int y, int z) { return g_.pair_score(pair, y, z, options.rho); };
      for (const Share& s : pair.shares) mean += s.mass * score(s.first, s.second);
      for (size_t k = 0; k < bases_.size(); ++k)
        values_[k] += mass(f) * score(bases_[k].pairs[f].first, bases_[k].pairs[f].second);
    }
    report.searches += static_cast<int64_t>(g_.unigrams_.size() + g_.pairs_.size());
    return best;
  }

  // One step; whether it was a drop step.
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

  // Of gamma d, d = vertex - q: calls node(r, label, -gamma d) and edge(y, z, -gamma d), and adds to the residuals of pairs.
  template <class Node, class Edge, class Residuals>
  void each(const Base& vertex, double gamma, Node&& node, Edge&& edge, Residuals&& residuals) const {
    const auto of_label = [&](size_t r, int32_t y, double d) {
      node(static_cast<int64_t>(r), y, -gamma * d);
      for (int side = 0; side < 2; ++side)
        if (const int64_t f = g_.pairs_of_[r][side]; f >= 0)
          message(residuals(f)[1 - side], y).residual -= gamma * d;
    };
    const auto of_pair = [&](size_t f, int32_t y, int32_t z, double d) {
      edge(y, z, -gamma * d);
      message(residuals(f)[0], y).residual += gamma * d;
      message(residuals(f)[1], z).residual += gamma * d;
    };
    for (size_t r = 0; r < g_.unigrams_.size(); ++r) {
      for (const Share& s : g_.unigrams_[r]) of_label(r, s.first, -s.mass);
      of_label(r, vertex.labels[r], g_.mass_[r]);
    }
    for (size_t f = 0; f < g_.pairs_.size(); ++f) {
      for (const Share& s : g_.pairs_[f].shares) of_pair(f, s.first, s.second, -s.mass);
      of_pair(f, vertex.pairs[f].first, vertex.pairs[f].second, mass(f));
    }
  }
  // |w(d)|^2 + rho sum_jf |M d_f - d_j|^2
  double curvature(const Base& vertex, double rho) const {
    std::vector<double> w(g_.structure.weights(), 0);
    std::vector<std::array<Messages, 2>> residuals(g_.pairs_.size());
    each(
        vertex, 1, [&](int64_t r, int32_t y, double c) { g_.add_node(r, y, c, w.data()); },
        [&](int32_t y, int32_t z, double c) { g_.structure.add_edge(y, z, c, w.data()); },
        [&](int64_t f) -> auto& { return residuals[f]; });
    double sum = 0, apart = 0;
    for (const double x : w) sum += x * x;
    for (const auto& both : residuals)
      for (const Messages& one : both)
        for (const Message& m : one) apart += m.residual * m.residual;
    return sum + rho * apart;
  }
  // q += gamma (vertex - q), and w and the messages with it.
  void move(const Base& vertex, double gamma) {
    each(
        vertex, gamma, [&](int64_t r, int32_t y, double c) { g_.move_node(r, y, c); },
        [&](int32_t y, int32_t z, double c) { g_.move_edge(y, z, c); },
        [&](int64_t f) -> auto& { return g_.pairs_[f].messages; });
    const auto shift = [&](std::vector<Share>& shares, int32_t y, int32_t z, double all) {
      for (Share& s : shares) s.mass *= 1 - gamma;
      ChainGdmm::put(shares, y, z).mass += gamma * all;
      std::erase_if(shares, [&](const Share& s) { return s.mass <= 1e-15 * all; });
    };
    for (size_t r = 0; r < g_.unigrams_.size(); ++r)
      shift(g_.unigrams_[r], vertex.labels[r], -1, g_.mass_[r]);
    for (size_t f = 0; f < g_.pairs_.size(); ++f)
      shift(g_.pairs_[f].shares, vertex.pairs[f].first, vertex.pairs[f].second, mass(f));
  }
};

}  // namespace mm
