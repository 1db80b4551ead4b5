// GDMM on pairwise factor graphs: one pass of block ascent over factors (Yen et al., Algorithms 1 to 3).
//
//   D(p, q) = sum Delta p - 1/2 |w|^2,   w = sum_i (mass_i Psi_i(y_i) - Psi_i(p, q))
//   with a prior (metric.hpp) R* in place of 1/2 |w|^2, and w by its law: lengths of moves are those of its metric
//   p_v in mass * simplex, q_l in mass * simplex, with consistency   rows of q_l = p_a,   columns of q_l = p_b
//
//   augmented Lagrangian   D - r/2 sum_(v, l) |M_v q_l - p_v + z_vl|^2
//   ascent of a node:      s_v(y) + r sum_l (M q_l - p_v + z)(y)              s_v: loss and score of a label
//   ascent of a link:      s_l(y, z) - r ((M q - p_a + z_a)(y) + (M q - p_b + z_b)(z))
//   multipliers:           z += eta (M q - p)
//
// Every step moves mass from the label of the least slope to that of the largest, exactly.
//
// What is kept is sparse. A node is active once it has left its true label; a link is, once both of its nodes are.
// The link of an active node a and a node with its true label z has no choice: q(y, z) = p_a(y). It is a part of
// the node's own factor, consistent at all times, and takes no memory. So a pass costs the nodes, and the links of
// active ones; and where a link is zero unless something rare happens (two labels that are both on), links to
// nodes where it does not happen cost nothing at all: only `loud` true labels are looked at.
// A visit makes the `grow` nodes active that have the most to gain.
//
// Two nodes, or more, may gain by leaving together where none gains alone. With e_v what node v loses by leaving alone,
// and for a link of two nodes that have not left
//   price = max over y, z that are not true of  s(y, z) - s(y, t_b) - s(t_a, z) + s(t_a, t_b),
// no set of nodes gains if the prices can be paid out of the e_v: then the gain of a set is at most
// sum_v (what v has paid) - e_v <= 0. In one of `period` passes an audit lets links be paid one after the other, by the
// end with more left; the nodes of links that remain unpaid become active.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "models/graph_factors.hpp"
#include "models/marginals.hpp"
#include "runtime/interrupt.hpp"
#include "solvers/clique_repair.hpp"
#include "solvers/priored_weights.hpp"

namespace mm {

struct GdmmReport {
  double violation = 0;     // sum of the factors' shares of the gap of the augmented Lagrangian
  double inconsistent = 0;  // sum |r z (M q - p)|, what the multipliers' step has to do with the dual
  int64_t updates = 0, calls = 0;
};

// Sums over the columns and over the rows of a table.
inline void sum_up(const std::vector<double>& q, std::vector<double>& rows, std::vector<double>& columns) {
  std::fill(rows.begin(), rows.end(), 0.0);
  std::fill(columns.begin(), columns.end(), 0.0);
  for (size_t k = 0; k < q.size(); ++k) {
    rows[k / columns.size()] += q[k];
    columns[k % columns.size()] += q[k];
  }
}
// q with the sums pa and pb: rows and columns that are too large are scaled down, and what is missing is
// spread as the product of what is missing in rows and in columns.
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

class GraphGdmm {
 public:
  using Structure = GraphFactors;

  GraphGdmm(const GraphData& data, std::vector<double> mass, std::vector<double> penalty, double eta,
            int inner, int grow)
      : data_(data),
        structure_(data),
        s_(structure_.scratch()),
        mass_(std::move(mass)),
        penalty_(std::move(penalty)),
        eta_(eta),
        inner_(inner),
        grow_(grow),
        examples_(mass_.size()),
        w_(structure_),
        loud_(loud_labels(data)) {
    int64_t nodes = 0;
    for (const Shape& g : data.shapes) nodes = std::max<int64_t>(nodes, g.nodes());
    slot_.assign(nodes, -1);
  }
  GraphGdmm(const GraphGdmm&) = delete;

