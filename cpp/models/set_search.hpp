// The best set of labels under gains and weights of pairs, by branch and bound; exact unless it is cut short.
//
//   maximise  f(y) = g . y + sum_{a < b} A_ab y_a y_b,    y in {0, 1}^n
//
// With some labels free and d_v the gain of turning v on beside what is on already, low_v and high_v are the least and the
// most that d_v becomes for any choice of the others: high_v <= 0 turns v off and low_v >= 0 turns it on in some best set.
// A bound on what is left: of k more labels each sees the k - 1 others that suit it best and shares their weights with
// them,
//
//   f <= value + max_k  sum of the k largest c_v(k),    c_v(k) = min(d_v + 1/2 sum of the k - 1 largest A_vu,  (d_v + high_v) / 2)
//
// The sums of largest weights are those among what is free at the root. Where all weights repel, high_v = d_v says nothing, and a pair's
// weight need not be halved: with prices p_v the label v has the share (A_vu + p_v - p_u) / 2 of it, and its k - 1 largest are sought
// among these. A label that all others suit well has a high price, so that not all of them count on it. Where labels repel each other, as those of
// documents do, this is much tighter than the linear relaxation, which puts everything at one half. The k largest are
// not sorted: their sum is at most  k t + sum_v max(c_v - t, 0)  for any t >= 0, with equality at the k-th largest.
//
// Before the root is ranked, labels that are in no set better than the first are dropped, by the same bound with the largest weight of each label in place of its k - 1 largest.
// A search that becomes long also leaves parts that promise only a little more; how much is in the ceiling.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "models/set_rest.hpp"
#include "runtime/interrupt.hpp"
#include "simd.hpp"

namespace mm {

class SetSearch : public SetRest {
 public:
  // A best set in y unless more than `most` parts are looked at; its value, and into `ceiling` what no set exceeds. With
  // most = 0 the first set is taken, without a ceiling. `known` is a set to begin with. A_ab is upper[a * stride + b] for a < b; the other places, and
  // the padding of the rows to whole vectors, are zero.
  double solve(int n, const double* g, const double* upper, int stride, int64_t most,
               const std::vector<int32_t>& known, int32_t* y, double& ceiling) {
    begin(n, g, upper, stride, y);
    open_ = -infinity, parts_ = 0, most_ = most;
    calm_ = m_ < 60 && (int64_t{2} << m_) <= most ? most : most * 2 / 5;  // few labels: to the end
    on_.clear();
    climb(known, most == 0);  // a search does not need a second one
    first_ = best_;
    if (most > 0)
      search();
    else
      open_ = infinity;
    for (const int v : set_) y[v] = 1;
    const double value = value_of(n, g, upper, stride, y);
    ceiling = value + std::max(0.0, open_ - best_);
    return value;
  }
  bool cut_short() const { return parts_ > most_; }
  double gained() const { return best_ - first_; }  // by the search, over the first set

 private:
  static constexpr int few_ranks = 8;       // k of the bound that are told apart, where no more can be on
  static constexpr double careless = 1e-3;  // of the value: what is left first, once a search is long

  // Zeros and one -infinity: a label is taken out of whole vectors, as loads wait long for stores of single numbers.
  static constexpr auto one_gone = [] {
    std::array<double, 2 * lanes - 1> row{};
    row[lanes - 1] = -infinity;
    return row;
  }();

  // Gains and their ranges; -infinity where a label is not free.
  struct Level {
    double *d, *low, *high;
  };
  aligned<double> tops_, levels_, top_, price_;
  std::vector<double> sorted_, theta_;
  std::vector<int32_t> on_;  // labels of the part
  double first_ = 0;         // the value of the first set
  double open_ = 0;          // the highest bound of a part that was left
  int64_t parts_ = 0, most_ = 0, calm_ = 0;
  int ranks_ = 0, attracted_ = 0;  // k that are told apart; the most positive weights of a label
  int hint_ = 1;                   // the k that kept the last part open
  bool priced_ = false;            // no weight is above zero

  Level level(int depth) {
    double* at = levels_.data() + 3 * static_cast<size_t>(depth) * row_;
    return {at, at + row_, at + 2 * row_};
  }

