// The argmax of a pairwise problem by the method that fits it, with a proven upper bound ("ceiling") on all
// labellings.
//
//   forest                          max-product, exact
//   two labels, all links attract   graph cut, exact
//   two labels, few nodes, dense    concave relaxation with branch and bound if it is not tight
//   else                            message passing, with a proven ceiling; if that stays above the value found
//                                   and the graph has few cycles, exactly by conditioning
//
// A binary problem is made smaller first. Let d_v = theta_v(1) - theta_v(0) + the contributions of the links.
// Over the labels of the neighbours its range is [low_v, high_v]. Some best labelling has y_v = 1 if
// low_v >= 0, and y_v = 0 if high_v <= 0. Fixing y_v narrows the ranges of the neighbours. If few nodes are
// left, all their labellings are searched.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "models/concave.hpp"
#include "models/conditioning.hpp"
#include "models/max_flow.hpp"
#include "models/messages.hpp"
#include "models/pairwise.hpp"
#include "models/set_search.hpp"

namespace mm {

// `roof` is for binary problems; its ceiling is the value of the linear relaxation.
enum class Inference : int { automatic, tree, cut, messages, outside, roof };

struct ArgmaxOptions {
  Inference method = Inference::automatic;
  int iterations = 100;  // of message passing
  // For `outside`: writes a best labelling, and returns an upper bound on all labellings.
  std::function<double(const PairwiseView&, int32_t*)> solver;
};

// The nodes of a binary problem that no range decides, as a smaller problem.
class BinaryRest {
 public:
  PairwiseView view;           // the problem over the undecided nodes
  std::vector<int32_t> nodes;  // their numbers in the whole problem

  // Fixes the labels in y that ranges decide, and sets up the rest.
  void reduce(const PairwiseView& p, int32_t* y) {
    const Topology& g = *p.graph;
    measure(p);
    decided_.assign(g.nodes(), 0);
    queue_.clear();
    for (int v = 0; v < g.nodes(); ++v) settle(v, y);
    for (size_t at = 0; at < queue_.size(); ++at) spread(p, queue_[at], y);
    gather(p, y);
  }

 private:
  std::vector<double> low_, high_, unary_;
  std::vector<char> decided_;
  std::vector<int32_t> queue_, number_;
  std::vector<const double*> tables_;
  Topology graph_;

  // The contribution of the link to d_v if the other end has label k.
  static double push(const PairwiseView& p, int link, int v, int k) {
    return p.seen_from(link, v, 1, k) - p.seen_from(link, v, 0, k);
  }
  void measure(const PairwiseView& p) {
    const Topology& g = *p.graph;
    low_.resize(g.nodes());
    high_.resize(g.nodes());
    for (int v = 0; v < g.nodes(); ++v) low_[v] = high_[v] = p.scores(v)[1] - p.scores(v)[0];
    for (int l = 0; l < g.links(); ++l) {
      const double* t = p.tables[l];
      const double a0 = t[2] - t[0], a1 = t[3] - t[1], b0 = t[1] - t[0], b1 = t[3] - t[2];
      low_[g.a[l]] += std::min(a0, a1), high_[g.a[l]] += std::max(a0, a1);
      low_[g.b[l]] += std::min(b0, b1), high_[g.b[l]] += std::max(b0, b1);
    }
  }
  void settle(int v, int32_t* y) {
    if (decided_[v] || (low_[v] < 0 && high_[v] > 0)) return;
    decided_[v] = 1;
    y[v] = high_[v] > 0 || low_[v] > 0;
    queue_.push_back(v);
  }
  void spread(const PairwiseView& p, int v, int32_t* y) {
    const Topology& g = *p.graph;
    for (int32_t e = g.first[v]; e < g.first[v + 1]; ++e) {
      const int l = g.around[e], u = g.other(l, v);
      if (decided_[u]) continue;
      const double zero = push(p, l, u, 0), one = push(p, l, u, 1), now = y[v] ? one : zero;
      low_[u] += now - std::min(zero, one);
      high_[u] += now - std::max(zero, one);
      settle(u, y);
    }
  }
  void gather(const PairwiseView& p, const int32_t* y) {
    const Topology& g = *p.graph;
    nodes.clear();
    number_.assign(g.nodes(), -1);
    for (int v = 0; v < g.nodes(); ++v)
      if (!decided_[v]) number_[v] = static_cast<int32_t>(nodes.size()), nodes.push_back(v);
    graph_.clear();
    unary_.clear();
    tables_.clear();
    graph_.count.assign(nodes.size(), 2);
    for (const int v : nodes) {
      double scores[2] = {p.scores(v)[0], p.scores(v)[1]};
      for (int32_t e = g.first[v]; e < g.first[v + 1]; ++e) {
        const int l = g.around[e], u = g.other(l, v);
        if (decided_[u])
          for (int k = 0; k < 2; ++k) scores[k] += p.seen_from(l, v, k, y[u]);
        else if (g.a[l] == v)
          graph_.a.push_back(number_[v]), graph_.b.push_back(number_[u]), tables_.push_back(p.tables[l]);
      }
      unary_.insert(unary_.end(), scores, scores + 2);
    }
    graph_.finish();
    view = {&graph_, unary_.data(), tables_.data()};
  }
};

class Argmax {
 public:
  // Writes a labelling, and returns its value. Sets `ceiling` to an upper bound on all labellings. The bound
  // is infinite if it needs extra work and no proof is wanted.
  double solve(const PairwiseView& p, const ArgmaxOptions& options, bool prove, int32_t* y, double& ceiling);

