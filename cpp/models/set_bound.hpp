// An upper bound on what the free labels of a search over sets can add (see set_search.hpp for d_v and
// high_v).
//
// Suppose k more labels are turned on. Each gets at most the weights to the k - 1 others that suit it best,
// and shares each weight with the other label. So
//
//     f <= value + max_k  sum of the k largest c_v(k),
//     c_v(k) = min(d_v + 1/2 sum of the k - 1 largest A_vu,  (d_v + high_v) / 2)
//
// The largest weights are taken among the labels that are free at the root. If all weights repel, high_v =
// d_v tells nothing, and a pair's weight need not be halved. With prices p_v, label v has the share (A_vu +
// p_v - p_u) / 2 of it, and its k - 1 largest shares count. A label that suits all others gets a high price,
// so that not all of them count on it. If labels repel each other, as the labels of documents do, this is
// much tighter than the linear relaxation, which sets every label to one half. The k largest are not sorted.
// Instead, their sum is at most  k t + sum_v max(c_v - t, 0)  for any t >= 0, with equality at the k-th
// largest.
//
// If labels repel each other, a bound for k labels also gives one for j labels, because each label more or
// less changes the caps c_v by a bounded share. So it is enough to try k near the last one that mattered.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <vector>

#include "models/set_rest.hpp"
#include "simd.hpp"

namespace mm {

class SetBound : public SetRest {
 protected:
  // Up to this k each k has a bound of its own; `more_ranks` is for weights that all repel. If larger sets
  // may be better, every k gets one, after a full sort. Larger values take longer; smaller ones need the full
  // sort more often.
  static constexpr int few_ranks = 8, more_ranks = 16;

  // Gains and their ranges; -infinity if a label is not free.
  struct Level {
    double *d, *low, *high;
  };
  aligned<double> levels_;
  std::vector<double> sorted_;
  bool priced_ = false;  // whether all weights repel, so that prices are used