  GdmmReport pass(const int64_t* order, int64_t n, double tolerance) {
    GdmmReport report;
    ++passes_;
    for (int64_t k = 0; k < n; ++k) poll(), visit(order[k], tolerance, report);
    return report;
  }

  // A consistent point near the current one: nodes as they are, links trimmed to them and filled up.
  Marginals repaired() const {
    Marginals m;
    std::vector<double> q;
    for (size_t i = 0; i < examples_.size(); ++i) {
      const Example& e = examples_[i];
      const double scale = 1 / mass_[i];
      if (const Shape& g = data_.shape_of(static_cast<int64_t>(i)); !g.derived.empty()) {
        repair_cliques(g, static_cast<int64_t>(i), m);
        continue;
      }
      for (const Node& node : e.nodes) {
        m.node_block.push_back(static_cast<int64_t>(i));
        m.node.push_back(node.node);
        for (const double value : node.p) m.node_value.push_back(value * scale);
      }
      for (const Link& link : e.links) {
        m.link_block.push_back(static_cast<int64_t>(i));
        m.link.push_back(link.link);
        q = link.q;
        repair_link(q, e.nodes[link.a].p, e.nodes[link.b].p);
        for (const double value : q) m.link_value.push_back(value * scale);
      }
    }
    return m;
  }

  // Starts at a consistent point, with multipliers of zero.
  void restore(const Marginals& m) {
    size_t n = 0, l = 0, node_place = 0, link_place = 0;
    for (; n < m.node.size(); ++n) {
      const int64_t i = m.node_block[n];
      const size_t size = data_.shape_of(i).count[m.node[n]];
      Node node{m.node[n], std::vector<double>(size)};
      for (size_t k = 0; k < size; ++k) node.p[k] = mass_[i] * m.node_value[node_place++];
      examples_[i].nodes.push_back(std::move(node));
    }
    for (; l < m.link.size(); ++l) {
      const int64_t i = m.link_block[l];
      const Shape& g = data_.shape_of(i);
      Example& e = examples_[i];
      Link link = fresh(g, m.link[l], find(e, g.a[m.link[l]]), find(e, g.b[m.link[l]]));
      for (double& value : link.q) value = mass_[i] * m.link_value[link_place++];
      e.links.push_back(std::move(link));
    }
    refresh();
  }

  // w from the point as it is, which removes the rounding that updates have gathered.
  void refresh() {
    std::vector<double> q(structure_.weights(), 0);
    for (size_t i = 0; i < examples_.size(); ++i) {
      enter(static_cast<int64_t>(i));
      for (const Node& node : examples_[i].nodes) move_node(node, q.data());
      for (const Link& link : examples_[i].links) move_link(link, q.data());
      leave();
    }
    w_.follow(q);
  }
  int64_t dimension() const { return structure_.dimension(); }
  void set_origin(const double* flat) { w_.take_origin(flat), refresh(); }
  void set_metric(const double* diagonal, const double* lower, const double* matrix) {
    w_.take_metric(diagonal, lower, matrix), refresh();
  }

  // In the order of coef_.
  std::vector<double> weights() const {
    std::vector<double> flat(structure_.dimension());
    structure_.unpack(w_.W.data(), flat.data());
    return flat;
  }
  int64_t active_nodes() const {
    int64_t n = 0;
    for (const Example& e : examples_) n += static_cast<int64_t>(e.nodes.size());
    return n;
  }
  int64_t active_links() const {
    int64_t n = 0;
    for (const Example& e : examples_) n += static_cast<int64_t>(e.links.size());
    return n;
  }

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
  const GraphData& data_;
  Structure structure_;
  Structure::Scratch s_;
  std::vector<double> mass_, penalty_;
  double eta_;
  int inner_, grow_;
  std::vector<Example> examples_;
  PrioredWeights<Structure> w_;
  Move<Structure> move_;
  std::vector<std::vector<char>> loud_;  // of each type of nodes and label
  // Of the visited example:
  const Shape* g_ = nullptr;
  const int32_t* truth_ = nullptr;
  Example* e_ = nullptr;
  int64_t block_ = 0;
  std::vector<int32_t> slot_;                 // place of each node among the active ones, or -1
  std::vector<std::vector<int32_t>> around_;  // active links of each active node
  std::vector<std::pair<double, int32_t>> wish_;
  std::vector<int32_t> together_;
  std::vector<double> slope_, table_, rows_, columns_, purse_, alone_;

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

