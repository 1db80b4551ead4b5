// GDMM on pairwise factor graphs: one pass of block ascent over factors (Yen et al., Algorithms 1 to 3).
//
//   D(p, q) = sum Delta p - 1/2 |w|^2,   w = sum_i (mass_i Psi_i(y_i) - Psi_i(p, q))
//   with a prior (metric.hpp) R* replaces 1/2 |w|^2, w follows its law, and moves have the lengths of its metric
//   p_v in mass * simplex, q_l in mass * simplex, with consistency   rows of q_l = p_a,   columns of q_l = p_b
//
//   augmented Lagrangian   D - r/2 sum_(v, l) |M_v q_l - p_v + z_vl|^2
//   ascent of a node:      s_v(y) + r sum_l (M q_l - p_v + z)(y)              s_v: loss and score of a label
//   ascent of a link:      s_l(y, z) - r ((M q - p_a + z_a)(y) + (M q - p_b + z_b)(z))
//   multipliers:           z += eta (M q - p)
//
// Every step moves mass from the label of the least slope to the label of the largest slope, by the exact amount.
//
// The point is stored sparsely. A node is active once it has left its true label. A link is active once both of its
// nodes are. A link between an active node a and a node z with its true label has no choice: q(y, z) = p_a(y). It is a
// part of the factor of a, consistent at all times, and takes no memory. So a pass takes time for the nodes and for the
// links of active nodes. Many links are zero unless something rare happens, for example that two labels are both on.
// Links to nodes at which it does not happen cost nothing at all: only `loud` true labels are looked at. A visit
// activates the `grow` nodes that have the most to gain.
//
// Two or more nodes may gain by leaving together although none gains alone. Let e_v be the loss of node v if it leaves
// alone. A link of two nodes that have not left has the
//   price = max over y, z that are not true of  s(y, z) - s(y, t_b) - s(t_a, z) + s(t_a, t_b)
// No set of nodes gains if the prices can be paid out of the e_v. The gain of a set is then at most the sum of its
// nodes' payments less the sum of their e_v, so it is <= 0. One of every `period` passes makes an audit, which pays the prices of
// the links one after the other. For each link, the node with more left of its e_v pays first. If a price is
// not paid in full, both nodes become active.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "models/graph_factors.hpp"
#include "models/marginals.hpp"
#include "runtime/interrupt.hpp"
#include "solvers/priored_weights.hpp"

namespace mm {

struct GdmmReport {
  double violation = 0;     // sum of the factors' parts of the gap of the augmented Lagrangian
  double inconsistent = 0;  // sum |r z (M q - p)|, the effect of inconsistency on the dual
  int64_t updates = 0, calls = 0;
};

// The number of active nodes, or links, in all examples.
template <class Example, class Parts>
int64_t count_parts(const std::vector<Example>& examples, Parts parts) {
  int64_t n = 0;
  for (const Example& e : examples) n += static_cast<int64_t>((e.*parts).size());
  return n;
}

// Computes the row sums and the column sums of a table.
inline void sum_up(const std::vector<double>& q, std::vector<double>& rows, std::vector<double>& columns) {
  std::fill(rows.begin(), rows.end(), 0.0);
  std::fill(columns.begin(), columns.end(), 0.0);
  for (size_t k = 0; k < q.size(); ++k) {
    rows[k / columns.size()] += q[k];
    columns[k % columns.size()] += q[k];
  }
}
// Gives q the row sums pa and the column sums pb. Rows and columns that are too large are scaled down. Missing mass is
// spread as the product of the missing row sums and the missing column sums.
inline void repair_link(std::vector<double>& q, const std::vector<double>& pa,
                        const std::vector<double>& pb) {
  const size_t columns = pb.size();
  std::vector<double> a(pa.size()), b(columns);
  sum_up(q, a, b);
  for (size_t k = 0; k < q.size(); ++k)
    if (const size_t y = k / columns; a[y] > pa[y]) q[k] *= pa[y] / a[y];
  sum_up(q, a, b);
  for (size_t k = 0; k < q.size(); ++k)
    if (const size_t z = k % columns; b[z] > pb[z]) q[k] *= pb[z] / b[z];
  sum_up(q, a, b);
  double missing = 0;
  for (size_t y = 0; y < a.size(); ++y) a[y] = std::max(0.0, pa[y] - a[y]);
  for (size_t z = 0; z < columns; ++z) missing += b[z] = std::max(0.0, pb[z] - b[z]);
  for (size_t k = 0; k < q.size() && missing > 0; ++k) q[k] += a[k / columns] * b[k % columns] / missing;
}

// The data, the options and w, which both algorithms on graphs need.
class GdmmOnGraphs {
 public:
  using Structure = GraphFactors;

