// GDMM on sets of labels: many binary nodes, and a weight for every two labels that are on together (Yen et al.,
// Algorithm 3).
//
// The variables are the masses that leave the truth t of an example of mass m:
//   u_a in [0, m] leaves node a;   c_ab leaves both ends of a link,  max(0, u_a + u_b - m) <= c_ab <= min(u_a, u_b)
//   both on:  r_ab = c | u_a - c | u_b - c | m - u_a - u_b + c     for (t_a, t_b) = 00 | 01 | 10 | 11
//   D = sum delta_a u_a - 1/2 |w|^2,     w_a -= sigma_a u_a x,     w_ab -= r_ab - m t_a t_b
//   dD/du_a = g_a = delta_a + sigma_a (<w_a, x> + sum_(b on in the truth) w_ab)        sigma = +1 off, -1 on
//   dD/dc_ab = p_ab = s_ab w_ab                                                     s = +1 for t_a = t_b, else -1
// g_a does not depend on the other nodes, so a link is needed for its c only. While c = 0 and u_a + u_b <= m, a link is
// a part of its nodes: it takes no memory and no time. Active links have copies alpha, beta of u_a, u_b and
// multipliers:
//   D - sum over active links of  la (alpha - u_a) + rho/2 (alpha - u_a)^2 + the same for b
//   node:         u_a by the exact step in [0, m];  slope  g_a + sum (la + rho (alpha - u_a))
//   link:         alpha, beta, c exactly                                            joint_move.hpp
//   multipliers:  la += eta rho (alpha - u_a)
//
// A visit to an example computes x W once. After that, its steps change g by |x|^2, without the features:
//   1. activate links: the `grow` links whose joint move gains most                      joint_oracle.hpp
//   2. activate nodes: the `grow` nodes with the most to gain by leaving alone
//   3. make `inner` rounds over active nodes, links, multipliers                         label_visit.hpp
// A step that would take u_a + u_b beyond m ends there and activates the link. A link that is not active has
// c = 0, alpha = u_a, beta = u_b, la = lb = 0 and u_a + u_b <= m. A link that stays in this state for some visits is
// dropped.
//
// Pairs are not enough: three labels may gain together although no two of them do. A link (a, b) needs no attention if
// prices la + lb >= p_ab can be paid out of the losses of its nodes when they leave. A node that has left pays nothing.
// In one of `period` passes an audit lets pairs be paid one after the other, first by the end with more left. Pairs
// that remain unpaid become active. So at the end the method covers the whole linear relaxation.
#pragma once

#include <cstdint>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "models/graph_factors.hpp"
#include "models/marginals.hpp"
#include "runtime/interrupt.hpp"
#include "solvers/label_visit.hpp"

namespace mm {

// The prices that the two labels of each pair are paid for leaving together. A pair is given by the number of its link;
// `first` and `second` follow the order of its ends.
struct PairPrices {
  std::vector<int64_t> block;
  std::vector<int32_t> link;
  std::vector<double> first, second;
};

class LabelGdmm {
 public:
  LabelGdmm(const GraphData& data, std::vector<double> mass, std::vector<double> penalty, double eta,
            int inner, int grow)
      : data_(data),
        structure_(data),
        shape_(only_shape(data)),
        mass_(std::move(mass)),
        penalty_(std::move(penalty)),
        options_{eta, inner, grow},
        points_(mass_.size()),
        W_(structure_.weights()),
        pairs_(shape_.links() ? shape_.nodes() : 0),
        numbers_(shape_),
        visit_(data, numbers_) {}
  LabelGdmm(const LabelGdmm&) = delete;

  // Makes one visit to each example of the order. In one of `period` passes a visit audits the pairs, in each pass for
  // other examples. The other visits look for labels in one of `partitions` parts of them, chosen at random.
  GdmmReport pass(const int64_t* order, int64_t n, double tolerance, int64_t period, int partitions,
                  bool exhaustive, uint64_t seed) {
    if (period < 1 || partitions < 1) throw std::invalid_argument("period and partitions must be 1 or more");
    GdmmReport report;
    options_.tolerance = tolerance;
    options_.exhaustive = exhaustive;
    std::minstd_rand random(static_cast<uint32_t>(seed));
    const int parts = std::min(partitions, shape_.nodes());
    ++passes_;
    for (int64_t k = 0; k < n; ++k) {
      poll();
      options_.audit = (order[k] + passes_) % period == 0 ? period : 0;
      enter(order[k]);
      const bool whole = parts == 1 || options_.audit > 0;
      visit_.open(W_.data(), pairs_, whole ? 0 : static_cast<int>(random() % parts), whole ? 1 : parts);
      visit_.run(pairs_, options_, report);
      visit_.write(W_.data(), pairs_, false);
      visit_.forget();
    }
    return report;
  }

