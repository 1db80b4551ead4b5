// The violating labellings of a chain: a list of all of them, or a bracket of their sum.
//
//     v(y) = c + sum_t u[t, y_t] + sum_t A[y_{t-1}, y_t] - (the same of the true labelling)
//     wanted: sum_y max(0, v(y)), or with a loss sum_y Delta(y) max(0, v(y))
//
// Counting the y with v(y) > 0 is #P-hard even for two labels and A = 0: with u[t, 1] = -weight_t,
// u[t, 0] = 0 and c the capacity, it counts the solutions of a knapsack. So there are two methods.
//
// `each` visits the violators by depth-first search. It knows the best completions B[t, k], and enters a
// prefix only if its best completion violates. So every prefix leads to a violator, at O(T K) work for each
// violator.
//
// `bracket` counts them by cost. Let top = max_y v(y). The cost of a step is how much its best completion is
// below the best one, so that v(y) = top - (sum of the costs). Costs are rounded down to a grid of width h.
// For each label and each rounded cost b, a table holds the number N of prefixes and the sum of their
// unrounded costs. In the end the labellings of bin b have b h <= cost < (b + T) h. If (b + T) h <= top, they
// all violate, and their sum N top - (sum of costs) is exact. For other bins the sum is at least this number,
// and at least 0. The upper bound replaces max(0, top - cost) by its chord over the bin, which lies above it
// because the function is convex.
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

  // Reads the scores of a sequence. Adds the scores of start and end to the first and last position.
  void read(const SequenceScores& s, const int32_t* known);

  // Computes the best completions; returns top.
  double prepare() override;

  bool each(int64_t most, double least, const Found& f) override;

  // Uses as many bins as the work allows: each bin takes T K^2 steps.
  SumBounds bracket(int64_t work) override;

 private:
  std::vector<double> best_;
  // Count, sum of costs; with a loss: sum of losses, sum of loss times cost.
  std::vector<double> now_[4], next_[4];
  std::vector<int32_t> path_;
  double base_ = 0, top_ = 0, least_ = 0, width_ = 1;
  int64_t left_ = 0;
  int bins_ = 0;

  double& best(int t, int k) { return best_[static_cast<size_t>(t) * K + k]; }
  double node(int t, int k) const { return u[static_cast<size_t>(t) * K + k]; }
  double pair(int k, int n) const { return A[static_cast<size_t>(k) * K + n]; }
  double loss_of(int t, int k) const { return loss.empty() ? 0 : loss[static_cast<size_t>(t) * K + k]; }
  // The value of the best completion if label n follows label k of position t.
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

  // Weights each labelling of a bin with its loss, if there is one, else with one.
  SumBounds gather() const;
};

}  // namespace mm
