// The linear relaxation of a binary problem, exactly, as a cut of twice the size (roof duality).
//
// Every node v gets a second one, v', for its opposite label. Links that attract join (a, b) and (a', b'), those that
// repel (a, b') and (a', b), each with half of the table, its rows or columns exchanged at a second node.
// So all links attract. The best labelling of the two copies has the value of the relaxation over the local polytope:
// v = 1 - v' is a label, v = v' means one half.
#pragma once

#include <cstdint>
#include <vector>

#include "models/max_flow.hpp"
#include "models/pairwise.hpp"

namespace mm {

class RoofDual {
 public:
  // A labelling that agrees with the relaxation where that has labels; into `ceiling` the relaxation's value.
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
  // The link between a or a' and b or b'.
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
