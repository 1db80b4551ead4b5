// The best set of labels, given gains and weights of pairs, by branch and bound; exact unless it is cut
// short.
//
//     maximise  f(y) = g . y + sum_{a < b} A_ab y_a y_b,    y in {0, 1}^n
//
// Some labels are on, and some are free. Let d_v be the gain of turning v on now, and low_v and high_v its
// least and largest value over all choices of the other free labels. In some best set v is off if
// high_v <= 0, and on if low_v >= 0. set_bound.hpp bounds what the remaining free labels add.
//
// Before the root is ranked, labels that cannot be in a better set than the first one are dropped. This uses
// the same bound, with the largest weight of each label in place of its k - 1 largest. A search that becomes
// long also skips parts that promise only a little more; the ceiling includes how much.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "models/set_bound.hpp"
#include "runtime/interrupt.hpp"

namespace mm {

// The effort of a search.
struct SetEffort {
  int64_t most = 0;   // limit on the parts; 0: only the first set
  double leeway = 0;  // a long search may skip parts that promise at most this much more
};

class SetSearch : public SetBound {
 public:
  // Writes a best set to y, unless the search needs more than `most` parts. Returns its value, and an upper
  // bound on all sets in `ceiling`. With most = 0 it only finds the first set, without a ceiling. `known` is
  // a set to start from. A_ab is upper[a * stride + b] for a < b. The other entries, and the padding of the
  // rows to whole vectors, must be zero.
  double solve(int n, const double* g, const double* upper, int stride, const SetEffort& effort,
               const std::vector<int32_t>& known, int32_t* y, double& ceiling) {
    const int64_t most = effort.most;
    begin(n, g, upper, stride, y);
    open_ = -infinity, parts_ = 0, most_ = most, leeway_ = effort.leeway;
    calm_ = m_ < 60 && (int64_t{2} << m_) <= most ? most : most * 2 / 5;  // few labels: a complete search
    on_.clear();
    climb(known, most == 0);  // a search does not need a second start
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
  double gained() const { return best_ - first_; }  // by the search, above the first set

 private:
  // Parts after which a search is long and may use the leeway; fewer save time, but loosen ceilings.
  static constexpr int64_t easy = 300;
  // Fraction of the value that a search gives up at first, after calm_ parts; larger ends sooner, with a
  // looser ceiling.
  static constexpr double careless = 1e-3;

  // A table of zeros with one -infinity. Adding a window of it removes a label. This writes whole vectors,
  // because a vector load soon after a store of a single number stalls.
  static constexpr auto one_gone = [] {
    std::array<double, 2 * lanes - 1> row{};
    row[lanes - 1] = -infinity;
    return row;
  }();

  aligned<double> top_;
  std::vector<int32_t> on_;                  // labels that are on in this part
  double first_ = 0;                         // value of the first set
  double open_ = 0, leeway_ = 0;             // highest bound of the skipped parts; how much they may promise
  int64_t parts_ = 0, most_ = 0, calm_ = 0;  // parts visited; limit; limit for an exact search

  double enough(double value) const {
    double more = tiny * (1 + std::abs(best_));
    if (parts_ > calm_)  // doubles with each tenth of the search
      more += careless * std::abs(best_) *
              std::exp2(10.0 * static_cast<double>(parts_ - calm_) / static_cast<double>(most_));
    if (parts_ > easy) more = std::max(more, leeway_);
    return best_ + more - value;
  }

  void search() {
    gather();
    for (int round = 0; round < 3; ++round) {
      const int before = m_;
      open_root();
      if (m_ == 0) return;
      drop();
      if (8 * m_ > 7 * before) break;
    }
    if (m_ == 0) return;
    open_root();
    rank(enough(0));
    // With near ties, more parts would close little of the gap.
    if (priced_ && calm_ < most_) calm_ = most_ / 10;
    visit(0, 0);
  }
  // Drops labels that cannot be in a better set than the best one.
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
      const bool rest = k > few_ranks;  // k stands for itself and all larger ones
      double all = 0;
      for (int j = 0; j < m_; ++j) {
        const double half = 0.5 * (root.d[j] + root.high[j]);
        caps_[j] = k == 1                ? root.d[j]
                   : rest && top_[j] > 0 ? half
                                         : std::min(root.d[j] + 0.5 * (k - 1) * top_[j], half);
        all += std::max(0.0, caps_[j]);
      }
      if (all <= bar && (rest || !attracts)) break;  // no larger k has more
      const double others = rest ? all : largest(k - 1);
      for (int j = 0; j < m_; ++j)
        if (caps_[j] + others > bar) flags_[j] = 1;
      if (rest) break;
    }
    compress();
  }
  // The sum of the k largest caps that are positive.
  double largest(int k) {
    if (k == 0) return 0;
    sorted_ = caps_;
    std::nth_element(sorted_.begin(), sorted_.begin() + (k - 1), sorted_.end(), std::greater<>());
    double sum = 0;
    for (int j = 0; j < k; ++j) sum += std::max(0.0, sorted_[j]);
    return sum;
  }
  // Removes a label from the free ones of a level, and updates their gains: it is now on, or off.
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
  // Decides labels by their ranges; returns the value of the labels that are turned on.
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
  // A bit for each lane whose label is free and whose range does not contain zero.
  static unsigned decided(const Level& x, int u) {
    const vec<double> zero = {};
    const int open = lanes_above(zero, load<double>(x.low + u)) & lanes_above(load<double>(x.high + u), zero);
    return static_cast<unsigned>(lanes_above(load<double>(x.d + u), broadcast<double>(-1e300)) & ~open);
  }

  // Searches a part of all sets: the labels in on_ have the total `value`. Turns its labels on one after the
  // other, and leaves each off after its part is done.
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
};

}  // namespace mm
