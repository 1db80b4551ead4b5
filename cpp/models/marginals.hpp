// Marginals: a point of the local polytope of each example. Only its differences from the true labelling are
// stored.
//
//     p_v(y) >= 0, sum_y p_v(y) = 1         for each listed node; any other has its true label
//     q_l(y_a, y_b) >= 0                    for each listed link, with row and column sums p_a and p_b
//
// If a link is not listed, its nodes leave their true labels s, t one at a time. Then q(y, t) = p_a(y),
// q(s, z) = p_b(z) and q(s, t) = p_a(s) + p_b(t) - 1, which must not be negative. So a link to a node with
// its true label need not be listed. On a forest marginals are means of labellings. On other graphs some are
// not: they only belong to the linear relaxation.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "models/graph_factors.hpp"

namespace mm {

struct Marginals {
  std::vector<int64_t> node_block, link_block;  // ascending
  std::vector<int32_t> node, link;
  std::vector<double> node_value, link_value;  // values of all nodes (links), one after the other
};

class MarginalSum {
 public:
  using Structure = GraphFactors;
  explicit MarginalSum(const GraphData& data)
      : data_(data), structure_(data), s_(structure_.scratch()), loud_(loud_labels(data)) {}

  // Adds sum_i c_i psi(marginals of i) to W, and returns sum_i c_i Delta. `c` has one number for each block.
  double run(const Marginals& m, const double* c, double* W) {
    double offset = 0;
    size_t n = 0, l = 0, node_place = 0, link_place = 0;
    while (n < m.node.size()) {
      const int64_t block = m.node_block[n];
      if (block < 0 || block >= data_.blocks()) throw std::invalid_argument("marginals of no example");
      begin(block);
      for (; n < m.node.size() && m.node_block[n] == block; ++n) take_node(m, n, node_place);
      for (; l < m.link.size() && m.link_block[l] == block; ++l) take_link(m, l, link_place);
      offset += c[block] * gather(c[block]);
      structure_.apply(s_, W, 1.0);
    }
    if (l < m.link.size()) throw std::invalid_argument("marginals of links without those of their nodes");
    return offset;
  }

 private:
  static constexpr double rounding = 1e-9;
  const GraphData& data_;
  Structure structure_;
  Structure::Scratch s_;
  const Shape* g_ = nullptr;
  const int32_t* truth_ = nullptr;
  std::vector<const double*> p_;        // for each node; null: its true label
  std::map<int32_t, const double*> q_;  // for each listed link
  std::vector<int32_t> listed_;
  std::vector<std::vector<char>> loud_;  // by type of node and label, see loud_labels

  void fail(const char* what) const {
    throw std::invalid_argument("marginals of example " + std::to_string(s_.block) + ": " + what);
  }
  void begin(int64_t block) {
    g_ = &data_.shape_of(block);
    truth_ = data_.truth.data() + data_.node_first[block];
    s_.block = block;
    s_.move.clear();
    p_.assign(g_->nodes(), nullptr);
    q_.clear();
    listed_.clear();
  }

  void take_node(const Marginals& m, size_t n, size_t& place) {
    const int32_t v = m.node[n];
    if (v < 0 || v >= g_->nodes() || p_[v]) fail("no such node, or twice");
    const size_t size = static_cast<size_t>(g_->count[v]);
    if (place + size > m.node_value.size()) fail("values are missing");
    p_[v] = m.node_value.data() + place;
    double sum = 0;
    for (size_t k = 0; k < size; ++k) sum += check(p_[v][k]);
    if (std::abs(sum - 1) > rounding) fail("a node does not sum to one");
    place += size;
    listed_.push_back(v);
  }
  void take_link(const Marginals& m, size_t n, size_t& place) {
    const int32_t l = m.link[n];
    if (l < 0 || l >= g_->links() || q_.count(l)) fail("no such link, or twice");
    const int rows = g_->count[g_->a[l]], columns = g_->count[g_->b[l]];
    const size_t size = static_cast<size_t>(rows) * columns;
    if (place + size > m.link_value.size()) fail("values are missing");
    const double* q = m.link_value.data() + place;
    for (int y = 0; y < rows; ++y) {
      double sum = 0;
      for (int z = 0; z < columns; ++z) {
        sum += check(q[y * columns + z]);
        if (q[y * columns + z] > 0 && structure_.never(*g_, l, y, z)) fail("labels that never are together");
      }
      if (std::abs(sum - at(g_->a[l], y)) > rounding) fail("a link does not fit its nodes");
    }
    for (int z = 0; z < columns; ++z) {
      double sum = 0;
      for (int y = 0; y < rows; ++y) sum += q[y * columns + z];
      if (std::abs(sum - at(g_->b[l], z)) > rounding) fail("a link does not fit its nodes");
    }
    q_[l] = q;
    place += size;
  }
  double check(double value) const {
    if (!(value >= 0)) fail("a value is negative");
    return value;
  }
  bool loud(int v) const { return loud_[g_->type[v]][truth_[v]] != 0; }
  double at(int v, int y) const { return p_[v] ? p_[v][y] : (truth_[v] == y ? 1 : 0); }

  // Lists the move c psi of the listed nodes and of their links; returns Delta.
  double gather(double c) {
    double loss = 0;
    for (const int32_t v : listed_) {
      for (int y = 0; y < g_->count[v]; ++y) {
        loss += p_[v][y] * structure_.node_loss(s_.block, v, y);
        if (p_[v][y] != 0) structure_.push_node(s_, *g_, v, y, c * p_[v][y]);
      }
      structure_.push_node(s_, *g_, v, truth_[v], -c);
      for (int32_t e = g_->first[v]; e < g_->first[v + 1]; ++e) {
        const int l = g_->around[e];
        const int other = g_->other(l, v);
        if (p_[other] ? other < v : !loud(other)) continue;  // its other end adds it, or it has no weights
        push_link(l, c);
      }
    }
    return loss;
  }
  void push_link(int l, double c) {
    const int a = g_->a[l], b = g_->b[l], columns = g_->count[b];
    const auto found = q_.find(l);
    const double stay = at(a, truth_[a]) + at(b, truth_[b]) - 1;
    if (found == q_.end() && !g_->derived.empty())
      fail("a link of a factor over several nodes is not listed");
    if (found == q_.end() && stay < -rounding)
      fail("a link of two nodes that leave their true labels together is not listed");
    const auto value = [&](int y, int z) {
      if (found != q_.end()) return found->second[y * columns + z];
      if (y == truth_[a]) return z == truth_[b] ? std::max(0.0, stay) : at(b, z);
      return z == truth_[b] ? at(a, y) : 0;
    };
    for (int y = 0; y < g_->count[a]; ++y)
      for (int z = 0; z < columns; ++z)
        if (const double q = value(y, z); q != 0) structure_.push_pair(s_, *g_, l, y, z, c * q);
    structure_.push_pair(s_, *g_, l, truth_[a], truth_[b], -c);
  }
};

}  // namespace mm