  void visit(int64_t block, double tolerance, GdmmReport& report) {
    enter(block);
    activate(tolerance, report);
    around_.resize(std::max(around_.size(), e_->nodes.size()));
    for (size_t k = 0; k < e_->nodes.size(); ++k) around_[k].clear();
    for (size_t k = 0; k < e_->links.size(); ++k) {
      around_[e_->links[k].a].push_back(static_cast<int32_t>(k));
      around_[e_->links[k].b].push_back(static_cast<int32_t>(k));
    }
    GdmmReport ignored;  // the first step of a factor reports its share of the gap
    for (size_t k = 0; k < e_->nodes.size(); ++k)
      for (int step = 0; step < inner_; ++step)
        if (!step_node(k, step == 0 ? report : ignored)) break;
    for (Link& link : e_->links)
      for (int step = 0; step < inner_; ++step)
        if (!step_link(link, step == 0 ? report : ignored)) break;
    for (Link& link : e_->links) pull(link, report);
    leave();
  }

  // Scores of the nodes with their true labels, as far as their neighbours have theirs; the best become active.
  void activate(double tolerance, GdmmReport& report) {
    if (!g_->derived.empty()) {  // a factor over several nodes can leave its true state only with these
      for (int v = 0; v < g_->nodes() && e_->nodes.size() < static_cast<size_t>(g_->nodes()); ++v)
        if (slot_[v] < 0) add_node(v);
      ++report.calls;
      return;
    }
    structure_.open_nodes(block_, w_.W.data(), s_);
    ++report.calls;
    for (int b = 0; b < g_->nodes(); ++b) {
      if (slot_[b] >= 0 || !loud(b)) continue;
      for (int32_t e = g_->first[b]; e < g_->first[b + 1]; ++e) {
        const int l = g_->around[e], a = g_->other(l, b);
        if (slot_[a] < 0) add_slice(l, a, truth_[b], s_.unary.data() + g_->place[a]);
      }
    }
    const bool due = (block_ + passes_) % period == 0;
    if (due) alone_ = s_.unary;
    add_active_neighbours();
    wish_.clear();
    for (int v = 0; v < g_->nodes(); ++v) {
      if (slot_[v] >= 0) continue;
      const double* score = s_.unary.data() + g_->place[v];
      const double gain = *std::max_element(score, score + g_->count[v]) - score[truth_[v]];
      if (gain > 0) report.violation += mass_[block_] * gain;
      if (gain > tolerance) wish_.emplace_back(gain, v);
    }
    const size_t n = std::min(wish_.size(), static_cast<size_t>(grow_));
    std::partial_sort(wish_.begin(), wish_.begin() + n, wish_.end(), std::greater<>());
    for (size_t k = 0; k < n; ++k) add_node(wish_[k].second);
    if (due && n == 0) audit(tolerance, report);
  }
  // Where no node gains alone: those that may gain together with others. Nodes that have left pay nothing.
  void audit(double tolerance, GdmmReport& report) {
    purse_.assign(g_->nodes(), 0);
    for (int v = 0; v < g_->nodes(); ++v) {
      if (slot_[v] >= 0) continue;
      const double* score = alone_.data() + g_->place[v];
      double most = -std::numeric_limits<double>::infinity();
      for (int y = 0; y < g_->count[v]; ++y)
        if (y != truth_[v]) most = std::max(most, score[y]);
      purse_[v] = std::max(0.0, score[truth_[v]] - most);
    }
    together_.clear();
    for (int l = 0; l < g_->links(); ++l) {
      int a = g_->a[l], b = g_->b[l];
      if (slot_[a] >= 0 && slot_[b] >= 0) continue;  // a factor of its own
      double price = price_of(l);
      if (purse_[a] < purse_[b]) std::swap(a, b);
      for (const int v : {a, b}) {
        const double paid = std::min(std::max(0.0, price), purse_[v]);
        purse_[v] -= paid, price -= paid;
      }
      if (!(price > tolerance)) continue;
      report.violation += mass_[block_] * price * static_cast<double>(period);
      together_.insert(together_.end(), {a, b});
    }
    for (const int32_t v : together_)
      if (slot_[v] < 0) add_node(v);
  }
  double price_of(int l) {
    const int rows = g_->count[g_->a[l]], columns = g_->count[g_->b[l]];
    const int t = truth_[g_->a[l]], u = truth_[g_->b[l]];
    table_.resize(static_cast<size_t>(rows) * columns);
    structure_.link_scores(block_, l, w_.W.data(), table_.data());
    const auto at = [&](int y, int z) { return table_[static_cast<size_t>(y) * columns + z]; };
    double most = 0;
    for (int y = 0; y < rows; ++y)
      for (int z = 0; z < columns; ++z)
        if (y != t && z != u) most = std::max(most, at(y, z) - at(y, u) - at(t, z) + at(t, u));
    return most;
  }
  // scores[y] += s_l(y at node v, z at the other end)
  void add_slice(int l, int v, int z, double* scores) const {
    for (int y = 0; y < g_->count[v]; ++y)
      scores[y] += v == g_->a[l] ? structure_.pair_score(block_, l, y, z, w_.W.data())
                                 : structure_.pair_score(block_, l, z, y, w_.W.data());
  }
  // What leaving the true label gains from the links to active nodes: mass goes along with the best label that the
  // active node has mass on.
  void add_active_neighbours() {
    for (const Node& node : e_->nodes)
      for (int32_t e = g_->first[node.node]; e < g_->first[node.node + 1]; ++e) {
        const int l = g_->around[e], v = g_->other(l, node.node);
        if (slot_[v] >= 0) continue;
        double* scores = s_.unary.data() + g_->place[v];
        for (int y = 0; y < g_->count[v]; ++y)
          if (y != truth_[v]) scores[y] += best_partner(node, l, v, y);
      }
  }
  double best_partner(const Node& node, int l, int v, int y) const {
    const bool first = node.node == g_->a[l];
    const auto pair = [&](int z, int own) {
      return first ? structure_.pair_score(block_, l, z, own, w_.W.data())
                   : structure_.pair_score(block_, l, own, z, w_.W.data());
    };
    double most = -std::numeric_limits<double>::infinity();
    for (int z = 0; z < g_->count[node.node]; ++z)
      if (node.p[z] > 0) most = std::max(most, pair(z, y) - pair(z, truth_[v]));
    return most;
  }
  void add_node(int32_t v) {
    const int32_t slot = static_cast<int32_t>(e_->nodes.size());
    Node node{v, std::vector<double>(g_->count[v], 0)};
    node.p[truth_[v]] = mass_[block_];
    for (int32_t e = g_->first[v]; e < g_->first[v + 1]; ++e) {
      const int l = g_->around[e], other = g_->other(l, v);
      if (slot_[other] < 0) continue;
      const bool first = g_->a[l] == v;
      Link link = fresh(*g_, l, first ? slot : slot_[other], first ? slot_[other] : slot);
      const std::vector<double>& p = e_->nodes[slot_[other]].p;
      const int columns = g_->count[g_->b[l]];
      for (size_t y = 0; y < p.size(); ++y)
        link.q[first ? truth_[v] * columns + y : y * columns + truth_[v]] = p[y];
      e_->links.push_back(std::move(link));
    }
    e_->nodes.push_back(std::move(node));
    slot_[v] = slot;
  }

