// Algorithm 3 of Yen et al.: block-greedy coordinate descent with steps of length 1 / Q_max.
//
// Every node and every link of an example is a factor of its own, with marginals q_f in mass * simplex. gdmm_graph.hpp
// has the symbols and the augmented Lagrangian. s_f is the ascent of a factor.
//
//   for each example:
//     1. f* = the factor with the most to gain:  max over d of <s_f, d> - Q_max / 2 |d|^2, q_f + d in its simplex (18)
//     2. f* becomes an active factor of the example, for good
//     3. for each active factor: q_f += the best such d; update w                                             (19)
//   multipliers:  z += eta (M q - p)  for every node of every link
//
// Q_max bounds the curvature of every factor. The curvature is |phi|^2 over the labels that share a weight, plus r
// times the factor's effect on messages: r for each link of a node, r (K_a + K_b) for a link. The best d is a
// projection:
//   q_f + d = projection of q_f + s_f / Q_max onto the simplex.
// A link takes memory once it, or one of its nodes, has left the true labels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "solvers/gdmm_graph.hpp"

namespace mm {

class BoundedGdmm : public GdmmOnGraphs {
 public:
  // The paper has `grow` = 1.
  BoundedGdmm(const GraphData& data, std::vector<double> mass, std::vector<double> penalty, double eta,
              int inner, int grow)
      : GdmmOnGraphs(data, std::move(mass), std::move(penalty), eta, inner, grow), examples_(mass_.size()) {
    for (size_t i = 0; i < examples_.size(); ++i) start(static_cast<int64_t>(i));
    bound_ = most_curved();
  }

  double bound() const { return bound_; }  // Q_max

  GdmmReport pass(const int64_t* order, int64_t n, double) {
    GdmmReport report;
    for (int64_t k = 0; k < n; ++k) poll(), visit(order[k], report);
    for (int64_t k = 0; k < n; ++k) {
      const Shape& g = data_.shape_of(order[k]);
      Example& e = examples_[order[k]];
      for (auto& [l, link] : e.links)
        pull(link, e.p.data() + g.place[g.a[l]], e.p.data() + g.place[g.b[l]], penalty_[order[k]], report);
    }
    return report;
  }

  // A consistent point near the current one: nodes stay, and links are trimmed to their nodes and filled up.
  Marginals repaired() const {
    Marginals m;
    std::vector<double> q;
    for (size_t i = 0; i < examples_.size(); ++i) {
      const int64_t block = static_cast<int64_t>(i);
      const Shape& g = data_.shape_of(block);
      std::vector<std::vector<double>> p(g.nodes());
      for (int v = 0; v < g.nodes(); ++v) {
        const double* own = examples_[i].p.data() + g.place[v];
        p[v].assign(own, own + g.count[v]);
        if (own[truth(block)[v]] == mass_[i]) continue;
        m.node_block.push_back(block);
        m.node.push_back(v);
        for (const double value : p[v]) m.node_value.push_back(value / mass_[i]);
      }
      for (const auto& [l, link] : sorted(examples_[i].links)) {
        const auto stays = [&](int v) { return p[v][truth(block)[v]] == mass_[i]; };
        if (stays(g.a[l]) && stays(g.b[l])) continue;
        q = link->q;
        repair_link(q, p[g.a[l]], p[g.b[l]]);
        m.link_block.push_back(block);
        m.link.push_back(l);
        for (const double value : q) m.link_value.push_back(value / mass_[i]);
      }
    }
    return m;
  }

  // Starts at a consistent point; the multipliers z are zero.
  void restore(const Marginals& m) {
    size_t place = 0;
    for (size_t n = 0; n < m.node.size(); ++n) {
      const int64_t i = m.node_block[n];
      const Shape& g = data_.shape_of(i);
      const int v = m.node[n];
      for (int k = 0; k < g.count[v]; ++k) examples_[i].p[g.place[v] + k] = mass_[i] * m.node_value[place++];
      examples_[i].active.push_back(v);
      touch_around(i, v);
    }
    place = 0;
    for (size_t n = 0; n < m.link.size(); ++n) {
      const int64_t i = m.link_block[n];
      for (double& value : touch(i, m.link[n]).q) value = mass_[i] * m.link_value[place++];
      examples_[i].active.push_back(data_.shape_of(i).nodes() + m.link[n]);
    }
    refresh();
  }