  // D at the consistent point near the current one: each c is trimmed to the values that its nodes allow.
  double dual() const {
    double loss = 0, square = 0;
    std::vector<double> change(shape_.links(), 0.0), left(shape_.nodes(), 0.0);
    for (size_t i = 0; i < points_.size(); ++i) {
      const LabelPoint& point = points_[i];
      const int32_t* t = truth(i);
      point.spread(left);
      for (const LabelNode& node : point.nodes)
        loss += node.u * structure_.node_loss(static_cast<int64_t>(i), node.label, !t[node.label]);
      for (const LabelLink& link : point.links) {
        const double less = link.c - LabelPoint::trimmed(link, left, mass_[i]);
        change[numbers_(link.a, link.b)] += t[link.a] == t[link.b] ? less : -less;
      }
      point.spread(left, true);
    }
    for (const double w : W_) square += w * w;
    for (const double m : origin_) square -= m * m;
    for (int l = 0; l < shape_.links(); ++l) {
      const double w = pairs_.at(shape_.a[l], shape_.b[l]) + change[l];
      square += w * w;
    }
    return loss - 0.5 * square;
  }

  // The same consistent point as marginals. Links with c = 0 are not listed.
  Marginals repaired() const {
    Marginals m;
    std::vector<double> left(shape_.nodes(), 0.0);
    for (size_t i = 0; i < points_.size(); ++i) {
      points_[i].spread(left);
      for (const LabelNode& node : points_[i].nodes) {
        const double share = std::min(1.0, node.u / mass_[i]);
        m.node_block.push_back(static_cast<int64_t>(i));
        m.node.push_back(node.label);
        for (int y = 0; y < 2; ++y) m.node_value.push_back(y == truth(i)[node.label] ? 1 - share : share);
      }
      for (const LabelLink& link : points_[i].links) list(m, i, link, left);
      points_[i].spread(left, true);
    }
    return m;
  }

  // Starts at a consistent point, with multipliers of zero.
  void restore(const Marginals& m) {
    for (size_t n = 0; n < m.node.size(); ++n) {
      const int64_t i = m.node_block[n];
      const double stays = m.node_value[2 * n + truth(i)[m.node[n]]];
      if (stays < 1) points_[i].nodes.push_back({m.node[n], mass_[i] * (1 - stays)});
    }
    std::vector<double> left(shape_.nodes(), 0.0);
    for (size_t k = 0; k < m.link.size(); ++k) {
      const int64_t i = m.link_block[k];
      const int32_t a = shape_.a[m.link[k]], b = shape_.b[m.link[k]];
      const double c = mass_[i] * m.link_value[4 * k + 2 * !truth(i)[a] + !truth(i)[b]];
      points_[i].spread(left);
      LabelLink link{a, b, left[a], left[b], c, 0, 0};
      link.c = LabelPoint::trimmed(link, left, mass_[i]);
      points_[i].links.push_back(link);
      points_[i].spread(left, true);
    }
    refresh();
  }

  // Recomputes w from the point, which removes the rounding errors that updates have added up.
  void refresh() {
    std::fill(W_.begin(), W_.end(), 0.0);
    if (!origin_.empty()) structure_.pack(origin_.data(), W_.data());
    for (int l = 0; l < shape_.links(); ++l) {
      const Bank& bank = data_.banks[1];  // its weights are in pairs_ only
      pairs_.set(shape_.a[l], shape_.b[l], origin_.empty() ? 0 : origin_[bank.outside + l]);
      W_[bank.inside + l] = 0;
    }
    for (size_t i = 0; i < points_.size(); ++i) {
      enter(static_cast<int64_t>(i));
      visit_.write(W_.data(), pairs_, true);
      visit_.leave();
    }
  }

  int64_t dimension() const { return structure_.dimension(); }
  // Sets the mean of a prior, given as flat weights.
  void set_origin(const double* flat) {
    origin_.assign(flat, flat + dimension());
    refresh();
  }