  // Psi of a change d of the marginals of a node, with its links to nodes that have their true labels.
  void push_change(const Node& node, int y, double c) {
    structure_.push_node(s_, *g_, node.node, y, c);
    for (int32_t e = g_->first[node.node]; e < g_->first[node.node + 1]; ++e) {
      const int l = g_->around[e], other = g_->other(l, node.node);
      if (slot_[other] >= 0) continue;
      if (g_->a[l] == node.node)
        structure_.push_pair(s_, *g_, l, y, truth_[other], c);
      else
        structure_.push_pair(s_, *g_, l, truth_[other], y, c);
    }
  }
  // q -= Psi(p of the node) - mass Psi(true label)
  void move_node(const Node& node, double* q) {
    s_.move.clear();
    for (size_t y = 0; y < node.p.size(); ++y)
      if (node.p[y] != 0) push_change(node, static_cast<int>(y), node.p[y]);
    push_change(node, truth_[node.node], -mass_[block_]);
    structure_.apply(s_, q, -1.0);
  }
  void move_link(const Link& link, double* q) {
    const int columns = g_->count[g_->b[link.link]];
    s_.move.clear();
    for (size_t k = 0; k < link.q.size(); ++k)
      if (link.q[k] != 0)
        structure_.push_pair(s_, *g_, link.link, static_cast<int>(k) / columns, static_cast<int>(k) % columns,
                             link.q[k]);
    structure_.push_pair(s_, *g_, link.link, truth_[g_->a[link.link]], truth_[g_->b[link.link]],
                         -mass_[block_]);
    structure_.apply(s_, q, -1.0);
  }

