// Distributions over the labellings of a chain: potentials of positions and transitions, and their expectations.
#pragma once

#include <algorithm>

#include "models/chain_base.hpp"
#include "models/forward_backward.hpp"

namespace mm {

template <class Real>
void ChainBase<Real>::list_potentials(Scratch& s, const Real* W, Real* theta) const {
  const int T = length(s.block);
  const Real* A = W + transitions_;
  Real* last = theta + static_cast<size_t>(T - 1) * stride_;
  std::copy_n(s.local.data(), static_cast<size_t>(T) * stride_, theta);
  std::copy_n(A, static_cast<size_t>(K_) * stride_, last + stride_);
  for (int k = 0; data_.start && k < K_; ++k) theta[k] += A[edge(K_, k)];
  for (int k = 0; data_.end && k < K_; ++k) last[k] += A[edge(K_ + 1, k)];
}

template <class Real>
ForwardBackward<Real>& ChainBase<Real>::sums_of(Scratch& s) {
  if (!s.sums) s.sums = std::make_shared<ForwardBackward<Real>>();
  return *s.sums;
}

template <class Real>
void ChainBase<Real>::draw(Scratch& s, int64_t block, const Real*, const double* chance, int32_t* y) const {
  sums_of(s).draw(chance, length(block), y);
}

template <class Real>
const Real* ChainBase<Real>::with_ends(Scratch& s, int64_t block, const Real* theta) const {
  if (!penalty_) return theta;
  const size_t nodes = static_cast<size_t>(length(block)) * stride_;
  s.nodes_with_ends.assign(theta, theta + nodes);
  Real *first = s.nodes_with_ends.data(), *last = first + nodes - stride_;
  for (int k = 0; k < K_; ++k) first[k] += penalty(edge(K_, k)), last[k] += penalty(edge(K_ + 1, k));
  return first;
}

template <class Real>
double ChainBase<Real>::distribute(Scratch& s, int64_t block, const Real* theta, Real* m) const {
  const int T = length(block);
  const size_t nodes = static_cast<size_t>(T) * stride_;
  const Real* penalty = penalty_ ? penalty_->data() : nullptr;
  return sums_of(s).run(T, K_, stride_, with_ends(s, block, theta), theta + nodes, penalty, 0, m,
                        m ? m + nodes : nullptr);
}

template <class Real>
void ChainBase<Real>::subtract_truth(int64_t block, Real* m) const {
  const int T = length(block);
  const int32_t* y = data_.truth.data() + row(block, 0);
  Real* E = m + static_cast<size_t>(T) * stride_;
  for (int t = 0; t < T; ++t) m[static_cast<size_t>(t) * stride_ + y[t]] -= 1;
  for (int t = 1; t < T; ++t) E[edge(y[t - 1], y[t])] -= 1;
}

template <class Real>
double ChainBase<Real>::expected_loss(int64_t block, const Real* m) const {
  double sum = 0;
  for (int t = 0; t < length(block); ++t, m += stride_) {
    const int64_t r = row(block, t);
    double own = 0;
    for (int k = 0; k < K_; ++k) own += m[k] * data_.cost.of(data_.truth[r], k);
    sum += data_.node_weight[r] * own;
  }
  return sum;
}

template <class Real>
double ChainBase<Real>::add_expected(Scratch&, int64_t block, const Real* m, Real* W, double c) const {
  const int T = length(block);
  const Real factor = static_cast<Real>(c);
  Real* A = W + transitions_;
  double sum = 0;
  for (int t = 0; t < T; ++t)
    sum += data_.nodes.add_measured(row(block, t), W, stride_, m + static_cast<size_t>(t) * stride_, factor);
  if (data_.start) sum += add_counted(A + edge(K_, 0), m, stride_, factor);
  if (data_.end)
    sum += add_counted(A + edge(K_ + 1, 0), m + static_cast<size_t>(T - 1) * stride_, stride_, factor);
  if (T > 1) sum += add_counted(A, m + static_cast<size_t>(T) * stride_, K_ * stride_, factor);
  return sum;
}

}  // namespace mm
