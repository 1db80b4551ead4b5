// One visit of GDMM to a set of labels; gdmm_labels.hpp has the symbols and formulas.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "solvers/gdmm_graph.hpp"
#include "solvers/joint_move.hpp"
#include "solvers/joint_oracle.hpp"
#include "solvers/label_point.hpp"

namespace mm {

struct LabelOptions {
  double eta;
  int inner, grow;
  double tolerance = 0;
  int64_t audit = 0;        // passes from one audit to the next; 0: this visit makes none
  bool exhaustive = false;  // find pairs by a look at all of them
};

class LabelVisit {
 public:
  LabelVisit(const GraphData& data, const LinkNumbers& numbers)
      : data_(data),
        numbers_(numbers),
        bank_(data.banks[0]),
        x_(*bank_.features),
        L_(data.shapes[0].nodes()),
        around_(L_),
        scores_(bank_.stride),
        coefficients_(bank_.stride),
        u_(L_, 0.0),
        before_(L_, 0.0),
        g_(L_),
        e_(L_, 0.0),
        listed_(L_, 0),
        slot_(numbers.places(), -1) {}

  // Begins a visit with the point of an example: the labels that have left the truth, and the links.
  void enter(int64_t block, LabelPoint& point, double mass, double penalty) {
    point_ = &point, m_ = mass, rho_ = penalty;
    first_ = data_.node_first[block];
    truth_ = data_.truth.data() + first_;
    row_ = data_.node_row[first_];
    norm_ = x_.norms[row_];
    on_.clear();
    for (int a = 0; a < L_; ++a)
      if (truth_[a]) on_.push_back(a);
    list_.clear();
    for (const LabelNode& node : point.nodes) {
      list(node.label);
      u_[node.label] = before_[node.label] = node.u;
    }
    start_.clear();
    for (size_t k = 0; k < point.links.size(); ++k) {
      enlist(k);
      start_.push_back(point.links[k].c);
    }
  }

  // Computes g of every label, at the weights W of labels and the weights of pairs. This is the only place that
  // computes x W. With several parts, only the labels of one part and the labels that have left get their g. Other
  // labels take no part in this visit.
  void open(const double* W, const JointOracle& pairs, int part = 0, int parts = 1) {
    const double* own = W + bank_.inside;
    std::fill(scores_.begin(), scores_.end(), 0.0);
    if (parts == 1)
      x_.add_scores(row_, own, bank_.stride, scores_.data());
    else
      sample(own, part, parts);
    if (numbers_.places())
      for (const int32_t b : on_) {
        const double* w = pairs.weights(b);
        for (int a = 0; a < L_; ++a) scores_[a] += w[a];
      }
    for (int a = 0; a < L_; ++a) g_[a] = leaving(a) + (truth_[a] ? -scores_[a] : scores_[a]);
    base_.clear();
    for (const LabelLink& link : point_->links) base_.push_back(pairs.at(link.a, link.b) + both_on(link));
  }

  // Finds pairs that gain by a joint move. A label that gains by leaving alone takes no part, since it leaves anyway.
  const std::vector<JointGain>& seek(JointOracle& pairs, double least, int wanted, bool exhaustive) {
    for (int a = 0; a < L_; ++a) {
      const double s = u_[a] > 0 ? 0 : slope(a);
      e_[a] = s > 0 ? -std::numeric_limits<double>::infinity() : s;
    }
    const auto kept = [this](int a, int b) { return slot_[numbers_.place(a, b)] >= 0; };
    return exhaustive ? pairs.exhaustive(e_.data(), truth_, least, wanted, kept)
                      : pairs.best(e_.data(), truth_, least, wanted, kept);
  }

  void run(JointOracle& pairs, const LabelOptions& o, GdmmReport& report) {
    pairs_ = &pairs;
    ++report.calls;
    if (numbers_.places()) {
      activate_links(o, report);
      if (o.audit > 0) audit(o, report);
    }
    activate_nodes(o, report);
    GdmmReport ignored;  // only the first step of a factor reports its part of the gap
    for (int round = 0; round < o.inner; ++round) {
      GdmmReport& own = round == 0 ? report : ignored;
      moved_ = 0;
      for (size_t k = 0; k < list_.size(); ++k) step_node(list_[k], own);
      for (size_t k = 0; k < point_->links.size(); ++k) step_link(k, own);
      for (LabelLink& link : point_->links) pull(link, o.eta);
      report.updates += moved_ > 0;
      if (moved_ <= rounding * m_) break;
    }
    for (const LabelLink& link : point_->links)
      report.inconsistent +=
          std::abs(link.la * (link.alpha - u_[link.a])) + std::abs(link.lb * (link.beta - u_[link.b]));
  }