  void sums(const Link& link) {
    rows_.resize(link.za.size());
    columns_.resize(link.zb.size());
    sum_up(link.q, rows_, columns_);
  }

  // The best pair of a slope over a simplex: to `best` from `worst` among those with mass; adds to the report.
  bool choose(const std::vector<double>& mass, int& best, int& worst, GdmmReport& report) const {
    best = static_cast<int>(std::max_element(slope_.begin(), slope_.end()) - slope_.begin());
    worst = -1;
    double mean = 0;
    for (size_t y = 0; y < mass.size(); ++y) {
      if (mass[y] <= 0) continue;  // nothing has mass on labels that never are together
      mean += mass[y] * slope_[y];
      if (worst < 0 || slope_[y] < slope_[worst]) worst = static_cast<int>(y);
    }
    report.violation += std::max(0.0, mass_[block_] * slope_[best] - mean);
    return slope_[best] > slope_[worst] + rounding * (1 + std::abs(slope_[best]));
  }

  bool step_node(size_t k, GdmmReport& report) {
    Node& node = e_->nodes[k];
    const double r = penalty_[block_];
    slope_.resize(node.p.size());
    structure_.node_scores(block_, node.node, w_.W.data(), slope_.data());
    for (int32_t e = g_->first[node.node]; e < g_->first[node.node + 1]; ++e) {
      const int l = g_->around[e], other = g_->other(l, node.node);
      if (slot_[other] < 0 && loud(other)) add_slice(l, node.node, truth_[other], slope_.data());
    }
    for (const int32_t number : around_[k]) {
      const Link& link = e_->links[number];
      sums(link);
      const bool first = link.a == static_cast<int32_t>(k);
      const std::vector<double>&sum = first ? rows_ : columns_, &z = first ? link.za : link.zb;
      for (size_t y = 0; y < node.p.size(); ++y) slope_[y] += r * (sum[y] - node.p[y] + z[y]);
    }
    int best = 0, worst = 0;
    if (!choose(node.p, best, worst, report)) return false;
    s_.move.clear();
    push_change(node, best, 1);
    push_change(node, worst, -1);
    const double curvature = length() + 2 * r * static_cast<double>(around_[k].size());
    shift(node.p, best, worst, curvature, report);
    return true;
  }

