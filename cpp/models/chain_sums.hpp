// The violating labellings of a chain: all of them, or a bracket of their sum.
//
//   v(y) = c + sum_t u[t, y_t] + sum_t A[y_{t-1}, y_t] - (the same of the true labelling)
//   wanted: sum_y max(0, v(y)), or with a loss sum_y Delta(y) max(0, v(y))
//
// Counting the y with v(y) > 0 is #P-hard already for two labels and A = 0: with u[t, 1] = -weight_t, u[t, 0] = 0
// and c the capacity it counts the solutions of a knapsack. So there are two answers.
//
// `each` walks through the violators in depth. With the best completions B[t, k], a prefix is entered only if its
// best completion violates: every prefix that is entered leads to a violator, O(T K) work for each.
//
// `bracket` counts them by cost. With top = max_y v(y), each step of a labelling gives away a cost >= 0 of the best
// completion, and v(y) = top - (sum of the costs). Costs are rounded down to a grid of width h; the table has for
// each label and each rounded cost b the number N of prefixes, and the sum of their costs, unrounded. In the end
//   b h <= cost < (b + T) h:  all of a bin violate where (b + T) h <= top, and then their sum N top - (sum of costs)
//   is exact; other bins lie between that, or 0, and the chord of max(0, top - cost) over the bin (it is convex).
#pragma once

#include <cstdint>
#include <vector>

#include "models/chain_search.hpp"
#include "models/violators.hpp"

namespace mm {

class ChainSums final : public Violators {
 public:
  std::vector<double> u, A;  // T x K, K x K
  std::vector<int32_t> truth;
  int T = 0, K = 0;

  // The scores of a sequence, with the ends in its first and last position.
  void read(const SequenceScores& s, const int32_t* known);

  // Best completions; returns top.
  double prepare() override;

  bool each(int64_t most, double least, const Found& f) override;

  // Bins as many as the work allows: T K^2 bins.
  SumBounds bracket(int64_t work) override;

 private:
  std::vector<double> best_;
  std::vector<double> now_[4],
      next_[4];  // N, sum of costs; with a loss: its sum, and that of loss times cost
  std::vector<int32_t> path_;
  double base_ = 0, top_ = 0, least_ = 0, width_ = 1;
  int64_t left_ = 0;
  int bins_ = 0;

  double& best(int t, int k) { return best_[static_cast<size_t>(t) * K + k]; }
  double node(int t, int k) const { return u[static_cast<size_t>(t) * K + k]; }
  double pair(int k, int n) const { return A[static_cast<size_t>(k) * K + n]; }
  double loss_of(int t, int k) const { return loss.empty() ? 0 : loss[static_cast<size_t>(t) * K + k]; }
  // What the best labelling of the rest is worth if label n follows label k of position t.
  double link(int t, int k, int n) { return pair(k, n) + node(t + 1, n) + best(t + 1, n); }

  bool walk(int t, int k, double value, double lost, const Found& f);

  int bin(double cost) const {
    const double b = cost / width_;
    return b < bins_ ? static_cast<int>(b) : bins_;
  }
  void start(size_t at, double cost, double lost) {
    now_[0][at] += 1, now_[1][at] += cost;
    if (!loss.empty()) now_[2][at] += lost, now_[3][at] += lost * cost;
  }
  void extend(int k, int n, double cost, double lost);

  // With a loss the weights of a bin's labellings are their losses, else ones.
  SumBounds gather() const;
};

}  // namespace mm
