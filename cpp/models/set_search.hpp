// The best set of labels under gains and weights of pairs, by branch and bound; exact unless it is cut short.
//
//   maximise  f(y) = g . y + sum_{a < b} A_ab y_a y_b,    y in {0, 1}^n
//
// With some labels free and d_v the gain of turning v on beside what is on already, low_v and high_v are the least and the
// most that d_v becomes for any choice of the others: high_v <= 0 turns v off and low_v >= 0 turns it on in some best set.
// A bound on what is left: of k more labels each sees the k - 1 others that suit it best and shares their weights with
// them,
//
//   f <= value + max_k  sum of the k largest  min(d_v + 1/2 sum of the k - 1 largest A_vu,  (d_v + high_v) / 2)
//
// The sums of largest weights are those among what is free at the root. Where labels repel each other, as those of
// documents do, this is much tighter than the linear relaxation, which puts everything at one half.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "runtime/interrupt.hpp"
#include "simd.hpp"

namespace mm {

class SetSearch {
 public:
  // A best set in y unless more than `most` parts are looked at; its value, and into `ceiling` what no set exceeds.
  // A_ab is upper[a * stride + b] for a < b; the other places, and the padding of the rows to whole vectors, are zero.
  double solve(int n, const double* g, const double* upper, int stride, int64_t most, int32_t* y,
               double& ceiling) {
    reduce(n, g, upper, stride, y);
    gather(g, upper, stride);
    best_ = 0, open_ = -infinity, parts_ = 0, most_ = most, hint_ = 1;
    on_.clear();
    Level root{levels_.data(), m_};
    const double sure = settle(root);
    keep(sure);
    climb(root);
    rank(root);
    visit(root, sure);
    for (int j = 0; j < m_; ++j) y[free_[j]] = set_[j];
    const double value = value_of(n, g, upper, stride, y);
    ceiling = value + std::max(0.0, open_ - best_);
    return value;
  }

  static double value_of(int n, const double* g, const double* upper, int stride, const int32_t* y) {
    double sum = 0;
    for (int v = 0; v < n; ++v) {
      if (!y[v]) continue;
      sum += g[v];
      const double* row = upper + static_cast<size_t>(v) * stride;
      for (int u = v + 1; u < n; ++u)
        if (y[u]) sum += row[u];
    }
    return sum;
  }

 private:
  static constexpr double infinity = std::numeric_limits<double>::infinity(), tiny = 1e-12;
  static constexpr int ranks = 8;  // k of the bound that are told apart

  struct Free {
    int32_t v;
    double d, low, high;
  };
  struct Level {
    Free* at;
    int n;
  };
  int m_ = 0;                   // labels that are free
  aligned<double> sums_, ups_;  // of the weights of each label, and of those above zero
  std::vector<double> A_, tops_, gains_;
  std::vector<char> set_;  // the best one so far
  std::vector<int32_t> free_, sure_, on_;
  std::vector<Free> levels_;
  double best_ = 0, open_ = 0;  // open_: the highest bound of a part that was left
  double all_ = 0;              // what all labels add at most, at the last look at a k
  int64_t parts_ = 0, most_ = 0;
  int attracted_ = 0, hint_ = 1;  // the most positive weights of a label; the k that kept the last part open

  static double pair_of(const double* upper, int stride, int v, int u) {
    return upper[static_cast<size_t>(std::min(u, v)) * stride + std::max(u, v)];
  }
  const double* row(int v) const { return A_.data() + static_cast<size_t>(v) * m_; }