  bool step_link(Link& link, GdmmReport& report) {
    const double r = penalty_[block_];
    const int columns = static_cast<int>(link.zb.size());
    sums(link);
    const std::vector<double>&pa = e_->nodes[link.a].p, &pb = e_->nodes[link.b].p;
    for (size_t y = 0; y < pa.size(); ++y) rows_[y] += link.za[y] - pa[y];
    for (size_t y = 0; y < pb.size(); ++y) columns_[y] += link.zb[y] - pb[y];
    slope_.resize(link.q.size());
    structure_.link_scores(block_, link.link, w_.W.data(), slope_.data());
    for (size_t y = 0; y < link.q.size(); ++y) slope_[y] -= r * (rows_[y / columns] + columns_[y % columns]);
    int best = 0, worst = 0;
    if (!choose(link.q, best, worst, report)) return false;
    s_.move.clear();
    structure_.push_pair(s_, *g_, link.link, best / columns, best % columns, 1);
    structure_.push_pair(s_, *g_, link.link, worst / columns, worst % columns, -1);
    const int turns = (best / columns != worst / columns) + (best % columns != worst % columns);
    shift(link.q, best, worst, length() + 2 * r * turns, report);
    return true;
  }

  // Of the move that was built, in the metric of the prior.
  double length() {
    move_.renew();
    return w_.squared_norm(move_, s_);
  }
  // The same with factors over several nodes: nodes as they are, each factor trimmed to its nodes (clique_repair.hpp).
  void repair_cliques(const Shape& g, int64_t i, Marginals& m) const {
    const Example& e = examples_[i];
    if (e.nodes.empty()) return;
    std::vector<std::vector<double>> p(g.nodes()), q(g.links());
    for (const Node& node : e.nodes) p[node.node] = node.p;
    for (const Link& link : e.links) q[link.link] = link.q;
    std::vector<char> done(g.links(), 0);
    for (const int32_t z : g.derived) {
      CliqueRepair(structure_, g, z).run(p, q);
      for (int32_t k = g.first[z]; k < g.first[z + 1]; ++k) done[g.around[k]] = 1;
    }
    for (int l = 0; l < g.links(); ++l)
      if (!done[l]) repair_link(q[l], p[g.a[l]], p[g.b[l]]);
    for (int v = 0; v < g.nodes(); ++v) {
      m.node_block.push_back(i);
      m.node.push_back(v);
      for (const double value : p[v]) m.node_value.push_back(value / mass_[i]);
    }
    for (int l = 0; l < g.links(); ++l) {
      m.link_block.push_back(i);
      m.link.push_back(l);
      for (const double value : q[l]) m.link_value.push_back(value / mass_[i]);
    }
  }
  // Moves mass along that move, by the exact step.
  void shift(std::vector<double>& mass, int best, int worst, double curvature, GdmmReport& report) {
    const double g = slope_[best] - slope_[worst];
    const bool whole = curvature * mass[worst] <= g;
    const double step = whole ? mass[worst] : g / curvature;
    w_.shift(move_, s_, -step);
    mass[best] += step;
    mass[worst] = whole ? 0 : mass[worst] - step;
    ++report.updates;
  }

  void pull(Link& link, GdmmReport& report) {
    sums(link);
    const std::vector<double>&pa = e_->nodes[link.a].p, &pb = e_->nodes[link.b].p;
    const double r = penalty_[block_];
    const auto one = [&](std::vector<double>& z, const std::vector<double>& sum,
                         const std::vector<double>& p) {
      for (size_t y = 0; y < p.size(); ++y) {
        const double off = sum[y] - p[y];
        report.inconsistent += std::abs(r * z[y] * off);
        z[y] += eta_ * off;
      }
    };
    one(link.za, rows_, pa);
    one(link.zb, columns_, pb);
  }
};

}  // namespace mm
