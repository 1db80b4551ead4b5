// Changes the marginals of a factor over several nodes so that they agree with the marginals of its nodes.
//
// The factor is a node z. Its label is called its state, and it decides which labels each node j may have. Given the
// state, these labels are independent of each other. The marginals p_j of the nodes stay fixed:
//   1. Each state keeps as much of its marginals as the p_j allow. At each node they are trimmed to the unused part of
//      p_j, then scaled to the same total at every node.
//   2. The unused rest of the p_j is spread over labellings. A labelling takes a label with mass left at every node.
//      Its mass is the least mass left of these labels, and its state is one that allows them.
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

  // p of every node, q of every link. Changes p of z, and q of the links of z.
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
    // All links of z give the same p of z, up to rounding; this takes the first.
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
  std::vector<std::vector<double>> left_, had_;  // unused parts of p_j; the tables before

  // The entry for state s and label y in the table of the link to node j.
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