 private:
  // With at most this many binary nodes all labellings are searched (set_search.hpp); time doubles per node.
  static constexpr int few = 14;
  // Conditioning: the largest number of labellings of the cut nodes; the work is linear in it.
  static constexpr int64_t labellings = 256;

  MaxProduct product_;
  GraphCut cut_;
  MessagePassing messages_;
  Conditioning conditioning_;
  ConcaveBound concave_;
  RoofDual roof_;
  BinaryRest rest_;
  SetSearch sets_;
  std::vector<int32_t> part_, best_;
  std::vector<double> gains_, upper_;

  double solve_loops(const PairwiseView& p, int iterations, int32_t* y, double& ceiling) {
    const double value = messages_.solve(p, iterations, y, ceiling);
    if (ceiling - value <= MessagePassing::tiny * (1 + std::abs(value))) return value;
    double exact = 0;
    if (!conditioning_.solve(p, labellings, y, exact)) return value;
    return ceiling = exact;
  }

  double solve_dense(const PairwiseView& p, int iterations, bool prove, int32_t* y, double& ceiling) {
    std::fill(y, y + p.graph->nodes(), 0);
    ceiling = std::numeric_limits<double>::infinity();
    const double value = concave_.solve(p, prove, y, p.value(y), ceiling);
    if (!prove || ceiling - value <= MessagePassing::tiny * (1 + std::abs(value))) return value;
    double above = ceiling;
    best_.resize(p.graph->nodes());
    roof_.solve(p, best_.data(), ceiling);  // neither relaxation is always the tighter one
    above = std::min(above, ceiling);
    const double other = messages_.solve(p, std::min(iterations, 10), best_.data(), ceiling);
    ceiling = std::min(ceiling, above);
    if (other <= value) return value;
    std::copy(best_.begin(), best_.end(), y);
    return other;
  }

  double solve_binary(const PairwiseView& p, int iterations, bool prove, int32_t* y, double& ceiling) {
    return solve_rest(p, y, ceiling, [&](const PairwiseView& rest, double& top) {
      if (rest.graph->forest) return top = product_.solve(rest, part_.data());
      if (GraphCut::obstacle(rest) < 0) return cut_.solve(rest, part_.data(), top);
      if (rest.graph->nodes() <= few) return top = try_sets(rest);
      if (ConcaveBound::fits(*rest.graph)) return solve_dense(rest, iterations, prove, part_.data(), top);
      return solve_loops(rest, iterations, part_.data(), top);
    });
  }
  // Fixes the labels that ranges decide, which is valid for labellings and for their relaxation. The given
  // function finds the other labels, and writes them into part_.
  template <class Solve>
  double solve_rest(const PairwiseView& p, int32_t* y, double& ceiling, Solve&& solve) {
    rest_.reduce(p, y);
    part_.resize(rest_.nodes.size());
    double top = 0;  // the ceiling of the rest
    const double value = solve(rest_.view, top);
    for (size_t j = 0; j < part_.size(); ++j) y[rest_.nodes[j]] = part_[j];
    const double whole = p.value(y);
    ceiling = whole + std::max(0.0, top - value);
    return whole;
  }

  // Solves a problem of few nodes as a set problem: the set of the nodes that have label 1.
  double try_sets(const PairwiseView& p) {
    const Topology& g = *p.graph;
    const int n = g.nodes(), stride = padded<double>(n);
    gains_.resize(n);
    upper_.assign(static_cast<size_t>(n) * stride, 0);
    for (int v = 0; v < n; ++v) gains_[v] = p.scores(v)[1] - p.scores(v)[0];
    for (int l = 0; l < g.links(); ++l) {
      const double* t = p.tables[l];
      gains_[g.a[l]] += t[2] - t[0];
      gains_[g.b[l]] += t[1] - t[0];
      upper_[std::min(g.a[l], g.b[l]) * stride + std::max(g.a[l], g.b[l])] = GraphCut::attraction(t);
    }
    double ceiling = 0;
    sets_.solve(n, gains_.data(), upper_.data(), stride, {int64_t{2} << n}, {}, part_.data(), ceiling);
    return p.value(part_.data());
  }
};

}  // namespace mm