  // Recomputes w from the marginals.
  void refresh() {
    std::vector<double> q(structure_.weights(), 0);
    for (size_t i = 0; i < examples_.size(); ++i) {
      const int64_t block = static_cast<int64_t>(i);
      const Shape& g = data_.shape_of(block);
      s_.block = block;
      s_.move.clear();
      for (int v = 0; v < g.nodes(); ++v) {
        const double* own = examples_[i].p.data() + g.place[v];
        for (int k = 0; k < g.count[v]; ++k)
          if (const double d = own[k] - at_truth(block, v, k); d != 0) structure_.push_node(s_, g, v, k, d);
      }
      for (const auto& [l, link] : examples_[i].links) push_difference(g, l, link.q, start_of(block, l));
      structure_.apply(s_, q.data(), -1.0);
    }
    w_.follow(q);
  }
  void set_origin(const double* flat) { w_.take_origin(flat), refresh(); }
  void set_metric(const double* diagonal, const double* lower, const double* matrix) {
    w_.take_metric(diagonal, lower, matrix);
    double most = 1;
    for (const double x : w_.metric.diagonal) most = std::max(most, x);
    for (size_t f = 0; f < w_.metric.inside.size(); ++f) {  // the largest row sum bounds all eigenvalues
      double sum = 0;
      for (size_t k = 0; k < w_.metric.inside.size(); ++k)
        sum += std::abs(w_.metric.matrix[f * w_.metric.inside.size() + k]);
      most = std::max(most, sum);
    }
    bound_ = most * most_curved();
    refresh();
  }
  int64_t active_nodes() const { return count(true); }
  int64_t active_links() const { return count(false); }

 private:
  struct Link {
    std::vector<double> q, za, zb;
  };
  struct Example {
    std::vector<double> p;                    // of all nodes
    std::unordered_map<int32_t, Link> links;  // links that have left the truth, or that have a node which has
    std::vector<int32_t> active;              // active factors: v for a node, nodes() + l for a link
  };
  double bound_ = 1;
  std::vector<Example> examples_;
  std::vector<double> slope_, now_, next_, sorted_;
  std::vector<std::pair<double, int32_t>> wish_;

  const int32_t* truth(int64_t i) const { return data_.truth.data() + data_.node_first[i]; }
  double at_truth(int64_t i, int v, int k) const { return truth(i)[v] == k ? mass_[i] : 0; }
  int64_t count(bool nodes) const {
    int64_t n = 0;
    for (size_t i = 0; i < examples_.size(); ++i)
      for (const int32_t f : examples_[i].active)
        n += (f < data_.shape_of(static_cast<int64_t>(i)).nodes()) == nodes;
    return n;
  }
  static std::vector<std::pair<int32_t, const Link*>> sorted(const std::unordered_map<int32_t, Link>& links) {
    std::vector<std::pair<int32_t, const Link*>> all;
    for (const auto& [l, link] : links) all.emplace_back(l, &link);
    std::sort(all.begin(), all.end());
    return all;
  }
  void start(int64_t i) {
    const Shape& g = data_.shape_of(i);
    examples_[i].p.assign(g.place.back(), 0);
    for (int v = 0; v < g.nodes(); ++v) examples_[i].p[g.place[v] + truth(i)[v]] = mass_[i];
  }
  std::vector<double> start_of(int64_t i, int l) const {
    const Shape& g = data_.shape_of(i);
    std::vector<double> q(static_cast<size_t>(g.count[g.a[l]]) * g.count[g.b[l]], 0);
    q[static_cast<size_t>(truth(i)[g.a[l]]) * g.count[g.b[l]] + truth(i)[g.b[l]]] = mass_[i];
    return q;
  }
  Link& touch(int64_t i, int l) {
    const auto [at, fresh] = examples_[i].links.try_emplace(l);
    if (fresh) {
      const Shape& g = data_.shape_of(i);
      at->second = {start_of(i, l), std::vector<double>(g.count[g.a[l]], 0),
                    std::vector<double>(g.count[g.b[l]], 0)};
    }
    return at->second;
  }
  void touch_around(int64_t i, int v) {
    const Shape& g = data_.shape_of(i);
    for (int32_t e = g.first[v]; e < g.first[v + 1]; ++e) touch(i, g.around[e]);
  }

  // Q_max for Sigma = I.
  double most_curved() {
    double most = 0;
    for (int64_t i = 0; i < data_.blocks(); ++i) {
      const Shape& g = data_.shape_of(i);
      const double r = penalty_[i];
      s_.block = i;
      for (int v = 0; v < g.nodes(); ++v)
        most = std::max(most, structure_.node_curvature(i, v) + r * (g.first[v + 1] - g.first[v]));
      for (int l = 0; l < g.links(); ++l)
        most = std::max(most, structure_.link_curvature(i, l) + r * (g.count[g.a[l]] + g.count[g.b[l]]));
    }
    return most > 0 ? most * (1 + 1e-6) : 1;  // lengths are in single precision
  }