  double enough(double value) const {
    double more = tiny * (1 + std::abs(best_));
    if (parts_ > calm_)  // doubled with each tenth of the search
      more += careless * std::abs(best_) *
              std::exp2(10.0 * static_cast<double>(parts_ - calm_) / static_cast<double>(most_));
    return best_ + more - value;
  }

  void search() {
    for (int round = 0; round < 3; ++round) {
      const int before = m_;
      open_root();
      if (m_ == 0) return;
      drop();
      if (8 * m_ > 7 * before) break;
    }
    if (m_ == 0) return;
    open_root();
    rank();
    if (priced_ && calm_ < most_) calm_ = most_ / 10;  // near ties: more parts would close little
    visit(0, 0);
  }
  void open_root() {
    const size_t most = 3 * static_cast<size_t>(m_ + 2) * row_;
    if (levels_.size() < most) levels_.resize(most);
    const Level root = level(0);
    for (int j = 0; j < row_; ++j) {
      root.d[j] = root.low[j] = root.high[j] = j < m_ ? gains_[j] : -infinity;
      if (j >= m_) continue;
      vec<double> down = {}, up = {};
      for (int u = 0; u < row_; u += lanes) {
        const vec<double> a = load<double>(row(j) + u);
        down += minimum(a, vec<double>{}), up += maximum(a, vec<double>{});
      }
      root.low[j] += sum_of_lanes<double>(down);
      root.high[j] += sum_of_lanes<double>(up);
    }
  }

  // Drops labels that are in no set better than the best one.
  void drop() {
    const Level root = level(0);
    const double bar = enough(0);
    bool attracts = false;
    top_.resize(m_), caps_.resize(m_);
    for (int j = 0; j < m_; ++j) {
      top_[j] = -infinity;
      for (int i = 0; i < m_; ++i)
        if (i != j) top_[j] = std::max(top_[j], row(j)[i]);
      attracts |= top_[j] > 0;
    }
    flags_.assign(m_, 0);
    for (int k = 1; k <= m_; ++k) {
      const bool rest = k > few_ranks;  // this and all that are more
      double all = 0;
      for (int j = 0; j < m_; ++j) {
        const double half = 0.5 * (root.d[j] + root.high[j]);
        caps_[j] = k == 1                ? root.d[j]
                   : rest && top_[j] > 0 ? half
                                         : std::min(root.d[j] + 0.5 * (k - 1) * top_[j], half);
        all += std::max(0.0, caps_[j]);
      }
      if (all <= bar && (rest || !attracts)) break;  // nor have later k more
      const double others = rest ? all : largest(k - 1);
      for (int j = 0; j < m_; ++j)
        if (caps_[j] + others > bar) flags_[j] = 1;
      if (rest) break;
    }
    compress();
  }
  // The sum of the k largest caps that are above zero.
  double largest(int k) {
    if (k == 0) return 0;
    sorted_ = caps_;
    std::nth_element(sorted_.begin(), sorted_.begin() + (k - 1), sorted_.end(), std::greater<>());
    double sum = 0;
    for (int j = 0; j < k; ++j) sum += std::max(0.0, sorted_[j]);
    return sum;
  }
  // tops_[k - 1][v]: half of the k - 1 largest weights of v, k = 1 .. ranks; then what holds for all k from there.
  void rank() {
    const int few = std::min(few_ranks, m_ - 1);
    price_.assign(row_, 0);
    sort_all();
    priced_ = *std::max_element(sorted_.begin(), sorted_.begin() + m_) <= 0;
    if (priced_) {
      for (int k = 0; k < few; ++k)
        for (int v = 0; v < m_; ++v) price_[v] += sorted_[k * row_ + v] / few;
      sort_all();
    }
    ranks_ = few, attracted_ = 0, hint_ = 1;
    add_up([&](int v, int k) { return sorted_[k * row_ + v]; });
    if (few == m_ - 1 || attracted_ == few || sum_of(level(0), few + 1) <= enough(0)) return;
    ranks_ = m_ - 1;  // larger sets may be better
    sorted_.resize(static_cast<size_t>(m_) * row_);
    for (int v = 0; v < m_; ++v) {
      double* own = sorted_.data() + static_cast<size_t>(v) * row_;
      for (int u = 0; u < m_; ++u) own[u] = share(v, u);
      own[v] = -infinity;
      std::sort(own, own + m_, std::greater<>());
    }
    add_up([&](int v, int k) { return sorted_[v * row_ + k]; });
  }
  // Twice the share that v has of the weight of a pair.
  double share(int v, int u) const { return row(v)[u] + price_[v] - price_[u]; }
  // The most that others add to v under prices, for any number of them.
  double half_positive(int v) const {
    double sum = 0;
    for (int u = 0; u < m_; ++u)
      if (u != v) sum += std::max(0.0, share(v, u));
    return sum / 2;
  }
  void sort_all() {
    sorted_.resize(static_cast<size_t>(few_ranks) * row_);
    for (int v = 0; v < row_; v += lanes) sort_few(v);
  }
  // The largest weights of the labels v, v + 1, ... of a vector, in order.
  void sort_few(int v) {
    vec<double> found[few_ranks];
    for (vec<double>& x : found) x = broadcast<double>(-1e300);
    for (int u = 0; u < m_; ++u) {
      vec<double> a =
          load<double>(row(u) + v) + load<double>(price_.data() + v) + broadcast<double>(-price_[u]);
      if (u / lanes == v / lanes) a[u % lanes] = -infinity;
      for (vec<double>& x : found) {
        const vec<double> more = maximum(x, a);
        a = minimum(x, a), x = more;
      }
    }
    for (int k = 0; k < few_ranks; ++k) store<double>(sorted_.data() + k * row_ + v, found[k]);
  }
  template <class Sorted>
  void add_up(Sorted&& sorted) {
    tops_.assign(static_cast<size_t>(ranks_ + 1) * row_, 0);
    theta_.assign(ranks_ + 2, 0);
    for (int v = 0; v < m_; ++v) {
      double sum = 0, last = 0;
      for (int k = 0; k < ranks_; ++k) {
        last = sorted(v, k), sum += 0.5 * last;
        if (last > 0) attracted_ = std::max(attracted_, k + 1);
        tops_[static_cast<size_t>(k + 1) * row_ + v] = sum;
      }
      if (last > 0 && ranks_ < m_ - 1)
        tops_[static_cast<size_t>(ranks_) * row_ + v] =
            priced_ ? half_positive(v) : 1e300;  // the range decides
    }
  }