  GdmmOnGraphs(const GdmmOnGraphs&) = delete;
  int64_t dimension() const { return structure_.dimension(); }
  // The weights, in the order of coef_.
  std::vector<double> weights() const {
    std::vector<double> flat(structure_.dimension());
    structure_.unpack(w_.W.data(), flat.data());
    return flat;
  }

 protected:
  // A visit activates `grow` factors of its example, then makes `inner` rounds over the active factors.
  GdmmOnGraphs(const GraphData& data, std::vector<double> mass, std::vector<double> penalty, double eta,
               int inner, int grow)
      : data_(data),
        structure_(data),
        s_(structure_.scratch()),
        mass_(std::move(mass)),
        penalty_(std::move(penalty)),
        eta_(eta),
        inner_(inner),
        grow_(grow),
        w_(structure_) {}

  const GraphData& data_;
  Structure structure_;
  Structure::Scratch s_;
  std::vector<double> mass_, penalty_;
  double eta_;
  int inner_, grow_;
  PrioredWeights<Structure> w_;
  Move<Structure> move_;
  std::vector<double> rows_, columns_;  // row and column sums of the marginals of a link

  // Sums up the marginals q of a link. A link also has multipliers za, zb.
  template <class Link>
  void sums(const Link& link) {
    rows_.resize(link.za.size());
    columns_.resize(link.zb.size());
    sum_up(link.q, rows_, columns_);
  }
  // z += eta (M q - p) for both ends of a link with the penalty r.
  template <class Link>
  void pull(Link& link, const double* pa, const double* pb, double r, GdmmReport& report) {
    sums(link);
    const auto one = [&](std::vector<double>& z, const std::vector<double>& sum, const double* p) {
      for (size_t y = 0; y < z.size(); ++y) {
        const double off = sum[y] - p[y];
        report.inconsistent += std::abs(r * z[y] * off);
        z[y] += eta_ * off;
      }
    };
    one(link.za, rows_, pa);
    one(link.zb, columns_, pb);
  }
};

class GraphGdmm : public GdmmOnGraphs {
 public:
  GraphGdmm(const GraphData& data, std::vector<double> mass, std::vector<double> penalty, double eta,
            int inner, int grow)
      : GdmmOnGraphs(data, std::move(mass), std::move(penalty), eta, inner, grow),
        examples_(mass_.size()),
        loud_(loud_labels(data)) {
    int64_t nodes = 0;
    for (const Shape& g : data.shapes) nodes = std::max<int64_t>(nodes, g.nodes());
    slot_.assign(nodes, -1);
  }

  GdmmReport pass(const int64_t* order, int64_t n, double tolerance) {
    GdmmReport report;
    ++passes_;
    for (int64_t k = 0; k < n; ++k) poll(), visit(order[k], tolerance, report);
    return report;
  }

  // A consistent point near the current one: nodes stay, and links are trimmed to their nodes and filled up.
  Marginals repaired() const;

  // Starts at a consistent point; the multipliers z are zero.
  void restore(const Marginals& m);

  // Recomputes w from the point, which removes the rounding errors that updates have added up.
  void refresh();
  void set_origin(const double* flat) { w_.take_origin(flat), refresh(); }
  void set_metric(const double* diagonal, const double* lower, const double* matrix) {
    w_.take_metric(diagonal, lower, matrix), refresh();
  }
  int64_t active_nodes() const { return count_parts(examples_, &Example::nodes); }
  int64_t active_links() const { return count_parts(examples_, &Example::links); }