  // Computes the ascent of a factor into slope_, and its marginals into now_.
  void ascent(int64_t i, int f) {
    const Shape& g = data_.shape_of(i);
    Example& e = examples_[i];
    const double r = penalty_[i];
    if (f < g.nodes()) {
      now_.assign(e.p.begin() + g.place[f], e.p.begin() + g.place[f + 1]);
      slope_.resize(now_.size());
      structure_.node_scores(i, f, w_.W.data(), slope_.data());
      for (int32_t k = g.first[f]; k < g.first[f + 1]; ++k) {
        const int l = g.around[k];
        const auto found = e.links.find(l);
        if (found == e.links.end()) continue;  // no message
        sums(found->second);
        const bool first = g.a[l] == f;
        const std::vector<double>&sum = first ? rows_ : columns_,
              &z = first ? found->second.za : found->second.zb;
        for (size_t y = 0; y < now_.size(); ++y) slope_[y] += r * (sum[y] - now_[y] + z[y]);
      }
      return;
    }
    const int l = f - g.nodes(), columns = g.count[g.b[l]];
    const auto found = e.links.find(l);
    now_ = found == e.links.end() ? start_of(i, l) : found->second.q;
    slope_.resize(now_.size());
    structure_.link_scores(i, l, w_.W.data(), slope_.data());
    if (found == e.links.end()) return;
    sums(found->second);
    const double *pa = e.p.data() + g.place[g.a[l]], *pb = e.p.data() + g.place[g.b[l]];
    for (size_t k = 0; k < now_.size(); ++k) {
      const size_t y = k / columns, z = k % columns;
      slope_[k] -= r * (rows_[y] - pa[y] + found->second.za[y] + columns_[z] - pb[z] + found->second.zb[z]);
    }
  }

  // Sets next_ to the projection of now_ + slope_ / Q_max onto mass * simplex. Returns its gain by (18).
  double project(double mass) {
    next_.resize(now_.size());
    for (size_t k = 0; k < now_.size(); ++k) next_[k] = now_[k] + slope_[k] / bound_;
    sorted_ = next_;
    std::sort(sorted_.begin(), sorted_.end(), std::greater<>());
    double sum = 0, level = 0;
    for (size_t k = 0; k < sorted_.size(); ++k) {
      sum += sorted_[k];
      const double here = (sum - mass) / static_cast<double>(k + 1);
      if (sorted_[k] > here) level = here;
    }
    double gain = 0;
    for (size_t k = 0; k < now_.size(); ++k) {
      next_[k] = std::max(0.0, next_[k] - level);
      const double d = next_[k] - now_[k];
      gain += d * (slope_[k] - bound_ / 2 * d);
    }
    return gain;
  }

  void visit(int64_t i, GdmmReport& report) {
    Example& e = examples_[i];
    if (mass_[i] <= 0) return;
    const Shape& g = data_.shape_of(i);
    wish_.clear();
    for (int f = 0; f < g.nodes() + g.links(); ++f) {
      ascent(i, f);
      report.violation += violated(mass_[i]);
      wish_.emplace_back(project(mass_[i]), f);
    }
    ++report.calls;
    const size_t n = std::min(wish_.size(), static_cast<size_t>(grow_));
    std::partial_sort(wish_.begin(), wish_.begin() + n, wish_.end(),
                      [](const auto& x, const auto& y) { return x.first > y.first; });
    for (size_t k = 0; k < n; ++k)
      if (wish_[k].first > 0 &&
          std::find(e.active.begin(), e.active.end(), wish_[k].second) == e.active.end())
        e.active.push_back(wish_[k].second);
    for (int turn = 0; turn < inner_; ++turn)
      for (const int32_t f : e.active) update(i, f, report);
  }
  double violated(double mass) const {
    double mean = 0;
    for (size_t k = 0; k < now_.size(); ++k) mean += now_[k] * slope_[k];
    return std::max(0.0, mass * *std::max_element(slope_.begin(), slope_.end()) - mean);
  }
  void update(int64_t i, int f, GdmmReport& report) {
    const Shape& g = data_.shape_of(i);
    ascent(i, f);
    project(mass_[i]);
    if (next_ == now_) return;
    ++report.updates;
    s_.block = i;
    s_.move.clear();
    if (f < g.nodes()) {
      for (size_t k = 0; k < now_.size(); ++k)
        if (const double d = next_[k] - now_[k]; d != 0)
          structure_.push_node(s_, g, f, static_cast<int>(k), d);
      std::copy(next_.begin(), next_.end(), examples_[i].p.begin() + g.place[f]);
      touch_around(i, f);
    } else {
      push_difference(g, f - g.nodes(), next_, now_);
      touch(i, f - g.nodes()).q = next_;
    }
    move_.renew();
    w_.shift(move_, s_, -1.0);
  }
  void push_difference(const Shape& g, int l, const std::vector<double>& to,
                       const std::vector<double>& from) {
    const int columns = g.count[g.b[l]];
    for (size_t k = 0; k < to.size(); ++k)
      if (const double d = to[k] - from[k]; d != 0)
        structure_.push_pair(s_, g, l, static_cast<int>(k) / columns, static_cast<int>(k) % columns, d);
  }
};

}  // namespace mm