  // Takes a label out of those of a level: it is on, or off.
  void take(const Level& x, int v, bool on) const {
    const double* a = row(v);
    const vec<double> zero = {};
    for (int u = 0; u < row_; u += lanes) {
      const vec<double> own = load<double>(a + u), up = maximum(own, zero), down = minimum(own, zero);
      if (on) store<double>(x.d + u, load<double>(x.d + u) + own);
      store<double>(x.low + u, load<double>(x.low + u) + (on ? up : broadcast<double>(-1) * down));
      store<double>(x.high + u, load<double>(x.high + u) + (on ? down : broadcast<double>(-1) * up));
    }
    const vec<double> gone = load<double>(one_gone.data() + lanes - 1 - v % lanes);
    for (double* own : {x.d, x.low, x.high}) {
      double* at = own + v / lanes * lanes;
      store<double>(at, load<double>(at) + gone);
    }
  }
  // What ranges decide; the value of what is turned on.
  double settle(const Level& x) {
    double value = 0;
    for (bool again = true; again;) {
      again = false;
      for (int u = 0; u < row_; u += lanes)
        for (unsigned left = decided(x, u); left; left = decided(x, u)) {
          const int v = u + std::countr_zero(left);
          const bool on = x.high[v] > 0;
          if (on) value += x.d[v], on_.push_back(free_[v]);
          take(x, v, on);
          again = true;
        }
    }
    return value;
  }
  // Lanes of free labels whose range does not contain zero.
  static unsigned decided(const Level& x, int u) {
    const vec<double> zero = {};
    const int open = lanes_above(zero, load<double>(x.low + u)) & lanes_above(load<double>(x.high + u), zero);
    return static_cast<unsigned>(lanes_above(load<double>(x.d + u), broadcast<double>(-1e300)) & ~open);
  }

