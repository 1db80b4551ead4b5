// Marginals of a factor over several nodes that agree with those of its nodes.
//
// The factor is a node z whose label, its state, says which labels its nodes j may have; given the state these are
// independent of each other. With p_j as they are:
//   1. each state keeps what it has, as far as the p_j allow it: of the labels that it has at each node, trimmed to
//      what is left of p_j, the same total at every node
//   2. what is left is spread over labellings, one after the other: a label with mass left at every node, as much of
//      them as the least of these has, and the state that these labels are in
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "models/graph_factors.hpp"

namespace mm {

class CliqueRepair {
 public:
  CliqueRepair(const GraphFactors& structure, const Shape& g, int z) : structure_(structure), g_(g), z_(z) {
    for (int32_t e = g.first[z]; e < g.first[z + 1]; ++e) {
      const int l = g.around[e];
      links_.push_back(l);
      nodes_.push_back(g.other(l, z));
    }
  }

  // p of every node, q of every link; those of z and of its links are changed.
  void run(std::vector<std::vector<double>>& p, std::vector<std::vector<double>>& q) {
    const std::vector<double> had = p[z_];
    std::fill(p[z_].begin(), p[z_].end(), 0.0);
    for (size_t j = 0; j < links_.size(); ++j) {
      left_.push_back(p[nodes_[j]]);
      had_.push_back(q[links_[j]]);
      std::fill(q[links_[j]].begin(), q[links_[j]].end(), 0.0);
    }
    for (int s = 0; s < g_.count[z_]; ++s) keep(s, had[s], p, q);
    spread(p, q);
    // The same numbers at every node, but for rounding: p of z as its links have it.
    for (int s = 0; s < g_.count[z_]; ++s) {
      p[z_][s] = 0;
      for (int y = 0; y < g_.count[nodes_[0]]; ++y) p[z_][s] += at(q[links_[0]], 0, s, y);
    }
  }

 private:
  const GraphFactors& structure_;
  const Shape& g_;
  int z_;
  std::vector<int32_t> links_, nodes_;
  std::vector<std::vector<double>> left_, had_;  // of p_j; the tables as they were

  // Of the table of the link to node j.
  double& at(std::vector<double>& table, size_t j, int s, int y) const {
    const int l = links_[j], columns = g_.count[g_.b[l]];
    return table[g_.a[l] == z_ ? s * columns + y : y * columns + s];
  }
  bool allows(size_t j, int s, int y) const {
    const int l = links_[j];
    return g_.a[l] == z_ ? !structure_.never(g_, l, s, y) : !structure_.never(g_, l, y, s);
  }

  void keep(int s, double mass, std::vector<std::vector<double>>& p, std::vector<std::vector<double>>& q) {
    std::vector<std::vector<double>> part(links_.size());
    std::vector<double> totals;
    double least = mass;
    for (size_t j = 0; j < links_.size(); ++j) {
      double total = 0;
      for (int y = 0; y < g_.count[nodes_[j]]; ++y) {
        part[j].push_back(allows(j, s, y) ? std::min(left_[j][y], at(had_[j], j, s, y)) : 0);
        total += part[j].back();
      }
      totals.push_back(total);
      least = std::min(least, total);
    }
    if (!(least > 0)) return;
    p[z_][s] += least;
    for (size_t j = 0; j < links_.size(); ++j)
      for (size_t y = 0; y < part[j].size(); ++y) {
        const double moved = part[j][y] * (least / totals[j]);
        at(q[links_[j]], j, s, static_cast<int>(y)) += moved;
        left_[j][y] = std::max(0.0, left_[j][y] - moved);
      }
  }

  void spread(std::vector<std::vector<double>>& p, std::vector<std::vector<double>>& q) {
    std::vector<int> y(links_.size(), 0);
    while (true) {
      double least = HUGE_VAL;
      for (size_t j = 0; j < links_.size(); ++j) {
        while (y[j] < g_.count[nodes_[j]] && left_[j][y[j]] <= 0) ++y[j];
        if (y[j] == g_.count[nodes_[j]]) return;
        least = std::min(least, left_[j][y[j]]);
      }
      const int s = state_of(y);
      p[z_][s] += least;
      for (size_t j = 0; j < links_.size(); ++j) {
        at(q[links_[j]], j, s, y[j]) += least;
        left_[j][y[j]] = left_[j][y[j]] == least ? 0 : left_[j][y[j]] - least;
      }
    }
  }
  int state_of(const std::vector<int>& y) const {
    for (int s = 0; s < g_.count[z_]; ++s) {
      bool fits = true;
      for (size_t j = 0; j < links_.size() && fits; ++j) fits = allows(j, s, y[j]);
      if (fits) return s;
    }
    throw std::logic_error("a factor has no state for some labels");
  }
};

}  // namespace mm