 private:
  struct Node {
    int32_t node;
    std::vector<double> p;
  };
  struct Link {
    int32_t link, a, b;  // a, b: places of its nodes among the active ones
    std::vector<double> q, za, zb;
  };
  struct Example {
    std::vector<Node> nodes;
    std::vector<Link> links;
  };

  static constexpr double rounding = 1e-13;
  static constexpr int64_t period = 4;  // passes from one audit of an example to the next
  int64_t passes_ = 0;
  std::vector<Example> examples_;
  std::vector<std::vector<char>> loud_;  // for each type of nodes and each label
  // The visited example:
  const Shape* g_ = nullptr;
  const int32_t* truth_ = nullptr;
  Example* e_ = nullptr;
  int64_t block_ = 0;
  std::vector<int32_t> slot_;                 // place of each node among the active ones, or -1
  std::vector<std::vector<int32_t>> around_;  // active links of each active node
  std::vector<std::pair<double, int32_t>> wish_;
  std::vector<int32_t> together_;
  std::vector<double> slope_, table_, purse_, alone_;

  bool loud(int v) const { return loud_[g_->type[v]][truth_[v]] != 0; }

  static int32_t find(const Example& e, int32_t node) {
    for (size_t k = 0; k < e.nodes.size(); ++k)
      if (e.nodes[k].node == node) return static_cast<int32_t>(k);
    throw std::invalid_argument("marginals of a link without those of its nodes");
  }
  static Link fresh(const Shape& g, int32_t l, int32_t a, int32_t b) {
    const size_t rows = g.count[g.a[l]], columns = g.count[g.b[l]];
    return {l,
            a,
            b,
            std::vector<double>(rows * columns, 0),
            std::vector<double>(rows, 0),
            std::vector<double>(columns, 0)};
  }

  void enter(int64_t block) {
    block_ = s_.block = block;
    g_ = &data_.shape_of(block);
    truth_ = data_.truth.data() + data_.node_first[block];
    e_ = &examples_[block];
    for (size_t k = 0; k < e_->nodes.size(); ++k) slot_[e_->nodes[k].node] = static_cast<int32_t>(k);
  }
  void leave() {
    for (const Node& node : e_->nodes) slot_[node.node] = -1;
  }

  void visit(int64_t block, double tolerance, GdmmReport& report);
  // Scores the nodes that still have their true labels, and activates the best of them.
  void activate(double tolerance, GdmmReport& report);
  // Activates nodes that may gain together with others, if no node gains alone. Nodes that have left pay nothing.
  void audit(double tolerance, GdmmReport& report);
  double price_of(int l);
  // scores[y] += s_l(y at node v, z at the other end)
  void add_slice(int l, int v, int z, double* scores) const;
  // For each inactive neighbour v of an active node, adds to the score of every wrong label of v what the link gains if
  // v takes this label: the best gain over the labels on which the active node has mass.
  void add_active_neighbours();
  double best_partner(const Node& node, int l, int v, int y) const;
  void add_node(int32_t v);

  // Builds Psi of a change c at label y of a node, with its links to nodes that have their true labels.
  void push_change(const Node& node, int y, double c);
  // q -= Psi(p of the node) - mass Psi(true label)
  void move_node(const Node& node, double* q);
  void move_link(const Link& link, double* q);

  // Finds the best pair step for slope_ over a simplex: to `best`, from `worst` among the labels with mass. Adds to the
  // report. Returns false if the step gains nothing.
  bool choose(const std::vector<double>& mass, int& best, int& worst, GdmmReport& report) const;

  bool step_node(size_t k, GdmmReport& report);
  bool step_link(Link& link, GdmmReport& report);

  // The squared length of the move that was built, in the metric of the prior.
  double length() {
    move_.renew();
    return w_.squared_norm(move_, s_);
  }
  // Repairs graphs with factors over several nodes: nodes stay, and each factor is trimmed to its nodes
  // (clique_repair.hpp).
  void repair_cliques(const Shape& g, int64_t i, Marginals& m) const;
  // Moves mass along the move that was built, by the exact step.
  void shift(std::vector<double>& mass, int best, int worst, double curvature, GdmmReport& report);
};

}  // namespace mm
