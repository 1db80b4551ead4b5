// Marginals that need not agree, made into labellings with multipliers: a point that is feasible in the dual.
//
// On a chain, node marginals q_t and pair marginals p_t with row sums q_{t-1} and column sums q_t are a flow from the
// first position to the last, and a flow is a sum of paths. Where the rows or columns of p_t sum to more than q says,
// they are scaled down; then what is missing in rows and columns, as much in both, is filled in one after the other
// (north-west corner). Marginals that agree are not changed. Paths: those of the positions before are split along the
// pairs, so that there are no more of them than stored pairs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace mm {

struct PairMass {
  int32_t first, second;
  double mass;
};
struct NodeMass {
  int32_t label;
  double mass;
};

class PathDecomposition {
 public:
  struct Path {
    std::vector<int32_t> labels;
    double mass;
  };
  const std::vector<Path>& paths() const { return paths_; }

  // Begins at the first position of a sequence with this mass.
  void start(const std::vector<NodeMass>& nodes, double mass) {
    mass_ = mass;
    paths_.clear();
    nodes_ = normed(nodes);
    for (const NodeMass& n : nodes_) paths_.push_back({{n.label}, n.mass});
  }

  // The next position.
  void extend(const std::vector<PairMass>& pairs, const std::vector<NodeMass>& nodes) {
    const std::vector<NodeMass> next = normed(nodes);
    coupling(pairs, next);
    std::vector<Path> longer;
    for (Path& path : paths_) {
      for (PairMass& p : flow_) {
        if (p.first != path.labels.back() || p.mass <= 0 || path.mass <= 0) continue;
        const double part = std::min(p.mass, path.mass);
        p.mass -= part;
        path.mass -= part;
        longer.push_back({path.labels, part});
        longer.back().labels.push_back(p.second);
      }
      if (path.mass > dust()) {  // rounding has left it without a pair
        longer.push_back({path.labels, path.mass});
        longer.back().labels.push_back(next[0].label);
      }
    }
    paths_.swap(longer);
    nodes_ = next;
  }

  // The masses of the paths sum to the mass of the sequence.
  void finish() {
    std::erase_if(paths_, [&](const Path& p) { return p.mass <= dust(); });
    double sum = 0;
    for (const Path& p : paths_) sum += p.mass;
    for (Path& p : paths_) p.mass *= mass_ / sum;
  }

 private:
  double mass_ = 0;
  std::vector<Path> paths_;
  std::vector<NodeMass> nodes_;
  std::vector<PairMass> flow_;

  double dust() const { return 1e-14 * mass_; }

  std::vector<NodeMass> normed(std::vector<NodeMass> nodes) const {
    double sum = 0;
    for (const NodeMass& n : nodes) sum += n.mass;
    for (NodeMass& n : nodes) n.mass *= mass_ / sum;
    return nodes;
  }
  static NodeMass* find(std::vector<NodeMass>& nodes, int32_t label) {
    for (NodeMass& n : nodes)
      if (n.label == label) return &n;
    return nullptr;
  }

  // Scales entries down where their sum over one end is more than its node allows; returns what is left to give.
  template <class End>
  std::vector<NodeMass> trim(const std::vector<NodeMass>& nodes, End&& end) {
    std::vector<NodeMass> left = nodes, sums = nodes;
    for (NodeMass& n : sums) n.mass = 0;
    for (const PairMass& p : flow_)
      if (NodeMass* n = find(sums, end(p))) n->mass += p.mass;
    for (PairMass& p : flow_) {
      const NodeMass *sum = find(sums, end(p)), *node = find(left, end(p));
      p.mass = !sum ? 0 : sum->mass > node->mass ? p.mass * (node->mass / sum->mass) : p.mass;
    }
    return left;
  }

  void coupling(const std::vector<PairMass>& pairs, const std::vector<NodeMass>& next) {
    flow_ = pairs;
    const auto first = [](const PairMass& p) { return p.first; };
    const auto second = [](const PairMass& p) { return p.second; };
    std::vector<NodeMass> rows = trim(nodes_, first), columns = trim(next, second);
    for (const PairMass& p : flow_) {
      if (NodeMass* n = find(rows, p.first)) n->mass -= p.mass;
      if (NodeMass* n = find(columns, p.second)) n->mass -= p.mass;
    }
    size_t a = 0, b = 0;
    while (a < rows.size() && b < columns.size()) {
      const double part = std::min(rows[a].mass, columns[b].mass);
      if (part > dust()) flow_.push_back({rows[a].label, columns[b].label, part});
      rows[a].mass -= std::max(part, 0.0);
      columns[b].mass -= std::max(part, 0.0);
      if (rows[a].mass <= columns[b].mass)
        ++a;
      else
        ++b;
    }
  }
};

}  // namespace mm