  // An upper bound on the gain of the linear relaxation of the example over the truth, at the open weights. For any
  // prices la, lb that the labels of a pair are paid, and for all u, c of the local polytope in [0, 1],
  //   sum g_a u_a + sum p_ab c_ab  <=  sum_a max(0, g_a + prices of a) + sum_ab max(0, -la, -lb, p_ab - la - lb).
  // The last sum bounds p_ab c_ab - la u_a - lb u_b, which is largest at a vertex of the pair's polytope. Active pairs
  // have the prices of their messages. Every other pair with p > 0 is paid by its labels out of their losses (see
  // `audit`).
  double ceiling(JointOracle& pairs) {
    pairs_ = &pairs;
    double sum = 0;
    wish_.clear();
    for (int a = 0; a < L_; ++a) {
      const double s = slope(a);
      sum += std::max(0.0, s);
      e_[a] = std::max(0.0, -s);
      if (numbers_.places() && e_[a] < pairs.most(a, truth_, on_) + rounding) wish_.emplace_back(e_[a], a);
    }
    for (size_t k = 0; k < point_->links.size(); ++k) sum += prices(k).short_of;
    charge_all(0);
    for (const auto& pair : unpaid_) sum += pair.first;
    return sum;
  }

  // Adds the changes since the visit began to the weights; with `from_truth`, the changes since the truth.
  void write(double* W, JointOracle& pairs, bool from_truth) const {
    const auto change = [&](int a) { return u_[a] - (from_truth ? 0 : before_[a]); };
    int changed = 0;
    for (const int32_t a : list_) changed += change(a) != 0;
    if (4 * changed > bank_.stride)
      write_rows(W, change);
    else
      for (const int32_t a : list_)
        if (const double d = change(a); d != 0)
          x_.add_column(row_, W + bank_.inside, bank_.stride, a, truth_[a] ? d : -d);
    for (const int32_t a : list_) {
      const double d = change(a);
      if (d == 0) continue;
      for (const int32_t b : on_)
        if (numbers_(a, b) >= 0) pairs.add(a, b, truth_[a] ? d : -d);
    }
    for (size_t k = 0; k < point_->links.size(); ++k) {
      const LabelLink& link = point_->links[k];
      const double d = link.c - (from_truth ? 0 : start_[k]);
      if (d != 0) pairs.add(link.a, link.b, -sign(link.a, link.b) * d);
    }
  }

  // Ends the visit. The point keeps the labels that have left the truth, and all links.
  void leave() {
    point_->nodes.clear();
    for (const int32_t a : list_) {
      if (u_[a] > 0) point_->nodes.push_back({a, u_[a]});
    }
    for (const LabelLink& link : point_->links)
      slot_[numbers_.place(link.a, link.b)] = slot_[numbers_.place(link.b, link.a)] = -1;
    for (const int32_t a : list_) u_[a] = before_[a] = 0, listed_[a] = 0, around_[a].clear();
  }
  // Ends the visit, and drops links that have been in the state of an inactive link for some visits. To drop them at
  // once would be too early for a label that has just been blocked.
  void forget() {
    gone_.clear();
    for (LabelLink& link : point_->links) {
      link.idle = says_nothing(link) ? link.idle + 1 : 0;
      gone_.push_back(link.idle > patience);
    }
    leave();
    size_t kept = 0;
    for (size_t k = 0; k < gone_.size(); ++k)
      if (!gone_[k]) point_->links[kept++] = point_->links[k];
    point_->links.resize(kept);
  }

 private:
  static constexpr double rounding = 1e-13;
  static constexpr int patience = 2;  // visits; with less, links of blocked labels come and go
  const GraphData& data_;
  const LinkNumbers& numbers_;
  const Bank& bank_;
  const Features& x_;
  int L_;
  LabelPoint* point_ = nullptr;
  JointOracle* pairs_ = nullptr;
  double m_ = 0, rho_ = 0, norm_ = 0, moved_ = 0;
  int64_t first_ = 0, row_ = 0;
  const int32_t* truth_ = nullptr;
  std::vector<std::vector<int32_t>> around_;  // active links of each label
  aligned<double> scores_;
  mutable aligned<double> coefficients_;
  std::vector<double> u_, before_, g_, e_;
  std::vector<double> base_;   // for each link: w_ab + r_ab, which steps do not change
  std::vector<double> start_;  // for each link: c at the beginning
  std::vector<char> listed_;
  std::vector<int32_t> slot_;  // for each pair: its place among the active links, or -1
  std::vector<int32_t> list_, on_;
  std::vector<char> gone_;
  std::vector<std::pair<double, int32_t>> wish_;
  std::vector<std::pair<double, std::pair<int32_t, int32_t>>> unpaid_;

