// Exact solution of a graph with few cycles: some nodes get each of their labels in turn, and the rest is a
// forest.
//
// The nodes are chosen greedily. Leaves are removed; then the node with the most remaining links is cut out;
// and so on until no node is left. The work is one max-product on the forest for each labelling of the cut
// nodes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "models/pairwise.hpp"
#include "runtime/interrupt.hpp"

namespace mm {

class Conditioning {
 public:
  // Returns whether the cut nodes have at most `most` labellings; if so, writes a best labelling to y, and
  // its value.
  bool solve(const PairwiseView& p, int64_t most, int32_t* y, double& value) {
    if (!choose(*p.graph, most)) return false;
    set_up(p);
    value = -std::numeric_limits<double>::infinity();
    fixed_.assign(cut_.size(), 0);
    part_.resize(nodes_.size());
    do {
      poll();
      const double found = given(p);
      if (found <= value) continue;
      value = found;
      for (size_t j = 0; j < cut_.size(); ++j) y[cut_[j]] = fixed_[j];
      for (size_t j = 0; j < nodes_.size(); ++j) y[nodes_[j]] = part_[j];
    } while (advance(*p.graph));
    value = p.value(y);
    return true;
  }

 private:
  // `number_` has for each node its index in the forest, or -1 - (its index in cut_).
  std::vector<int32_t> cut_, nodes_, number_, degree_, fixed_, part_;
  std::vector<char> gone_;
  std::vector<int32_t> leaves_;
  std::vector<double> unary_;
  std::vector<const double*> tables_;
  Topology forest_;
  MaxProduct product_;

  bool choose(const Topology& g, int64_t most) {
    degree_.resize(g.nodes());
    gone_.assign(g.nodes(), 0);
    cut_.clear();
    leaves_.clear();
    int left = g.nodes();
    for (int v = 0; v < g.nodes(); ++v)
      if ((degree_[v] = g.first[v + 1] - g.first[v]) < 2) leaves_.push_back(v);
    const auto remove = [&](int v) {
      gone_[v] = 1, --left;
      for (int32_t e = g.first[v]; e < g.first[v + 1]; ++e)
        if (const int u = g.other(g.around[e], v); !gone_[u] && --degree_[u] == 1) leaves_.push_back(u);
    };
    int64_t labellings = 1;
    while (left > 0) {
      for (; !leaves_.empty();) {
        const int v = leaves_.back();
        leaves_.pop_back();
        if (!gone_[v]) remove(v);
      }
      if (left == 0) break;
      int hub = -1;
      for (int v = 0; v < g.nodes(); ++v)
        if (!gone_[v] && (hub < 0 || degree_[v] > degree_[hub])) hub = v;
      if ((labellings *= g.count[hub]) > most) return false;
      cut_.push_back(hub);
      remove(hub);
    }
    return true;
  }

  void set_up(const PairwiseView& p) {
    const Topology& g = *p.graph;
    number_.assign(g.nodes(), 0);
    for (size_t j = 0; j < cut_.size(); ++j) number_[cut_[j]] = -1 - static_cast<int32_t>(j);
    nodes_.clear();
    forest_.clear();
    tables_.clear();
    for (int v = 0; v < g.nodes(); ++v) {
      if (number_[v] < 0) continue;
      number_[v] = static_cast<int32_t>(nodes_.size());
      nodes_.push_back(v);
      forest_.count.push_back(g.count[v]);
    }
    for (int l = 0; l < g.links(); ++l)
      if (number_[g.a[l]] >= 0 && number_[g.b[l]] >= 0) {
        forest_.a.push_back(number_[g.a[l]]);
        forest_.b.push_back(number_[g.b[l]]);
        tables_.push_back(p.tables[l]);
      }
    forest_.finish();
  }

  // The best value given the current labels of the cut nodes.
  double given(const PairwiseView& p) {
    const Topology& g = *p.graph;
    unary_.clear();
    for (const int v : nodes_) unary_.insert(unary_.end(), p.scores(v), p.scores(v) + g.count[v]);
    double sum = 0;
    for (size_t j = 0; j < cut_.size(); ++j) {
      const int v = cut_[j], label = fixed_[j];
      sum += p.scores(v)[label];
      for (int32_t e = g.first[v]; e < g.first[v + 1]; ++e) {
        const int l = g.around[e], u = g.other(l, v), at = number_[u];
        if (at >= 0) {
          double* own = unary_.data() + forest_.place[at];
          for (int k = 0; k < g.count[u]; ++k) own[k] += p.seen_from(l, v, label, k);
        } else if (g.a[l] == v) {
          sum += p.seen_from(l, v, label, fixed_[-1 - at]);
        }
      }
    }
    return sum + product_.solve({&forest_, unary_.data(), tables_.data()}, part_.data());
  }

  bool advance(const Topology& g) {
    for (size_t j = 0; j < cut_.size(); ++j) {
      if (++fixed_[j] < g.count[cut_[j]]) return true;
      fixed_[j] = 0;
    }
    return false;
  }
};

}  // namespace mm
