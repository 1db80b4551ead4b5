// Maximum flow with real capacities, and the cut that solves a binary problem in which all links attract.
//
//     maximise theta with  theta(0,0) + theta(1,1) >= theta(0,1) + theta(1,0)  for every link:
//     the energy -theta is  const + sum_v c_v y_v + sum_l P_l (1 - y_a) y_b  with P_l >= 0, and its smallest value
//     is const + the capacity of a smallest cut: s -> v of c_v or v -> t of -c_v, and a -> b of P_l.
//
// Flow by layers (Dinic) ends after at most as many phases as there are nodes, whatever the capacities.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "models/pairwise.hpp"
#include "runtime/interrupt.hpp"

namespace mm {

class MaxFlow {
 public:
  void reset(int nodes) {
    head_.assign(nodes, -1);
    to_.clear();
    next_.clear();
    residual_.clear();
  }
  void add(int from, int to, double capacity, double back = 0) {
    push(from, to, capacity);
    push(to, from, back);
  }
  double run(int source, int sink) {
    double flow = 0;
    while (layer(source, sink)) {
      poll();
      at_ = head_;
      for (double f; (f = augment(source, sink)) > 0;) flow += f;
    }
    return flow;
  }
  // After `run`: whether the source still reaches the node.
  bool reached(int v) const { return level_[v] >= 0; }

 private:
  std::vector<int32_t> head_, to_, next_, level_, at_, queue_, path_;
  std::vector<double> residual_;

  void push(int from, int to, double capacity) {
    to_.push_back(to);
    residual_.push_back(capacity);
    next_.push_back(head_[from]);
    head_[from] = static_cast<int32_t>(to_.size()) - 1;
  }
  bool layer(int source, int sink) {
    level_.assign(head_.size(), -1);
    level_[source] = 0;
    queue_.assign(1, source);
    for (size_t at = 0; at < queue_.size(); ++at) {
      const int v = queue_[at];
      for (int e = head_[v]; e >= 0; e = next_[e])
        if (residual_[e] > 0 && level_[to_[e]] < 0) level_[to_[e]] = level_[v] + 1, queue_.push_back(to_[e]);
    }
    return level_[sink] >= 0;
  }
  // Fills one path along the layers; returns its flow, or 0 if no path is left.
  double augment(int source, int sink) {
    path_.clear();
    for (int v = source; v != sink;) {
      int& e = at_[v];
      while (e >= 0 && !(residual_[e] > 0 && level_[to_[e]] == level_[v] + 1)) e = next_[e];
      if (e >= 0) {
        path_.push_back(e);
        v = to_[e];
        continue;
      }
      if (path_.empty()) return 0;
      v = to_[path_.back() ^ 1];
      path_.pop_back();
      at_[v] = next_[at_[v]];  // a dead end
    }
    double least = std::numeric_limits<double>::infinity();
    for (const int e : path_) least = std::min(least, residual_[e]);
    for (const int e : path_) residual_[e] -= least, residual_[e ^ 1] += least;
    return least;
  }
};

class GraphCut {
 public:
  // A link still counts as attracting if P_l is negative by at most this fraction of the sum of its table's
  // absolute entries. Larger accepts links that repel, and the ceiling becomes loose; smaller rejects links
  // because of rounding errors.
  static constexpr double rounding = 1e-12;

  static double attraction(const double* t) { return t[0] + t[3] - t[1] - t[2]; }
  static bool attracts(const double* t) {
    const double size = std::abs(t[0]) + std::abs(t[1]) + std::abs(t[2]) + std::abs(t[3]);
    return attraction(t) >= -rounding * size;
  }
  // Returns the first link that does not attract, or -1.
  static int obstacle(const PairwiseView& p) {
    for (int l = 0; l < p.graph->links(); ++l)
      if (!attracts(p.tables[l])) return l;
    return -1;
  }

