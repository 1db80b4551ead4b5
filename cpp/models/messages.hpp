// Sequential tree-reweighted message passing: a labelling, and an upper bound on all labellings (the
// ceiling).
//
// Nodes are ordered by their index. Let D_v = theta_v + sum of the messages into v, and g_v = 1 / max(links
// to later nodes, links to earlier ones). A forward sweep visits the nodes in order, and sends a message
// along each link to a later node:
//
//     M_vu(y_u) = max_{y_v} [ g_v D_v(y_v) - M_uv(y_v) + theta_vu(y_v, y_u) ]
//
// The backward sweep proves a ceiling, whatever the messages were before. Each D_v is lowered by its maximum,
// and so is each M_vu that is sent back; these maxima are summed. By induction over the visited nodes,
//
//     sum of theta over visited nodes and their links  <=  the sum of maxima so far + sum of M_vu(y_u), u not visited,
//
// because at most 1 / g_v messages are sent, each with a share g_v D_v, and D_v <= 0 is at most the sum of
// these shares. After the last node only the sum of maxima is left, which is the ceiling. Kolmogorov,
// Convergent Tree-Reweighted Message Passing, PAMI 2006.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "models/pairwise.hpp"
#include "runtime/interrupt.hpp"

namespace mm {

class MessagePassing {
 public:
  static constexpr double tiny = 1e-12;  // relative gap at which the labelling counts as the best
  static constexpr int patience = 5;     // iterations between two checks of the progress
  // Stop if the gap is above this fraction of the gap `patience` iterations ago; larger stops later.
  static constexpr double enough = 0.98;

  double solve(const PairwiseView& p, int iterations, int32_t* y, double& ceiling) {
    start(p);
    double best = -std::numeric_limits<double>::infinity(), before = best;
    ceiling = std::numeric_limits<double>::infinity();
    for (int i = 0; i < iterations; ++i) {
      poll();
      sweep(p, true);
      ceiling = std::min(ceiling, sweep(p, false));
      round(p);
      const double value = improve(p);
      if (value > best) best = value, std::copy(found_.begin(), found_.end(), y);
      const double gap = ceiling - best;
      if (gap <= tiny * (1 + std::abs(best))) break;
      if (i % patience == 0) {
        if (i > 0 && gap > enough * before) break;
        before = gap;
      }
    }
    ceiling = std::max(ceiling, best);
    return best;
  }

 private:
  std::vector<int64_t> into_a_, into_b_;  // offsets of the messages into the two ends of a link
  std::vector<double> messages_, belief_, part_;
  std::vector<int32_t> found_;

  void start(const PairwiseView& p) {
    const Topology& g = *p.graph;
    into_a_.resize(g.links());
    into_b_.resize(g.links());
    int64_t size = 0;
    for (int l = 0; l < g.links(); ++l) {
      into_a_[l] = size, size += g.count[g.a[l]];
      into_b_[l] = size, size += g.count[g.b[l]];
    }
    messages_.assign(size, 0);
    const int most = g.nodes() ? *std::max_element(g.count.begin(), g.count.end()) : 0;
    belief_.resize(most);
    part_.resize(most);
    found_.resize(g.nodes());
  }
  double* into(const Topology& g, int link, int v) {
    return messages_.data() + (g.a[link] == v ? into_a_[link] : into_b_[link]);
  }
  // Computes the values of the labels of v, from the labels of neighbours before `end` and the messages of
  // the other neighbours.
  void believe(const PairwiseView& p, int v, int end) {
    const Topology& g = *p.graph;
    std::copy(p.scores(v), p.scores(v) + g.count[v], belief_.begin());
    for (int32_t e = g.first[v]; e < g.first[v + 1]; ++e) {
      const int l = g.around[e], u = g.other(l, v);
      const double* m = into(g, l, v);
      if (u < end)
        for (int k = 0; k < g.count[v]; ++k) belief_[k] += p.seen_from(l, v, k, found_[u]);
      else
        for (int k = 0; k < g.count[v]; ++k) belief_[k] += m[k];
    }
  }
  static double lower(double* values, int n) {
    const double top = *std::max_element(values, values + n);
    for (int k = 0; k < n; ++k) values[k] -= top;
    return top;
  }

  // Makes one sweep, forward (`ahead`) or backward. Returns the sum of the maxima, which is a ceiling for the
  // backward sweep.
  double sweep(const PairwiseView& p, bool ahead) {
    const Topology& g = *p.graph;
    double sum = 0;
    for (int step = 0; step < g.nodes(); ++step) {
      const int v = ahead ? step : g.nodes() - 1 - step, K = g.count[v];
      believe(p, v, 0);
      int later = 0;
      for (int32_t e = g.first[v]; e < g.first[v + 1]; ++e) later += g.other(g.around[e], v) > v;
      sum += lower(belief_.data(), K);
      const int links = g.first[v + 1] - g.first[v];
      const double share = 1.0 / std::max({1, later, links - later});
      for (int32_t e = g.first[v]; e < g.first[v + 1]; ++e) {
        const int l = g.around[e], u = g.other(l, v);
        if ((u > v) != ahead) continue;
        const double* m = into(g, l, v);
        for (int k = 0; k < K; ++k) part_[k] = share * belief_[k] - m[k];
        double* out = into(g, l, u);
        p.send(l, v, part_.data(), out);
        sum += lower(out, g.count[u]);
      }
    }
    return sum;
  }

  // Labels the nodes in order, by the labels of earlier nodes and the messages of later ones.
  void round(const PairwiseView& p) {
    const Topology& g = *p.graph;
    for (int v = 0; v < g.nodes(); ++v) {
      believe(p, v, v);
      found_[v] = top_of(belief_.data(), g.count[v]);
    }
  }

  // Changes single labels while that helps; returns the value of the labelling.
  double improve(const PairwiseView& p) {
    const Topology& g = *p.graph;
    bool moved = true;
    for (int pass = 0; moved && pass < 20; ++pass) {
      moved = false;
      for (int v = 0; v < g.nodes(); ++v) {
        believe(p, v, g.nodes());
        const int k = top_of(belief_.data(), g.count[v]);
        if (belief_[k] > belief_[found_[v]]) found_[v] = k, moved = true;
      }
    }
    return p.value(found_.data());
  }
};

}  // namespace mm