  vec<double> caps(const Level& x, const double* tops, int u) const {
    const vec<double> d = load<double>(x.d + u), own = d + load<double>(tops + u);
    return priced_ ? own : minimum(own, broadcast<double>(0.5) * (d + load<double>(x.high + u)));
  }
  double cap(const Level& x, const double* tops, int v) const {
    const double own = x.d[v] + tops[v];
    return priced_ ? own : std::min(own, 0.5 * (x.d[v] + x.high[v]));
  }
  // All that free labels add at most as k.
  double sum_of(const Level& x, int k) const {
    const double* tops = tops_.data() + static_cast<size_t>(k - 1) * row_;
    vec<double> sum = {};
    for (int u = 0; u < row_; u += lanes) sum += maximum(caps(x, tops, u), vec<double>{});
    return sum_of_lanes<double>(sum);
  }
  // The bound for k labels: t is sought between the caps until the bound is low enough, or as low as it becomes.
  double bound_of(const Level& x, int k, double enough) {
    const double* tops = tops_.data() + static_cast<size_t>(k - 1) * row_;
    double below = -1, above = infinity, t = theta_[k], least = infinity;
    for (int turn = 0; turn < 6; ++turn) {
      const vec<double> less = broadcast<double>(t);
      vec<double> sum = {};
      int count = 0;
      for (int u = 0; u < row_; u += lanes) {
        const vec<double> c = caps(x, tops, u);
        count += std::popcount(static_cast<unsigned>(lanes_above(c, less)));
        sum += maximum(c + broadcast<double>(-1) * less, vec<double>{});
      }
      const double excess = sum_of_lanes<double>(sum);
      least = std::min(least, k * t + excess);
      theta_[k] = t;
      if (least <= enough || count == k || (count < k && t == 0)) break;
      if (count > k)
        below = t, t = above < infinity ? 0.5 * (below + above) : t + excess / count;
      else
        above = t, t = below < 0 ? 0 : 0.5 * (below + above);
    }
    return least;
  }
  // The bound on what free labels add, or something above `enough` if that is not enough.
  double bound(const Level& x, double enough) {
    double most = 0;
    if (enough < infinity) most = bound_of(x, hint_, enough);
    if (most > enough) return most;
    for (int k = 1; k <= ranks_; ++k) {
      most = std::max(most, bound_of(x, k, enough));
      if (most > enough) return hint_ = k, most;
      if (k <= attracted_) continue;
      if (const double all = sum_of(x, k); all <= enough && enough < infinity) return std::max(most, all);
    }
    most = std::max(most, sum_of(x, ranks_ + 1));
    if (most > enough) hint_ = std::max(1, ranks_);
    return most;
  }

  // A part of all sets: the labels on_ have added up to `value`. Its labels are turned on one after the other, and
  // off where that is done.
  void visit(int depth, double value) {
    const size_t before = on_.size();
    const Level x = level(depth);
    for (;;) {
      value += settle(x);
      if (value > best_) best_ = value, set_ = on_;
      const double bar = enough(value), exact = best_ + tiny * (1 + std::abs(best_));
      const bool stop = ++parts_ > most_;
      const double more = bound(x, stop ? infinity : bar);
      if (more <= bar || stop) {
        if (value + more > exact) open_ = std::max(open_, value + more);
        break;
      }
      poll();
      const int v = most_promising(x);
      if (v < 0) break;
      const Level next = level(depth + 1);
      std::copy(x.d, x.d + 3 * row_, next.d);
      const double gain = x.d[v];
      take(next, v, true);
      on_.push_back(free_[v]);
      visit(depth + 1, value + gain);
      on_.pop_back();
      take(x, v, false);
    }
    on_.resize(before);
  }
  int most_promising(const Level& x) const {
    const double* tops = tops_.data() + static_cast<size_t>(hint_ - 1) * row_;
    int place = -1;
    double most = -infinity;
    for (int v = 0; v < m_; ++v)
      if (const double own = cap(x, tops, v); own > most) most = own, place = v;
    return place;
  }
};

}  // namespace mm