  void sample(const double* W, int part, int parts) {
    const int64_t from = static_cast<int64_t>(L_) * part / parts,
                  to = static_cast<int64_t>(L_) * (part + 1) / parts;
    for (int a = 0; a < L_; ++a) {
      if (listed_[a] || (a >= from && a < to))
        scores_[a] = x_.score_of(row_, W, bank_.stride, a);
      else  // such a label is never the best
        scores_[a] = (truth_[a] ? 1 : -1) * std::numeric_limits<double>::infinity();
    }
  }
  double leaving(int a) const {
    const NodeType& type = data_.node_types[data_.shapes[0].type[a]];
    return data_.weight[first_ + a] * type.cost.of(truth_[a], !truth_[a]);
  }
  double sign(int a, int b) const { return truth_[a] == truth_[b] ? 1 : -1; }
  // r_ab
  double both_on(const LabelLink& l) const {
    if (truth_[l.a]) return truth_[l.b] ? m_ - u_[l.a] - u_[l.b] + l.c : u_[l.b] - l.c;
    return truth_[l.b] ? u_[l.a] - l.c : l.c;
  }
  double curvature(int a) const {
    int count = 0;
    for (const int32_t b : on_) count += numbers_(a, b) >= 0;
    return norm_ + count;
  }

  void list(int32_t a) {
    if (!listed_[a]) listed_[a] = 1, list_.push_back(a);
  }
  void enlist(size_t k) {
    const LabelLink& link = point_->links[k];
    slot_[numbers_.place(link.a, link.b)] = slot_[numbers_.place(link.b, link.a)] = static_cast<int32_t>(k);
    for (const int32_t v : {link.a, link.b}) {
      list(v);
      around_[v].push_back(static_cast<int32_t>(k));
    }
  }
  void add_link(int32_t a, int32_t b) {
    point_->links.push_back({a, b, u_[a], u_[b], 0, 0, 0});
    // `pairs_` has the weight at the beginning of the visit, so r_ab is taken at the same point.
    LabelLink then{a, b, 0, 0, 0, 0, 0};
    const double now_a = u_[a], now_b = u_[b];
    u_[a] = before_[a], u_[b] = before_[b];
    base_.push_back(pairs_->at(a, b) + both_on(then));
    u_[a] = now_a, u_[b] = now_b;
    start_.push_back(0);
    enlist(point_->links.size() - 1);
  }

  double slope(int a) const {
    double sum = g_[a];
    for (const int32_t k : around_[a]) {
      const LabelLink& link = point_->links[k];
      sum += link.a == a ? link.la + rho_ * (link.alpha - u_[a]) : link.lb + rho_ * (link.beta - u_[a]);
    }
    return sum;
  }

  // For a link: the gain p of both ends from leaving together, the price that each is paid, and the pair's shortage.
  struct Prices {
    double p, a, b, short_of;
  };
  Prices prices(size_t k) const {
    const LabelLink& link = point_->links[k];
    const double p = sign(link.a, link.b) * (base_[k] - both_on(link));
    const double a = link.la + rho_ * (link.alpha - u_[link.a]);
    const double b = link.lb + rho_ * (link.beta - u_[link.b]);
    return {p, a, b, std::max({0.0, -a, -b, p - a - b})};
  }
  void activate_links(const LabelOptions& o, GdmmReport& report) {
    for (const JointGain& found : seek(*pairs_, o.tolerance, o.grow, o.exhaustive)) {
      report.violation += m_ * found.gain;
      add_link(found.a, found.b);
    }
  }

  // Pairs with p > 0 are paid by their nodes, first by the one with more left. The largest unpaid pairs become active.
  void audit(const LabelOptions& o, GdmmReport& report) {
    wish_.clear();  // amounts that labels can pay
    for (int a = 0; a < L_; ++a) {
      e_[a] = u_[a] > 0 ? 0 : -slope(a);
      // A label that gains alone leaves anyway. A label that loses more than `most` can pay for all its pairs.
      if (e_[a] >= 0 && e_[a] < pairs_->most(a, truth_, on_) + rounding) wish_.emplace_back(e_[a], a);
    }
    charge_all(o.tolerance);
    for (const auto& pair : unpaid_) report.violation += m_ * pair.first * static_cast<double>(o.audit);
    const size_t n = std::min(unpaid_.size(), 4 * static_cast<size_t>(o.grow));
    std::partial_sort(unpaid_.begin(), unpaid_.begin() + n, unpaid_.end(), std::greater<>());
    for (size_t k = 0; k < n; ++k) add_link(unpaid_[k].second.first, unpaid_[k].second.second);
  }
  // Charges the pairs of the labels in wish_, the smallest amounts first.
  void charge_all(double tolerance) {
    std::sort(wish_.begin(), wish_.end());
    unpaid_.clear();
    for (size_t i = 0; i < wish_.size(); ++i)
      for (size_t j = i + 1; j < wish_.size(); ++j) charge(wish_[i].second, wish_[j].second, tolerance);
  }
  void charge(int a, int b, double tolerance) {
    if (slot_[numbers_.place(a, b)] >= 0) return;
    double price = sign(a, b) * pairs_->at(a, b);
    if (price <= 0) return;
    if (e_[a] < e_[b]) std::swap(a, b);
    // If one end has left the truth, the other pays alone: a label that has left may be joined at any time.
    for (const int v : {a, b}) {
      const double paid = std::min(price, e_[v]);
      e_[v] -= paid, price -= paid;
    }
    if (price > tolerance) unpaid_.push_back({price, {a, b}});
  }