  // Turns labels on and off that the ranges over all others decide; the rest is free.
  void reduce(int n, const double* g, const double* upper, int stride, int32_t* y) {
    measure(n, upper, stride);
    free_.clear(), sure_.clear();
    for (int v = 0; v < n; ++v) {
      const double high = g[v] + ups_[v], low = high + sums_[v] - 2 * ups_[v];
      y[v] = low >= 0 && high > 0;
      if (y[v])
        sure_.push_back(v);
      else if (high > 0)
        free_.push_back(v);
    }
    m_ = static_cast<int>(free_.size());
  }
  // Sums of the weights of each label.
  void measure(int n, const double* upper, int stride) {
    constexpr int lanes = Vector<double>::lanes;
    sums_.assign(stride, 0);
    ups_.assign(stride, 0);
    for (int v = 0; v < n; ++v) {
      const double* row = upper + static_cast<size_t>(v) * stride;
      vec<double> sum = {}, up = {};
      for (int u = v / lanes * lanes; u < stride; u += lanes) {
        const vec<double> a = load<double>(row + u), positive = maximum(a, vec<double>{});
        sum += a, up += positive;
        store<double>(sums_.data() + u, load<double>(sums_.data() + u) + a);
        store<double>(ups_.data() + u, load<double>(ups_.data() + u) + positive);
      }
      sums_[v] += sum_of_lanes<double>(sum);
      ups_[v] += sum_of_lanes<double>(up);
    }
  }

  // The problem over what is free.
  void gather(const double* g, const double* upper, int stride) {
    A_.resize(static_cast<size_t>(m_) * m_);
    const size_t most = static_cast<size_t>(m_ + 1) * m_;  // a part of depth t has at most m - t labels free
    if (levels_.size() < most) levels_.resize(most);
    for (int j = 0; j < m_; ++j) {
      const double* own = upper + static_cast<size_t>(free_[j]) * stride;
      A_[j * m_ + j] = 0;
      for (int i = j + 1; i < m_; ++i) A_[j * m_ + i] = A_[i * m_ + j] = own[free_[i]];
    }
    for (int j = 0; j < m_; ++j) {
      double d = g[free_[j]], down = 0, up = 0;
      for (const int v : sure_) d += pair_of(upper, stride, v, free_[j]);
      for (int i = 0; i < m_; ++i) down += std::min(row(j)[i], 0.0), up += std::max(row(j)[i], 0.0);
      levels_[j] = {j, d, d + down, d + up};
    }
  }

  // A good set to begin with: single labels changed while that helps.
  void climb(const Level& part) {
    gains_.resize(part.n);
    for (int j = 0; j < part.n; ++j) gains_[j] = part.at[j].d;
    for (int step = 0; step < 4 * part.n; ++step) {
      int best = -1;
      double most = tiny;
      for (int j = 0; j < part.n; ++j)
        if (const double gain = set_[part.at[j].v] ? -gains_[j] : gains_[j]; gain > most)
          most = gain, best = j;
      if (best < 0) break;
      const int v = part.at[best].v;
      const double sign = set_[v] ? -1 : 1;
      best_ += most;
      set_[v] = !set_[v];
      for (int j = 0; j < part.n; ++j) gains_[j] += sign * row(v)[part.at[j].v];
    }
  }

  // The largest numbers of those that were given, in order.
  struct Largest {
    double value[ranks] = {};
    int n = 0;
    void add(double a, int most) {
      if (n == most && a <= value[most - 1]) return;
      int at = n < most ? n++ : most - 1;
      for (; at > 0 && value[at - 1] < a; --at) value[at] = value[at - 1];
      value[at] = a;
    }
  };

  // tops_[v][k]: half of the k largest weights of v, k = 0 .. ranks - 1; then what holds for all k from there.
  void rank(const Level& part) {
    tops_.resize(static_cast<size_t>(m_) * (ranks + 1));
    attracted_ = 0;
    for (int i = 0; i < part.n; ++i) {
      const int v = part.at[i].v;
      Largest found;
      for (int j = 0; j < part.n; ++j)
        if (j != i) found.add(row(v)[part.at[j].v], ranks);
      double sum = 0;
      double* own = tops_.data() + static_cast<size_t>(v) * (ranks + 1);
      for (int k = 0; k < found.n; ++k) {
        own[k] = sum;
        sum += 0.5 * found.value[k];
        if (found.value[k] > 0) attracted_ = std::max(attracted_, k + 1);
      }
      std::fill(own + found.n, own + ranks + 1, sum);
      if (found.n == ranks && found.value[ranks - 1] > 0) own[ranks] = infinity;
    }
  }

