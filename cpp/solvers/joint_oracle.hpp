// Finds the two labels of an example that gain most by a joint move, without a look at all pairs (Yen et al., Section
// 3.2).
//
//   max over pairs (a, b) that are not active of   e_a + e_b + s_ab w_ab          e <= 0,  s_ab = +1 or -1
//
// -e_a is the loss of label a if it leaves the truth alone, or 0 if it has left already. w_ab is the weight of two
// labels that are on together. s_ab is +1 if both are on or both are off in the truth, else -1.
//
// The partners of every label are sorted by w. Since e <= 0, a pair is worth at most e_a + s w_ab, seen from either
// end. So the search visits the partners of each a from the top of the order (s = +1) and from the bottom (s = -1). It
// stops once that bound is no better than the best pair so far. A label with a large loss is done after one comparison.
// Two labels with e = 0 would be found late from either end. There are few such labels, so all their pairs are looked
// at.
//
// The weights change all the time, so each row is in the order of older weights. `drift` bounds how far any weight of
// the row has moved since. It is added to the bound of the visit, which keeps the answer exact. A row is sorted again
// once its age has wasted about as many looks as a sort costs.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "order.hpp"

namespace mm {

struct JointGain {
  double gain;
  int32_t a, b;
};

class JointOracle {
 public:
  explicit JointOracle(int labels)
      : L_(labels),
        weight_(square(), 0.0),
        sorted_(square(), 0.0),
        order_(square()),
        gains_(labels, 0.0),
        losses_(labels, 0.0),
        drift_(labels, 0.0),
        wasted_(labels, 0) {
    for (int a = 0; a < L_; ++a) std::iota(row(order_, a), row(order_, a) + L_, 0);
  }

  const double* weights(int a) const { return weight_.data() + static_cast<size_t>(a) * L_; }
  double at(int a, int b) const { return weights(a)[b]; }
  int64_t looks() const { return looks_; }

  // sum_b max(0, s_ab w_ab): the most that label a can add to the gain of other labels if it leaves with them.
  double most(int a, const int32_t* truth, const std::vector<int32_t>& on) const {
    double sum = truth[a] ? losses_[a] : gains_[a];  // as if every other label were off
    for (const int32_t b : on) sum += truth[a] ? at(a, b) : -at(a, b);
    return sum;
  }

  // w_ab += change
  void add(int a, int b, double change) { set(a, b, at(a, b) + change); }
  void set(int a, int b, double value) {
    put(a, b, value);
    put(b, a, value);
  }

  // Returns the pairs that are worth more than `least`, best first, at most `wanted` of them. Pairs with active(a, b)
  // do not count. Labels with e = -infinity take no part.
  template <class Active>
  const std::vector<JointGain>& best(const double* e, const int32_t* truth, double least, int wanted,
                                     Active&& active) {
    begin(least, wanted);
    free_.clear();
    for (int a = 0; a < L_; ++a)
      if (e[a] == 0) free_.push_back(a);
    for (size_t i = 0; i < free_.size(); ++i)
      for (size_t j = 0; j < i; ++j) offer(e, truth, free_[i], free_[j], active);
    for (int a = 0; a < L_; ++a)
      if (e[a] < 0 && std::isfinite(e[a])) visit(e, truth, a, active);
    looks_ += L_;
    return found_;
  }

  // The same, by a look at all pairs.
  template <class Active>
  const std::vector<JointGain>& exhaustive(const double* e, const int32_t* truth, double least, int wanted,
                                           Active&& active) {
    begin(least, wanted);
    for (int a = 0; a < L_; ++a)
      for (int b = 0; b < a; ++b) offer(e, truth, a, b, active);
    return found_;
  }

 private:
  int L_;
  std::vector<double> weight_, sorted_;  // L x L: the weights now, and when the row was sorted
  std::vector<int32_t> order_;           // for each row: labels from the largest weight to the smallest
  std::vector<double> gains_, losses_;   // for each row: sum of max(0, w), sum of max(0, -w)
  std::vector<double> drift_;            // for each row: an upper bound on the change of its weights since
  std::vector<int64_t> wasted_;
  std::vector<int32_t> free_;
  std::vector<JointGain> found_;
  double least_ = 0, worst_ = 0;  // a pair must be worth more than these
  size_t wanted_ = 0;
  int64_t looks_ = 0;

  size_t square() const { return static_cast<size_t>(L_) * L_; }
  template <class T>
  T* row(std::vector<T>& table, int a) {
    return table.data() + static_cast<size_t>(a) * L_;
  }
  void put(int a, int b, double value) {
    double& own = row(weight_, a)[b];
    gains_[a] += std::max(0.0, value) - std::max(0.0, own);
    losses_[a] += std::max(0.0, -value) - std::max(0.0, -own);
    own = value;
    drift_[a] = std::max(drift_[a], std::abs(value - row(sorted_, a)[b]));
  }
  void sort(int a) {
    const double* w = weights(a);
    int32_t* order = row(order_, a);
    std::sort(order, order + L_, [w](int32_t x, int32_t y) { return Descending()(w[x], w[y]); });
    std::copy(w, w + L_, row(sorted_, a));
    drift_[a] = 0;
    wasted_[a] = 0;
  }

  void begin(double least, int wanted) {
    found_.clear();
    least_ = worst_ = least;
    wanted_ = static_cast<size_t>(wanted);
  }
  template <class Active>
  bool offer(const double* e, const int32_t* truth, int a, int b, Active&& active) {
    ++looks_;
    const double joint = truth[a] == truth[b] ? at(a, b) : -at(a, b);
    const double gain = e[a] + e[b] + joint;
    if (gain > worst_ && a != b && !active(a, b)) keep({gain, std::min(a, b), std::max(a, b)});
    return e[a] + joint > worst_;  // whether it was worth a look
  }
  void keep(const JointGain& pair) {
    for (const JointGain& known : found_)
      if (known.a == pair.a && known.b == pair.b) return;  // it was found from its other end
    const auto less = [](const JointGain& x, const JointGain& y) { return x.gain > y.gain; };
    found_.insert(std::upper_bound(found_.begin(), found_.end(), pair, less), pair);
    if (found_.size() > wanted_) found_.pop_back();
    worst_ = found_.size() < wanted_ ? least_ : found_.back().gain;
  }

  template <class Active>
  void visit(const double* e, const int32_t* truth, int a, Active&& active) {
    const int32_t* order = row(order_, a);
    const double* old = row(sorted_, a);
    const auto hopeless = [&](double value) { return e[a] + value + drift_[a] <= worst_; };
    for (int k = 0; k < L_ && !hopeless(old[order[k]]); ++k)
      wasted_[a] += !offer(e, truth, a, order[k], active);
    for (int k = L_; k-- > 0 && !hopeless(-old[order[k]]);)
      wasted_[a] += !offer(e, truth, a, order[k], active);
    if (wasted_[a] > 2 * L_ && drift_[a] > 0) sort(a);
  }
};

}  // namespace mm