  void activate_nodes(const LabelOptions& o, GdmmReport& report) {
    wish_.clear();
    for (int a = 0; a < L_; ++a)
      if (!listed_[a] && g_[a] > o.tolerance) wish_.emplace_back(g_[a], a);
    const size_t n = std::min(wish_.size(), static_cast<size_t>(o.grow));
    std::partial_sort(wish_.begin(), wish_.begin() + n, wish_.end(), std::greater<>());
    for (size_t k = 0; k < wish_.size(); ++k)
      if (k < n)
        list(wish_[k].second);
      else
        report.violation += m_ * wish_[k].first;
  }

  void step_node(int a, GdmmReport& report) {
    const double s = slope(a), h = curvature(a);
    report.violation += m_ * std::max(0.0, s) - u_[a] * s;
    if (s == 0) return;  // otherwise a label without features would move by 0 / 0
    double to = std::clamp(u_[a] + s / (h + rho_ * static_cast<double>(around_[a].size())), 0.0, m_);
    if (to > u_[a]) to = std::max(u_[a], limited(a, to));
    const double d = to - u_[a];
    if (d == 0) return;
    u_[a] = to;
    g_[a] -= h * d;
    if (truth_[a])
      for (const int32_t b : on_)
        if (numbers_(a, b) >= 0) g_[b] -= d;
    moved_ = std::max(moved_, std::abs(d));
  }
  // The value that u_a may go to. Links that are in the way become active.
  double limited(int a, double to) {
    double most = to;
    if (!numbers_.places()) return most;
    for (size_t k = 0; k < list_.size(); ++k) {
      const int32_t b = list_[k];
      if (u_[b] <= m_ - to || numbers_(a, b) < 0 || slot_[numbers_.place(a, b)] >= 0) continue;
      most = std::min(most, m_ - u_[b]);
      add_link(a, b);
      moved_ = m_;  // asks for another round, in which the way is free
    }
    if (most < to)  // it is blocked until the next visit, for which it needs all of its links
      for (const int32_t k : around_[a]) point_->links[k].idle = 0;
    return most;
  }

  void step_link(size_t k, GdmmReport& report) {
    LabelLink& link = point_->links[k];
    const auto [p, ma, mb, short_of] = prices(k);
    report.violation += m_ * short_of - (p * link.c - ma * link.alpha - mb * link.beta);
    const JointStep step(u_[link.a] - link.la / rho_, u_[link.b] - link.lb / rho_, rho_, m_);
    const JointMove to = step.solve(link.c + p);
    const double d = to.c - link.c;
    moved_ = std::max({moved_, std::abs(d), std::abs(to.alpha - link.alpha), std::abs(to.beta - link.beta)});
    link.alpha = to.alpha, link.beta = to.beta, link.c = to.c;
    if (truth_[link.b]) g_[link.a] += d;
    if (truth_[link.a]) g_[link.b] += d;
  }
  void pull(LabelLink& link, double eta) const {
    link.la += eta * rho_ * (link.alpha - u_[link.a]);
    link.lb += eta * rho_ * (link.beta - u_[link.b]);
  }

  bool says_nothing(const LabelLink& link) const {
    const double a = u_[link.a], b = u_[link.b], near = rounding * m_;
    return link.c == 0 && a + b <= m_ && std::abs(link.alpha - a) <= near &&
           std::abs(link.beta - b) <= near && std::abs(link.la) <= rounding && std::abs(link.lb) <= rounding;
  }

  // Writes all columns at once: W[j, :] += x_j c
  template <class Change>
  void write_rows(double* W, Change&& change) const {
    std::fill(coefficients_.begin(), coefficients_.end(), 0.0);
    for (const int32_t a : list_) coefficients_[a] = truth_[a] ? change(a) : -change(a);
    x_.add_outer(row_, W + bank_.inside, bank_.stride, coefficients_.data());
  }
};

}  // namespace mm
