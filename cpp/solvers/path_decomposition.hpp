// Turns marginals that need not agree into labellings with multipliers: a feasible point of the dual.
//
// On a chain, node marginals q_t and pair marginals p_t with row sums q_{t-1} and column sums q_t are a flow from the
// first position to the last. A flow is a sum of paths. If the rows or columns of p_t sum to more than q allows, they
// are scaled down. Then the rows miss as much mass as the columns; it is filled in one entry after the other
// (north-west corner). Marginals that agree are not changed. The paths up to a position are split along the pairs that
// lead on from it, so that there are no more paths than stored pairs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace mm {

struct Share {
  int32_t first, second;  // labels; second is -1 for a single position
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
  void start(const std::vector<Share>& nodes, double mass) {
    mass_ = mass;
    paths_.clear();
    nodes_ = normed(nodes);
    for (const Share& n : nodes_) paths_.push_back({{n.first}, n.mass});
  }

  // Adds the next position.
  void extend(const std::vector<Share>& pairs, const std::vector<Share>& nodes) {
    const std::vector<Share> next = normed(nodes);
    coupling(pairs, next);
    std::vector<Path> longer;
    for (Path& path : paths_) {
      for (Share& p : flow_) {
        if (p.first != path.labels.back() || p.mass <= 0 || path.mass <= 0) continue;
        const double part = std::min(p.mass, path.mass);
        p.mass -= part;
        path.mass -= part;
        longer.push_back({path.labels, part});
        longer.back().labels.push_back(p.second);
      }
      if (path.mass > dust()) {  // rounding has left a part of the path without a pair
        longer.push_back({path.labels, path.mass});
        longer.back().labels.push_back(next[0].first);
      }
    }
    paths_.swap(longer);
    nodes_ = next;
  }

  // Drops negligible paths, and scales the others so that their masses sum to the mass of the sequence.
  void finish() {
    std::erase_if(paths_, [&](const Path& p) { return p.mass <= dust(); });
    double sum = 0;
    for (const Path& p : paths_) sum += p.mass;
    for (Path& p : paths_) p.mass *= mass_ / sum;
  }

 private:
  double mass_ = 0;
  std::vector<Path> paths_;
  std::vector<Share> nodes_;
  std::vector<Share> flow_;

  double dust() const { return 1e-14 * mass_; }

  std::vector<Share> normed(std::vector<Share> nodes) const {
    double sum = 0;
    for (const Share& n : nodes) sum += n.mass;
    for (Share& n : nodes) n.mass *= mass_ / sum;
    return nodes;
  }
  static Share* find(std::vector<Share>& nodes, int32_t label) {
    for (Share& n : nodes)
      if (n.first == label) return &n;
    return nullptr;
  }

  // Scales entries down if their sum over one end is more than its node allows. Returns the masses that the nodes
  // allow.
  template <class End>
  std::vector<Share> trim(const std::vector<Share>& nodes, End&& end) {
    std::vector<Share> left = nodes, sums = nodes;
    for (Share& n : sums) n.mass = 0;
    for (const Share& p : flow_)
      if (Share* n = find(sums, end(p))) n->mass += p.mass;
    for (Share& p : flow_) {
      const Share *sum = find(sums, end(p)), *node = find(left, end(p));
      p.mass = !sum ? 0 : sum->mass > node->mass ? p.mass * (node->mass / sum->mass) : p.mass;
    }
    return left;
  }

  void coupling(const std::vector<Share>& pairs, const std::vector<Share>& next) {
    flow_ = pairs;
    const auto first = [](const Share& p) { return p.first; };
    const auto second = [](const Share& p) { return p.second; };
    std::vector<Share> rows = trim(nodes_, first), columns = trim(next, second);
    for (const Share& p : flow_) {
      if (Share* n = find(rows, p.first)) n->mass -= p.mass;
      if (Share* n = find(columns, p.second)) n->mass -= p.mass;
    }
    size_t a = 0, b = 0;
    while (a < rows.size() && b < columns.size()) {
      const double part = std::min(rows[a].mass, columns[b].mass);
      if (part > dust()) flow_.push_back({rows[a].first, columns[b].first, part});
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
