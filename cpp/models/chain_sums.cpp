#include "models/chain_sums.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mm {

void ChainSums::read(const SequenceScores& s, const int32_t* known) {
  T = s.T, K = s.K;
  u.resize(static_cast<size_t>(T) * K);
  A.resize(static_cast<size_t>(K) * K);
  truth.assign(known, known + T);
  loss.clear();
  constant = 0;
  for (int t = 0; t < T; ++t)
    for (int k = 0; k < K; ++k)
      u[static_cast<size_t>(t) * K + k] =
          s.at(t, k) + (t == 0 ? s.start_of(k) : 0) + (t == T - 1 ? s.end_of(k) : 0);
  for (int k = 0; k < K; ++k)
    for (int n = 0; n < K; ++n) A[static_cast<size_t>(k) * K + n] = s.transition(0, k, n);
}

double ChainSums::prepare() {
  best_.assign(static_cast<size_t>(T) * K, 0);
  for (int t = T - 2; t >= 0; --t)
    for (int k = 0; k < K; ++k) {
      double most = -std::numeric_limits<double>::infinity();
      for (int n = 0; n < K; ++n) most = std::max(most, link(t, k, n));
      best(t, k) = most;
    }
  double own = u[truth[0]];
  for (int t = 1; t < T; ++t) own += pair(truth[t - 1], truth[t]) + node(t, truth[t]);
  base_ = constant - own;
  top_ = -std::numeric_limits<double>::infinity();
  for (int k = 0; k < K; ++k) top_ = std::max(top_, base_ + u[k] + best(0, k));
  return top_;
}

bool ChainSums::each(int64_t most, double least, const Found& f) {
  path_.resize(T);
  left_ = most;
  least_ = least;
  for (int k = 0; k < K; ++k)
    if (base_ + u[k] + best(0, k) > least_ && !walk(0, k, base_ + u[k], loss_of(0, k), f)) return false;
  return true;
}

SumBounds ChainSums::bracket(int64_t work) {
  const double each_bin = static_cast<double>(T) * K * K;
  bins_ = static_cast<int>(std::clamp(static_cast<double>(work) / each_bin, 2.0 * T + 2, 4096.0));
  width_ = top_ / bins_;
  const int tables = loss.empty() ? 2 : 4;
  const size_t size = static_cast<size_t>(K) * bins_;
  for (int m = 0; m < tables; ++m) now_[m].assign(size, 0), next_[m].resize(size);
  for (int k = 0; k < K; ++k) {
    const double cost = std::max(0.0, top_ - (base_ + u[k] + best(0, k)));
    const int b = bin(cost);
    if (b < bins_) start(static_cast<size_t>(k) * bins_ + b, cost, loss_of(0, k));
  }
  for (int t = 0; t + 1 < T; ++t) {
    for (int m = 0; m < tables; ++m) std::fill(next_[m].begin(), next_[m].end(), 0);
    for (int k = 0; k < K; ++k)
      for (int n = 0; n < K; ++n) extend(k, n, std::max(0.0, best(t, k) - link(t, k, n)), loss_of(t + 1, n));
    for (int m = 0; m < tables; ++m) now_[m].swap(next_[m]);
  }
  return gather();
}

bool ChainSums::walk(int t, int k, double value, double lost, const Found& f) {
  path_[t] = k;
  if (t == T - 1) {
    if (left_-- <= 0) return false;
    f(path_.data(), value, lost);
    return true;
  }
  for (int n = 0; n < K; ++n)
    if (value + link(t, k, n) > least_ &&
        !walk(t + 1, n, value + pair(k, n) + node(t + 1, n), lost + loss_of(t + 1, n), f))
      return false;
  return true;
}

void ChainSums::extend(int k, int n, double cost, double lost) {
  const int by = bin(cost);
  const size_t from = static_cast<size_t>(k) * bins_, to = static_cast<size_t>(n) * bins_ + by;
  const int size = bins_ - by;
  const double *N = now_[0].data() + from, *C = now_[1].data() + from;
  double *N2 = next_[0].data() + to, *C2 = next_[1].data() + to;
  for (int b = 0; b < size; ++b) N2[b] += N[b], C2[b] += C[b] + cost * N[b];
  if (loss.empty()) return;
  const double *D = now_[2].data() + from, *DC = now_[3].data() + from;
  double *D2 = next_[2].data() + to, *DC2 = next_[3].data() + to;
  for (int b = 0; b < size; ++b) {
    D2[b] += D[b] + lost * N[b];
    DC2[b] += DC[b] + cost * D[b] + lost * C[b] + lost * cost * N[b];
  }
}

SumBounds ChainSums::gather() const {
  const std::vector<double>&weight = now_[loss.empty() ? 0 : 2], &costs = now_[loss.empty() ? 1 : 3];
  SumBounds found;
  double terms = 0;  // the sum of all terms, to bound the rounding
  for (int k = 0; k < K; ++k)
    for (int b = 0; b < bins_; ++b) {
      const size_t at = static_cast<size_t>(k) * bins_ + b;
      const double m = weight[at], low = b * width_, high = (b + T) * width_;
      if (m == 0) continue;
      const double mean = m * top_ - costs[at];
      found.floor += std::max(0.0, mean);
      const double chord = (m * high - costs[at]) / (high - low) * (top_ - low);
      found.ceiling += high <= top_ ? mean : std::max({0.0, mean, std::min(chord, m * (top_ - low))});
      terms += m * top_;
    }
  // If numbers exceed the range of a double, the ceiling is infinite. Otherwise both bounds allow for
  // rounding.
  if (!std::isfinite(found.ceiling) || !std::isfinite(terms))
    found.ceiling = std::numeric_limits<double>::infinity();
  if (!std::isfinite(found.floor)) found.floor = 0;
  const double rounding = 1e-15 * (static_cast<double>(T) * K + bins_) * terms;
  return {std::max(0.0, found.floor - rounding), found.ceiling + rounding};
}

}  // namespace mm