  // Writes the best labelling, and an upper bound on all labellings into `ceiling`.
  double solve(const PairwiseView& p, int32_t* y, double& ceiling) {
    const Topology& g = *p.graph;
    const int n = g.nodes(), source = n, sink = n + 1;
    flow_.reset(n + 2);
    cost_.resize(n);
    double base = 0;  // constant of the energy
    for (int v = 0; v < n; ++v) base -= p.scores(v)[0], cost_[v] = p.scores(v)[0] - p.scores(v)[1];
    for (int l = 0; l < g.links(); ++l) {
      const double* t = p.tables[l];
      base -= t[0];
      cost_[g.a[l]] += t[0] - t[2];
      cost_[g.b[l]] += t[2] - t[3];
      const double attraction = GraphCut::attraction(t);
      if (attraction > 0) flow_.add(g.a[l], g.b[l], attraction);
      if (attraction < 0) base += attraction;  // by rounding; keeps the ceiling an upper bound
    }
    for (int v = 0; v < n; ++v) {
      if (cost_[v] > 0) flow_.add(source, v, cost_[v]);
      if (cost_[v] < 0) flow_.add(v, sink, -cost_[v]), base += cost_[v];
    }
    const double flow = flow_.run(source, sink);
    for (int v = 0; v < n; ++v) y[v] = flow_.reached(v) ? 0 : 1;
    const double value = p.value(y);
    ceiling = std::max(value, -(base + flow));
    return value;
  }

 private:
  MaxFlow flow_;
  std::vector<double> cost_;
};

// Solves the linear relaxation of a binary problem exactly, as a cut of twice the size (roof duality).
//
// Every node v gets a copy v' with the opposite label. An attracting link joins (a, b) and (a', b'); a
// repelling link joins (a, b') and (a', b). Each of the two new links has half of the table, with rows or
// columns swapped at a copy. So all links attract. The best labelling of nodes and copies has the value of
// the relaxation over the local polytope. If v = 1 - v', the relaxation gives v this label; if v = v', it
// gives one half.
class RoofDual {
 public:
  // Writes a labelling that agrees with the relaxation at its integral nodes; `ceiling` is the value of the
  // relaxation.
  double solve(const PairwiseView& p, int32_t* y, double& ceiling) {
    const Topology& g = *p.graph;
    const int n = g.nodes();
    build(p);
    both_.resize(2 * n);
    cut_.solve({&graph_, unary_.data(), tables_.data()}, both_.data(), ceiling);
    for (int v = 0; v < n; ++v) y[v] = both_[v] == 1 && both_[n + v] == 0;
    return p.value(y);
  }

 private:
  GraphCut cut_;
  Topology graph_;
  std::vector<double> unary_, values_;
  std::vector<const double*> tables_;
  std::vector<int32_t> both_;

  void build(const PairwiseView& p) {
    const Topology& g = *p.graph;
    const int n = g.nodes();
    graph_.clear();
    graph_.count.assign(2 * n, 2);
    unary_.resize(4 * n);
    for (int v = 0; v < n; ++v)
      for (int k = 0; k < 2; ++k) unary_[2 * v + k] = unary_[2 * (n + v) + 1 - k] = 0.5 * p.scores(v)[k];
    values_.resize(8 * static_cast<size_t>(g.links()));
    tables_.clear();
    for (int l = 0; l < g.links(); ++l) {
      const bool attracts = GraphCut::attracts(p.tables[l]);
      for (int copy = 0; copy < 2; ++copy) add(g, l, p.tables[l], copy == 1, (copy == 1) == attracts, n);
    }
    graph_.finish();
  }
  // Adds the link between a or a' and b or b'.
  void add(const Topology& g, int l, const double* t, bool second_a, bool second_b, int n) {
    graph_.a.push_back(g.a[l] + (second_a ? n : 0));
    graph_.b.push_back(g.b[l] + (second_b ? n : 0));
    double* values = values_.data() + 4 * tables_.size();
    for (int y = 0; y < 2; ++y)
      for (int z = 0; z < 2; ++z) values[2 * (y != second_a) + (z != second_b)] = 0.5 * t[2 * y + z];
    tables_.push_back(values);
  }
};

}  // namespace mm
