// The point of one example in GDMM on sets of labels (gdmm_labels.hpp): the masses that leave the truth, sparsely.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "models/graph_data.hpp"

namespace mm {

// Whether every example is a row with the same labels, and only (on, on) has weights.
inline bool are_label_sets(const GraphData& data) {
  if (!are_rows_of_labels(data)) return false;
  const Shape& g = data.shapes[0];
  for (int l = 0; l < g.links(); ++l) {
    if (g.link_first[l + 1] - g.link_first[l] != 1) return false;
    const EdgeType& type = data.edge_types[g.edges[g.link_first[l]].type];
    if (type.column != std::vector<int32_t>{-1, -1, -1, l} || type.bank != 1) return false;
    if (data.banks[1].features) return false;
  }
  return true;
}

struct LabelNode {
  int32_t label;
  double u;  // mass that has left the truth
};
struct LabelLink {
  int32_t a, b;
  double alpha, beta, c;  // masses that have left a, b, and both, as the link has them
  double la, lb;          // multipliers
  int idle = 0;           // visits in which it was in the state of a link that is not active
};
struct LabelPoint {
  std::vector<LabelNode> nodes;
  std::vector<LabelLink> links;

  // Sets left[a] = u_a for the labels that have left, or sets these to zero again.
  void spread(std::vector<double>& left, bool clear = false) const {
    for (const LabelNode& node : nodes) left[node.label] = clear ? 0 : node.u;
  }
  // c of a link, trimmed to the values that its nodes allow.
  static double trimmed(const LabelLink& link, const std::vector<double>& left, double mass) {
    const double a = left[link.a], b = left[link.b];
    return std::clamp(link.c, std::max(0.0, a + b - mass), std::min(a, b));
  }
};

// The number of the link of any two labels; -1 if they have no link.
class LinkNumbers {
 public:
  explicit LinkNumbers(const Topology& g)
      : L_(g.nodes()), number_(g.links() ? static_cast<size_t>(L_) * L_ : 0, -1) {
    for (int l = 0; l < g.links(); ++l) number_[place(g.a[l], g.b[l])] = number_[place(g.b[l], g.a[l])] = l;
  }
  int32_t operator()(int a, int b) const { return number_.empty() ? -1 : number_[place(a, b)]; }
  size_t place(int a, int b) const { return static_cast<size_t>(a) * L_ + b; }
  size_t places() const { return number_.size(); }

 private:
  int L_;
  std::vector<int32_t> number_;
};

}  // namespace mm