  Level level(int depth) {
    double* at = levels_.data() + 3 * static_cast<size_t>(depth) * row_;
    return {at, at + row_, at + 2 * row_};
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

  // Computes tops_[k - 1][v], half of the sum of the k - 1 largest weights of v, for k = 1 .. ranks; the last
  // row holds for all larger k.
  void rank(double enough) {
    const int few = std::min(few_ranks, m_ - 1);
    price_.assign(row_, 0);
    sort_all<few_ranks>();
    priced_ = *std::max_element(sorted_.begin(), sorted_.begin() + m_) <= 0;
    if (priced_) {
      for (int k = 0; k < few; ++k)
        for (int v = 0; v < m_; ++v) price_[v] += sorted_[k * row_ + v] / few;
      sort_all<more_ranks>();
    }
    ranks_ = priced_ ? std::min(more_ranks, m_ - 1) : few, attracted_ = 0, hint_ = 1;
    add_up([&](int v, int k) { return sorted_[k * row_ + v]; });
    if (ranks_ == m_ - 1 || attracted_ == ranks_ || few_are_enough(enough)) return;
    ranks_ = m_ - 1;
    sorted_.resize(static_cast<size_t>(m_) * row_);
    for (int v = 0; v < m_; ++v) {
      double* own = sorted_.data() + static_cast<size_t>(v) * row_;
      for (int u = 0; u < m_; ++u) own[u] = share(v, u);
      own[v] = -infinity;
      std::sort(own, own + m_, std::greater<>());
    }
    add_up([&](int v, int k) { return sorted_[v * row_ + k]; });
  }

  // Returns an upper bound on what free labels add. It stops early, with a value above `enough`, if the bound
  // is larger than that.
  double bound(const Level& x, double enough) {
    if (priced_ && enough < infinity) return bound_around(x, enough);
    double most = 0;
    if (enough < infinity) most = bound_of(x, hint_, enough);
    if (most > enough) return most;
    for (int k = 1; k <= ranks_; ++k) {
      most = std::max(most, bound_of(x, k, enough));
      if (most > enough) return hint_ = k, most;
      if (k <= attracted_) continue;
      if (const double all = sum_of(x, k); all <= enough && enough < infinity) return std::max(most, all);
    }
    return last_bound(x, most, enough);
  }
  int most_promising(const Level& x) const {
    const double* tops = tops_.data() + static_cast<size_t>(hint_ - 1) * row_;
    int place = -1;
    double most = -infinity;
    for (int v = 0; v < m_; ++v)
      if (const double own = cap(x, tops, v); own > most) most = own, place = v;
    return place;
  }

 private:
  aligned<double> tops_, price_;
  std::vector<double> theta_;
  // With prices, for each k: half of the largest k-th share of any label, and half of the least (k - 1)-st
  // share.
  std::vector<double> steps_, falls_;
  double excess_ = 0;              // the sum over v of max(c_v - t, 0) in the last bound
  int ranks_ = 0, attracted_ = 0;  // number of k with their own bound; most positive weights of a label
  int hint_ = 1;                   // the last k whose bound was not low enough

  // Whether no larger set can be better at the root.
  bool few_are_enough(double enough) {
    if (sum_of(level(0), ranks_ + 1) <= enough) return true;
    return priced_ && bound_of(level(0), ranks_, enough) <= enough && bound_above(ranks_) <= enough;
  }
  // Twice the share of v in the weight of a pair.
  double share(int v, int u) const { return row(v)[u] + price_[v] - price_[u]; }
  // An upper bound on what others add to v under prices, for any number of them.
  double half_positive(int v) const {
    double sum = 0;
    for (int u = 0; u < m_; ++u)
      if (u != v) sum += std::max(0.0, share(v, u));
    return sum / 2;
  }
  template <int ranks>
  void sort_all() {
    sorted_.resize(static_cast<size_t>(ranks) * row_);
    for (int v = 0; v < row_; v += lanes) sort_some<ranks>(v);
  }
  // Finds the largest shares of each label in the vector that starts at v, in order.
  template <int ranks>
  void sort_some(int v) {
    vec<double> found[ranks];
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
    for (int k = 0; k < ranks; ++k) store<double>(sorted_.data() + k * row_ + v, found[k]);
  }
  template <class Sorted>
  void add_up(Sorted&& sorted) {
    tops_.assign(static_cast<size_t>(ranks_ + 1) * row_, 0);
    theta_.assign(ranks_ + 2, 0);
    steps_.assign(ranks_ + 2, -infinity), falls_.assign(ranks_ + 2, infinity);
    for (int v = 0; v < m_; ++v) {
      double sum = 0, last = 0;
      for (int k = 0; k < ranks_; ++k) {
        last = sorted(v, k), sum += 0.5 * last;
        steps_[k + 1] = std::max(steps_[k + 1], 0.5 * last);
        falls_[k + 2] = std::min(falls_[k + 2], 0.5 * last);
        if (last > 0) attracted_ = std::max(attracted_, k + 1);
        tops_[static_cast<size_t>(k + 1) * row_ + v] = sum;
      }
      if (last > 0 && ranks_ < m_ - 1)
        tops_[static_cast<size_t>(ranks_) * row_ + v] =
            priced_ ? half_positive(v) : 1e300;  // the range decides
    }
  }

  vec<double> caps(const Level& x, const double* tops, int u) const {
    const vec<double> d = load<double>(x.d + u), own = d + load<double>(tops + u);
    return priced_ ? own : minimum(own, broadcast<double>(0.5) * (d + load<double>(x.high + u)));
  }
  double cap(const Level& x, const double* tops, int v) const {
    const double own = x.d[v] + tops[v];
    return priced_ ? own : std::min(own, 0.5 * (x.d[v] + x.high[v]));
  }
  // The sum of the positive caps for k labels.
  double sum_of(const Level& x, int k) const {
    const double* tops = tops_.data() + static_cast<size_t>(k - 1) * row_;
    vec<double> sum = {};
    for (int u = 0; u < row_; u += lanes) sum += maximum(caps(x, tops, u), vec<double>{});
    return sum_of_lanes<double>(sum);
  }
  // The bound for k labels: searches t between the caps until the bound is low enough, or as low as possible.
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
      theta_[k] = t, excess_ = excess;
      if (least <= enough || count == k || (count < k && t == 0)) break;
      if (count > k)
        below = t, t = above < infinity ? 0.5 * (below + above) : t + excess / count;
      else
        above = t, t = below < 0 ? 0 : 0.5 * (below + above);
    }
    return least;
  }
  double last_bound(const Level& x, double most, double enough) {
    most = std::max(most, sum_of(x, ranks_ + 1));
    if (most > enough) hint_ = std::max(1, ranks_);
    return most;
  }
  // The bound if all weights repel: goes up from k = hint, then down, until the current bound covers the
  // remaining k.
  double bound_around(const Level& x, double enough) {
    double most = 0;
    const int first = hint_;
    for (int k = first, step = 1; k > 0; k += step) {
      most = std::max(most, bound_of(x, k, enough));
      if (most > enough) return hint_ = k, most;
      const double others = step > 0 ? bound_above(k) : bound_below(k);
      if (others <= enough)
        most = std::max(most, others);
      else if (step > 0 && k == ranks_)
        most = last_bound(x, most, enough);
      else
        continue;
      if (most > enough || step < 0) return most;
      step = -1, k = first;
    }
    return most;
  }
  // Call after bound_of(k), with its t and e = sum_v max(c_v(k) - t, 0). For j > k labels c_v(j) <= c_v(k) +
  // (j - k) s; s is half of the largest k-th share of any label. So the sum is at most  e + j t + j (j - k)
  // s.
  double bound_above(int k) const {
    const double s = steps_[k];
    if (!(s < 0)) return infinity;
    const double j = std::max(k + 1.0, (k - theta_[k] / s) / 2);
    return excess_ + j * (theta_[k] + (j - k) * s);
  }
  // The same for j < k labels; here s is half of the least (k - 1)-st share.
  double bound_below(int k) const {
    const double s = std::min(0.0, falls_[k]), t = theta_[k];
    const double j = s < 0 ? std::min(k - 1.0, (k - t / s) / 2) : k - 1.0;
    return excess_ + j * (t - (k - j) * s);
  }
};

}  // namespace mm