  // The prices of the active pairs; with w they prove the `ceilings`. The next method proves ceilings for any w and
  // prices.
  PairPrices prices() const {
    PairPrices found;
    std::vector<double> left(shape_.nodes(), 0.0);
    for (size_t i = 0; i < points_.size(); ++i) {
      points_[i].spread(left);
      for (const LabelLink& link : points_[i].links) {
        const int32_t l = numbers_(link.a, link.b);
        const double a = link.la + penalty_[i] * (link.alpha - left[link.a]);
        const double b = link.lb + penalty_[i] * (link.beta - left[link.b]);
        const bool same = shape_.a[l] == link.a;
        found.block.push_back(static_cast<int64_t>(i));
        found.link.push_back(l);
        found.first.push_back(same ? a : b);
        found.second.push_back(same ? b : a);
      }
      points_[i].spread(left, true);
    }
    return found;
  }
  std::vector<double> ceilings(const double* flat, const PairPrices& prices) {
    structure_.pack(flat, W_.data());
    for (int l = 0; l < shape_.links(); ++l)
      pairs_.set(shape_.a[l], shape_.b[l], flat[data_.banks[1].outside + l]);
    for (LabelPoint& point : points_) point = {};
    for (size_t k = 0; k < prices.link.size(); ++k) {
      const int64_t i = prices.block[k];
      const int32_t l = prices.link[k];
      if (i < 0 || i >= data_.blocks() || l < 0 || l >= shape_.links())
        throw std::invalid_argument("prices of pairs that are not there");
      points_[i].links.push_back({shape_.a[l], shape_.b[l], 0, 0, 0, prices.first[k], prices.second[k]});
    }
    return ceilings();
  }
  // Upper bounds on the slacks of all examples in the linear relaxation, at the current weights. They hold in any
  // state. They are close to the slacks if the state is near the optimum and audits have left nothing out.
  std::vector<double> ceilings() {
    std::vector<double> found(points_.size());
    for (size_t i = 0; i < points_.size(); ++i) {
      poll();
      enter(static_cast<int64_t>(i));
      visit_.open(W_.data(), pairs_);
      found[i] = visit_.ceiling(pairs_);
      visit_.leave();
    }
    return found;
  }

  // The pairs that the joint oracle finds for an example now, best first, and the number of weights that it looked at.
  std::pair<std::vector<JointGain>, int64_t> joint_gains(int64_t block, int wanted, bool exhaustive) {
    if (!shape_.links()) return {};
    enter(block);
    visit_.open(W_.data(), pairs_);
    const int64_t before = pairs_.looks();
    const std::vector<JointGain> found = visit_.seek(pairs_, 0, wanted, exhaustive);
    visit_.leave();
    return {found, pairs_.looks() - before};
  }

  // The weights, in the order of coef_.
  std::vector<double> weights() const {
    std::vector<double> flat(structure_.dimension());
    structure_.unpack(W_.data(), flat.data());
    for (int l = 0; l < shape_.links(); ++l)
      flat[data_.banks[1].outside + l] = pairs_.at(shape_.a[l], shape_.b[l]);
    return flat;
  }
  int64_t active_nodes() const { return count_parts(points_, &LabelPoint::nodes); }
  int64_t active_links() const { return count_parts(points_, &LabelPoint::links); }

 private:
  const GraphData& data_;
  GraphFactors structure_;
  const Shape& shape_;
  std::vector<double> mass_, penalty_;
  LabelOptions options_;
  std::vector<LabelPoint> points_;
  std::vector<double> origin_;  // flat; empty: zero
  aligned<double> W_;           // weights of labels; the weights of pairs are in pairs_
  JointOracle pairs_;
  LinkNumbers numbers_;
  LabelVisit visit_;
  int64_t passes_ = 0;

  static const Shape& only_shape(const GraphData& data) {
    if (!are_label_sets(data)) throw std::invalid_argument("these graphs are not sets of labels");
    return data.shapes[0];
  }
  const int32_t* truth(size_t i) const { return data_.truth.data() + data_.node_first[i]; }
  void enter(int64_t block) { visit_.enter(block, points_[block], mass_[block], penalty_[block]); }

  void list(Marginals& m, size_t i, const LabelLink& link, const std::vector<double>& left) const {
    const int32_t l = numbers_(link.a, link.b);
    const int32_t first = shape_.a[l], second = shape_.b[l];
    const double c = LabelPoint::trimmed(link, left, mass_[i]) / mass_[i];
    if (c <= 0) return;
    const double a = std::min(1.0, left[first] / mass_[i]), b = std::min(1.0, left[second] / mass_[i]);
    const double values[4] = {std::max(0.0, 1 - a - b + c), std::max(0.0, b - c), std::max(0.0, a - c), c};
    m.link_block.push_back(static_cast<int64_t>(i));
    m.link.push_back(l);
    for (int y = 0; y < 2; ++y)
      for (int z = 0; z < 2; ++z)
        m.link_value.push_back(values[2 * (y != truth(i)[first]) + (z != truth(i)[second])]);
  }
};

}  // namespace mm
