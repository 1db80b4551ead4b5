// Visits of GDMM on pairwise factor graphs; gdmm_graph.hpp has the mathematics.
#include "solvers/gdmm_graph.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "solvers/clique_repair.hpp"

namespace mm {

void GraphGdmm::visit(int64_t block, double tolerance, GdmmReport& report) {
  enter(block);
  activate(tolerance, report);
  around_.resize(std::max(around_.size(), e_->nodes.size()));
  for (size_t k = 0; k < e_->nodes.size(); ++k) around_[k].clear();
  for (size_t k = 0; k < e_->links.size(); ++k) {
    around_[e_->links[k].a].push_back(static_cast<int32_t>(k));
    around_[e_->links[k].b].push_back(static_cast<int32_t>(k));
  }
  GdmmReport ignored;  // only the first step of a factor reports its part of the gap
  for (size_t k = 0; k < e_->nodes.size(); ++k)
    for (int step = 0; step < inner_; ++step)
      if (!step_node(k, step == 0 ? report : ignored)) break;
  for (Link& link : e_->links)
    for (int step = 0; step < inner_; ++step)
      if (!step_link(link, step == 0 ? report : ignored)) break;
  for (Link& link : e_->links)
    pull(link, e_->nodes[link.a].p.data(), e_->nodes[link.b].p.data(), penalty_[block_], report);
  leave();
}

void GraphGdmm::activate(double tolerance, GdmmReport& report) {
  if (!g_->derived.empty()) {  // a factor over several nodes leaves its true state only with them
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

void GraphGdmm::audit(double tolerance, GdmmReport& report) {
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
    if (slot_[a] >= 0 && slot_[b] >= 0) continue;  // the link is a factor of its own
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

double GraphGdmm::price_of(int l) {
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

void GraphGdmm::add_slice(int l, int v, int z, double* scores) const {
  for (int y = 0; y < g_->count[v]; ++y)
    scores[y] += v == g_->a[l] ? structure_.pair_score(block_, l, y, z, w_.W.data())
                               : structure_.pair_score(block_, l, z, y, w_.W.data());
}

void GraphGdmm::add_active_neighbours() {
  for (const Node& node : e_->nodes)
    for (int32_t e = g_->first[node.node]; e < g_->first[node.node + 1]; ++e) {
      const int l = g_->around[e], v = g_->other(l, node.node);
      if (slot_[v] >= 0) continue;
      double* scores = s_.unary.data() + g_->place[v];
      for (int y = 0; y < g_->count[v]; ++y)
        if (y != truth_[v]) scores[y] += best_partner(node, l, v, y);
    }
}

double GraphGdmm::best_partner(const Node& node, int l, int v, int y) const {
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

void GraphGdmm::add_node(int32_t v) {
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

bool GraphGdmm::step_node(size_t k, GdmmReport& report) {
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

bool GraphGdmm::step_link(Link& link, GdmmReport& report) {
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

bool GraphGdmm::choose(const std::vector<double>& mass, int& best, int& worst, GdmmReport& report) const {
  best = static_cast<int>(std::max_element(slope_.begin(), slope_.end()) - slope_.begin());
  worst = -1;
  double mean = 0;
  for (size_t y = 0; y < mass.size(); ++y) {
    if (mass[y] <= 0) continue;  // labels that are never together have no mass
    mean += mass[y] * slope_[y];
    if (worst < 0 || slope_[y] < slope_[worst]) worst = static_cast<int>(y);
  }
  report.violation += std::max(0.0, mass_[block_] * slope_[best] - mean);
  return slope_[best] > slope_[worst] + rounding * (1 + std::abs(slope_[best]));
}

void GraphGdmm::shift(std::vector<double>& mass, int best, int worst, double curvature, GdmmReport& report) {
  const double g = slope_[best] - slope_[worst];
  const bool whole = curvature * mass[worst] <= g;
  const double step = whole ? mass[worst] : g / curvature;
  w_.shift(move_, s_, -step);
  mass[best] += step;
  mass[worst] = whole ? 0 : mass[worst] - step;
  ++report.updates;
}

void GraphGdmm::push_change(const Node& node, int y, double c) {
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

void GraphGdmm::move_node(const Node& node, double* q) {
  s_.move.clear();
  for (size_t y = 0; y < node.p.size(); ++y)
    if (node.p[y] != 0) push_change(node, static_cast<int>(y), node.p[y]);
  push_change(node, truth_[node.node], -mass_[block_]);
  structure_.apply(s_, q, -1.0);
}

void GraphGdmm::move_link(const Link& link, double* q) {
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

void GraphGdmm::refresh() {
  std::vector<double> q(structure_.weights(), 0);
  for (size_t i = 0; i < examples_.size(); ++i) {
    enter(static_cast<int64_t>(i));
    for (const Node& node : examples_[i].nodes) move_node(node, q.data());
    for (const Link& link : examples_[i].links) move_link(link, q.data());
    leave();
  }
  w_.follow(q);
}

void GraphGdmm::restore(const Marginals& m) {
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

Marginals GraphGdmm::repaired() const {
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

void GraphGdmm::repair_cliques(const Shape& g, int64_t i, Marginals& m) const {
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

}  // namespace mm
