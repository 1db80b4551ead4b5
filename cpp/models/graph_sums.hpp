// The violating labellings of a graph, by depth-first search.
//
//     v(y) = c + sum_v theta_v(y_v) + sum_l theta_l(y_a, y_b) - (the same of the true labelling)
//
// Nodes are labelled in an order in which each node comes after its parent in a spanning forest. Let
//     B[v, k] = theta_v(k) + sum over children u of max_n theta(k, n) + B[u, n].
// The best completion of a prefix has at most this value: the scores known so far, plus B of the open
// children, plus the largest entry of each open link outside the forest. On a forest this bound is attained.
// So every prefix that is entered leads to a violator, at O(N K) work for each violator. On graphs with
// cycles some prefixes lead to no violator. The search counts them, and gives up after `patience` prefixes of
// each length per violator. Then the sum has the ceiling (number of labellings) max_y v(y).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "models/pairwise.hpp"
#include "models/violators.hpp"

namespace mm {

class GraphSums final : public Violators {
 public:
  // Reads the open scores of a block, which must not change afterwards. `loss` has the layout of the node
  // scores.
  void read(const PairwiseView& p, const int32_t* known) {
    p_ = p;
    truth_.assign(known, known + p.graph->nodes());
    loss.clear();
    constant = 0;
    if (graph_ != p.graph) list_extra(*p.graph), graph_ = p.graph;
  }

  double prepare() override {
    const Topology& g = *graph_;
    down_.climb(p_);
    top_ = constant - p_.value(truth_.data());
    for (const int v : g.order)
      if (g.parent[v] < 0)
        top_ += *std::max_element(down_.best.begin() + g.place[v], down_.best.begin() + g.place[v + 1]);
    peak_.resize(g.links());
    for (const int l : extra_) top_ += peak_[l] = largest(l);
    return top_;
  }

  bool each(int64_t most, double least, const Found& f) override {
    const int64_t each_one = static_cast<int64_t>(graph_->nodes()) * patience;
    left_ = most, least_ = least;
    steps_ = extra_.empty() ? std::numeric_limits<int64_t>::max() : each_one * (most + 1);
    path_.resize(graph_->nodes());
    return walk(0, top_, 0, f);
  }

  SumBounds bracket(int64_t) override {
    double outputs = 1, most = 1;
    for (const int32_t k : graph_->count) outputs *= k;
    if (!loss.empty()) {
      most = 0;
      for (int v = 0; v < graph_->nodes(); ++v)
        most += *std::max_element(loss.begin() + graph_->place[v], loss.begin() + graph_->place[v + 1]);
    }
    const double ceiling = outputs * top_ * most;
    return {0, std::isfinite(ceiling) ? ceiling * (1 + 1e-12) : std::numeric_limits<double>::infinity()};
  }

 private:
  // Prefixes of each length per violator; larger searches graphs with cycles longer before it gives up.
  static constexpr int64_t patience = 16;
  PairwiseView p_;
  const Topology* graph_ = nullptr;
  std::vector<int32_t> truth_, path_;
  std::vector<int32_t> extra_;  // links outside the forest
  // For each place in the order: the links outside the forest whose second end is labelled there.
  std::vector<std::vector<int32_t>> known_;
  MaxProduct down_;
  std::vector<double> peak_;
  double top_ = 0, least_ = 0;
  int64_t left_ = 0, steps_ = 0;

  double largest(int l) const {
    const int64_t size = static_cast<int64_t>(graph_->count[graph_->a[l]]) * graph_->count[graph_->b[l]];
    return *std::max_element(p_.tables[l], p_.tables[l] + size);
  }

  // Lists the links outside the spanning forest.
  void list_extra(const Topology& g) {
    extra_.clear();
    known_.assign(g.nodes(), {});
    std::vector<int> rank(g.nodes());
    for (int at = 0; at < g.nodes(); ++at) rank[g.order[at]] = at;
    for (int l = 0; l < g.links(); ++l) {
      if (g.parent[g.a[l]] == l || g.parent[g.b[l]] == l) continue;
      extra_.push_back(l);
      known_[std::max(rank[g.a[l]], rank[g.b[l]])].push_back(l);
    }
  }

  // `ceiling` is the value of the labels before place `at` in the order, with their best completion.
  bool walk(size_t at, double ceiling, double lost, const Found& f) {
    if (at == graph_->order.size()) {
      if (left_-- <= 0) return false;
      f(path_.data(), ceiling, lost);
      return true;
    }
    const Topology& g = *graph_;
    const int v = g.order[at], l = g.parent[v], n = g.count[v];
    const double* own = down_.best.data() + g.place[v];
    const auto worth = [&](int k) {
      return own[k] + (l < 0 ? 0 : p_.seen_from(l, v, k, path_[g.other(l, v)]));
    };
    double most = worth(0);
    for (int k = 1; k < n; ++k) most = std::max(most, worth(k));
    for (int k = 0; k < n; ++k) {
      path_[v] = k;
      double next = ceiling - most + worth(k);
      for (const int e : known_[at]) next += p_.at(e, path_[g.a[e]], path_[g.b[e]]) - peak_[e];
      if (next <= least_) continue;
      if (--steps_ <= 0) return false;
      if (!walk(at + 1, next, lost + (loss.empty() ? 0 : loss[g.place[v] + k]), f)) return false;
    }
    return true;
  }
};

}  // namespace mm