  // Takes the label at a place out of those of a level: it is on, or off.
  void take(Level& part, int place, bool on) const {
    const double* a = row(part.at[place].v);
    part.at[place] = part.at[--part.n];
    for (int j = 0; j < part.n; ++j) shift(part.at[j], a[part.at[j].v], on);
  }
  static void shift(Free& x, double a, bool on) {
    const double up = std::max(a, 0.0), down = std::min(a, 0.0);
    x.d += on ? a : 0.0;
    x.low += on ? up : -down;
    x.high += on ? down : -up;
  }

  // What ranges decide; the value of what is turned on.
  double settle(Level& part) {
    double value = 0;
    for (bool again = true; again;) {
      again = false;
      for (int j = 0; j < part.n; ++j) {
        const Free& x = part.at[j];
        if (x.low < 0 && x.high > 0) continue;
        const bool on = x.high > 0;
        if (on) value += x.d, on_.push_back(x.v);
        take(part, j--, on);
        again = true;
      }
    }
    return value;
  }

  // The bound on what free labels add, or something above `enough` if that is not enough.
  double bound(const Level& part, double enough) {
    double most = 0;
    if (enough < infinity) most = bound_of(part, hint_, enough);
    if (most > enough) return most;
    for (int k = 1; k <= ranks + 1; ++k) {
      most = std::max(most, bound_of(part, k, enough));
      if (most > enough) return hint_ = k, most;
      if (k > attracted_ && all_ <= most) break;  // no later k has more
    }
    return most;
  }
  // What a label adds at most as one of k.
  double cap(const Free& x, int k) const {
    return std::min(x.d + tops_[static_cast<size_t>(x.v) * (ranks + 1) + k - 1], 0.5 * (x.d + x.high));
  }
  // The bound for k labels, or for all that are more than the ranks.
  double bound_of(const Level& part, int k, double enough) {
    Largest found;
    all_ = 0;
    for (int j = 0; j < part.n; ++j) {
      const double most = cap(part.at[j], k);
      if (most <= 0) continue;
      all_ += most;
      if (k <= ranks) found.add(most, k);
    }
    if (k > ranks || (all_ <= enough && enough < infinity)) return all_;
    double sum = 0;
    for (int j = 0; j < found.n; ++j) sum += found.value[j];
    return sum;
  }

  // A part of all sets: the labels on_ have added up to `value`.
  void visit(Level part, double value) {
    const size_t before = on_.size();
    value += settle(part);
    if (value > best_) keep(value);
    const double enough = best_ + tiny * (1 + std::abs(best_)) - value;
    const bool stop = ++parts_ > most_;
    const double more = bound(part, stop ? infinity : enough);
    if (more > enough && stop)
      open_ = std::max(open_, value + more);
    else if (more > enough)
      split(part, value);
    on_.resize(before);
  }
  void split(const Level& part, double value) {
    poll();
    int place = 0;
    double most = -infinity;
    for (int j = 0; j < part.n; ++j)
      if (const double own = cap(part.at[j], hint_); own > most) most = own, place = j;
    const int v = part.at[place].v;
    const double gain = part.at[place].d;
    for (const bool on : {true, false}) {
      Level next{part.at + m_, part.n};
      std::copy(part.at, part.at + part.n, next.at);
      take(next, place, on);
      if (on) on_.push_back(v);
      visit(next, value + (on ? gain : 0));
      if (on) on_.pop_back();
    }
  }
  void keep(double value) {
    best_ = value;
    set_.assign(m_, 0);
    for (const int v : on_) set_[v] = 1;
  }
};

}  // namespace mm
