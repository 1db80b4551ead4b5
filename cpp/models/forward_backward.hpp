// Sums over all labellings of a sequence, in probability space.
//
//     p(y) = exp(sum_t u[t, y_t] + sum_{t>0} A[y_{t-1}, y_t]) / Z
//     forward:   a_t[k] = e_t[k] sum_j a_{t-1}[j] P[j, k] / c_t      e_t = exp(u_t - max u_t),   P = exp(A - max A)
//     backward:  b_{t-1}[j] = sum_k P[j, k] r_t[k]                   r_t = e_t b_t / c_t
//     marginals: m_t = a_t b_t       pairs: E[j, k] = P[j, k] sum_t a_{t-1}[j] r_t[k]
//     log Z = sum_t (log c_t + max u_t) + (T - 1) max A
//
// c_t makes a_t sum to one. If some c_t is tiny, the numbers are too far apart for this method, and the same
// sums are taken in logarithms. Tables have rows of `stride` numbers; columns from K on are padding, and zero
// in the marginals.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "exponential.hpp"
#include "simd.hpp"

namespace mm {

// out = from' M for N vectors of columns
template <class Real, int N>
void times_matrix(const Real* from, const Real* M, int64_t stride, int rows, Real* out) {
  constexpr int lanes = Vector<Real>::lanes;
  vec<Real> even[N] = {}, odd[N] = {};
  int j = 0;
  for (; j + 1 < rows; j += 2) {
    const vec<Real> f = broadcast(from[j]), g = broadcast(from[j + 1]);
    const Real* m = M + j * stride;
    for (int n = 0; n < N; ++n) even[n] += f * load(m + n * lanes);
    for (int n = 0; n < N; ++n) odd[n] += g * load(m + stride + n * lanes);
  }
  if (j < rows)
    for (int n = 0; n < N; ++n) even[n] += broadcast(from[j]) * load(M + j * stride + n * lanes);
  for (int n = 0; n < N; ++n) store(out + n * lanes, even[n] + odd[n]);
}

// to[k, j] = from[j, k] for a square block as wide as a vector
template <class Real>
inline void turn_block(const Real* from, int64_t stride, Real* to) {
  for (int j = 0; j < Vector<Real>::lanes; ++j)
    for (int k = 0; k < Vector<Real>::lanes; ++k) to[k * stride + j] = from[j * stride + k];
}
#if MM_VECTORS && defined(__AVX2__)
inline void turn_block(const float* from, int64_t stride, float* to) {
  __m256 r[8], s[8];
  for (int j = 0; j < 8; ++j) r[j] = _mm256_loadu_ps(from + j * stride);
  for (int j = 0; j < 8; j += 2)
    s[j] = _mm256_unpacklo_ps(r[j], r[j + 1]), s[j + 1] = _mm256_unpackhi_ps(r[j], r[j + 1]);
  for (int j = 0; j < 8; j += 4)
    for (int k = 0; k < 2; ++k) {
      r[j + 2 * k] = _mm256_shuffle_ps(s[j + k], s[j + k + 2], 0x44);
      r[j + 2 * k + 1] = _mm256_shuffle_ps(s[j + k], s[j + k + 2], 0xee);
    }
  for (int j = 0; j < 4; ++j) {
    _mm256_storeu_ps(to + j * stride, _mm256_permute2f128_ps(r[j], r[j + 4], 0x20));
    _mm256_storeu_ps(to + (j + 4) * stride, _mm256_permute2f128_ps(r[j], r[j + 4], 0x31));
  }
}
#endif

template <class Real>
class ForwardBackward {
 public:
  // Returns log Z, and writes m (T x stride) and E (K x stride). `penalty` is added to A, unless it is null.
  // `step` is the distance from the table of one position to the next, for both A and E; 0 means one table
  // for all positions. Returns minus infinity if no labelling is possible. With Real = float, returns NaN if
  // the range of float is too small.
  double run(int T, int K, int stride, const Real* u, const Real* A, const Real* penalty, int64_t step,
             Real* m, Real* E) {
    T_ = T, K_ = K, stride_ = stride, step_ = step;
    std::fill(tail_, tail_ + lanes, Real(0));
    std::fill(tail_ + lanes - (stride - K), tail_ + lanes, -std::numeric_limits<Real>::infinity());
    const size_t nodes = static_cast<size_t>(T) * stride, table = static_cast<size_t>(K) * stride;
    a_.resize(nodes), r_.resize(nodes), b_.resize(stride), e_.resize(nodes);
    const size_t square = static_cast<size_t>(stride) * stride;
    if (P_.size() != square) P_.assign(square, 0), turned_.assign(square, 0);  // rows of padding stay zero
    scores_ = A;
    if (penalty) {
      const size_t tables = step ? static_cast<size_t>(T) * step : table;
      legal_.resize(tables);
      for (size_t k = 0; k < tables; ++k) legal_[k] = A[k] + penalty[k % table];
      scores_ = legal_.data();
    }
    const double log_sum = forward(u);
    logarithms_ = std::isnan(log_sum);
    if (logarithms_) {
      if constexpr (sizeof(Real) == sizeof(float)) return log_sum;
      return by_logarithms(u, m, E);
    }
    if (m) backward(m, E);
    return log_sum;
  }

  // Draws a labelling from numbers in [0, 1), after `run`: the last label first, then each earlier label
  // given the next one.
  void draw(const double* chance, int T, int32_t* y) {
    weight_.resize(K_);
    for (int t = T - 1; t >= 0; --t) {
      if (t + 1 < T && step_ && !logarithms_) open_pairs(t + 1);
      for (int j = 0; j < K_; ++j) weight_[j] = before(t, j, t + 1 < T ? y[t + 1] : -1);
      if (logarithms_) {
        const double top = *std::max_element(weight_.begin(), weight_.end());
        for (double& x : weight_) x = std::exp(x - top);
      }
      double sum = 0;
      for (const double x : weight_) sum += x;
      double left = chance[t] * sum;
      int found = 0;
      while (found + 1 < K_ && (left -= weight_[found]) >= 0) ++found;
      // Skip labels of weight zero that rounding has reached.
      while (found > 0 && weight_[found] == 0) --found;
      y[t] = found;
    }
  }

 private:
  static constexpr int lanes = Vector<Real>::lanes;
  static constexpr double smallest = sizeof(Real) == sizeof(float) ? 1e-25 : 1e-60;
  static constexpr double never = -std::numeric_limits<double>::infinity();
  int T_ = 0, K_ = 0, stride_ = 0;
  int64_t step_ = 0;
  const Real* scores_ = nullptr;
  aligned<Real> a_, r_, b_, e_, P_, turned_, legal_;
  aligned<double> prefix_, suffix_, next_, weight_;
  Real tail_[Vector<Real>::lanes] = {};  // minus infinity in the padding of the last vector of a row
  bool logarithms_ = false;              // whether the last sums were taken in logarithms

  // The largest number in the first K columns of a table; 0 if all are minus infinity.
  Real largest(const Real* A, int rows) const {
    const int last = stride_ - lanes;
    const vec<Real> tail = load(tail_);
    vec<Real> tops = broadcast(A[0]);
    for (int j = 0; j < rows; ++j, A += stride_) {
      for (int k = 0; k < last; k += lanes) tops = maximum(tops, load(A + k));
      tops = maximum(tops, load(A + last) + tail);
    }
    const Real top = largest_lane<Real>(tops);
    return top > -std::numeric_limits<Real>::infinity() ? top : Real(0);
  }
  // Computes P of the pairs into position t; returns max A.
  Real open_pairs(int t) {
    const Real* A = scores_ + t * step_;
    const Real top = largest(A, K_);
    exponentials(A, top, K_ * stride_, P_.data());
    return top;
  }
  void product(const Real* from, const Real* M, Real* out) const {
    by_vectors<Real>(stride_, [&]<int N>(int column) {
      times_matrix<Real, N>(from, M + column, stride_, K_, out + column);
    });
  }

  double forward(const Real* u) {
    double logs = 0, scale = 1;  // log Z = logs + log(scale)
    Real pair_top = T_ > 1 && !step_ ? open_pairs(0) : Real(0);
    for (int t = 0; t < T_; ++t, u += stride_) {
      Real *a = a_.data() + static_cast<size_t>(t) * stride_,
           *e = e_.data() + static_cast<size_t>(t) * stride_;
      const Real top = largest(u, 1);
      exponentials(u, top, stride_, e);
      std::fill(e + K_, e + stride_, Real(0));
      logs += top;
      if (t == 0) {
        std::copy(e, e + stride_, a);
      } else {
        if (step_) pair_top = open_pairs(t);
        product(a - stride_, P_.data(), a);
        for (int k = 0; k < stride_; k += lanes) store(a + k, load(a + k) * load(e + k));
        logs += pair_top;
      }
      vec<Real> sums = {};
      for (int k = 0; k < stride_; k += lanes) sums += load(a + k);
      const Real c = sum_by_halves<Real>(sums);
      if (!(c > smallest)) return std::numeric_limits<double>::quiet_NaN();
      const vec<Real> inverse = broadcast(1 / c);
      for (int k = 0; k < stride_; k += lanes)
        store(a + k, inverse * load(a + k)), store(e + k, inverse * load(e + k));
      scale *= c;
      if (scale < 1e-200 || scale > 1e200) logs += std::log(scale), scale = 1;
    }
    return logs + std::log(scale);
  }

  void turn() {
    for (int j = 0; j < stride_; j += lanes)
      for (int k = 0; k < stride_; k += lanes)
        turn_block(P_.data() + static_cast<size_t>(j) * stride_ + k, stride_,
                   turned_.data() + static_cast<size_t>(k) * stride_ + j);
  }

  void backward(Real* m, Real* E) {
    if (T_ > 1 && !step_) turn();
    std::fill(b_.begin(), b_.end(), Real(0));
    std::fill(b_.begin(), b_.begin() + K_, Real(1));
    std::fill(E, E + static_cast<size_t>(K_) * stride_, Real(0));
    for (int t = T_ - 1; t >= 0; --t) {
      const size_t at = static_cast<size_t>(t) * stride_;
      const Real *a = a_.data() + at, *e = e_.data() + at;
      Real *out = m + at, *r = r_.data() + at;
      for (int k = 0; k < stride_; k += lanes) {
        const vec<Real> b = load(b_.data() + k);
        store(out + k, load(a + k) * b), store(r + k, load(e + k) * b);
      }
      if (t == 0) break;
      if (step_) open_pairs(t), turn(), add_pairs(t, t + 1, E + t * step_);
      product(r, turned_.data(), b_.data());
    }
    if (T_ > 1 && !step_) add_pairs(1, T_, E);
  }
  // E = P * sum_t a_{t-1} r_t over some positions; registers hold the sums of a row
  void add_pairs(int from, int to, Real* E) const {
    by_vectors<Real>(stride_, [&]<int N>(int column) {
      for (int j = 0; j < K_; ++j) {
        vec<Real> sums[N] = {};
        for (int t = from; t < to; ++t) {
          const vec<Real> before = broadcast(a_[static_cast<size_t>(t - 1) * stride_ + j]);
          const Real* r = r_.data() + static_cast<size_t>(t) * stride_ + column;
          for (int n = 0; n < N; ++n) sums[n] += before * load(r + n * lanes);
        }
        const size_t row = static_cast<size_t>(j) * stride_ + column;
        for (int n = 0; n < N; ++n) store(E + row + n * lanes, sums[n] * load(P_.data() + row + n * lanes));
      }
    });
  }

  // The weight of prefixes that end in label j of position t, if label `next` follows (-1: none).
  double before(int t, int j, int next) const {
    if (logarithms_) return prefix_[static_cast<size_t>(t) * K_ + j] + (next < 0 ? 0 : score(t + 1, j, next));
    const double own = a_[static_cast<size_t>(t) * stride_ + j];
    return next < 0 ? own : own * P_[static_cast<size_t>(j) * stride_ + next];
  }
  double score(int t, int j, int k) const {
    return scores_[t * step_ + static_cast<int64_t>(j) * stride_ + k];
  }

  // The same sums in logarithms, for numbers that are far apart.
  double by_logarithms(const Real* u, Real* m, Real* E) {
    const size_t nodes = static_cast<size_t>(T_) * K_, table = static_cast<size_t>(K_) * stride_;
    prefix_.assign(nodes, 0), suffix_.assign(nodes, 0), next_.resize(K_);
    for (int t = 0; t < T_; ++t)
      for (int k = 0; k < K_; ++k) {
        for (int j = 0; j < K_ && t > 0; ++j) next_[j] = prefix_[(t - 1) * K_ + j] + score(t, j, k);
        prefix_[t * K_ + k] = u[t * stride_ + k] + (t > 0 ? log_sum(next_.data(), K_) : 0);
      }
    for (int t = T_ - 1; t > 0; --t)
      for (int j = 0; j < K_; ++j) {
        for (int k = 0; k < K_; ++k) next_[k] = score(t, j, k) + u[t * stride_ + k] + suffix_[t * K_ + k];
        suffix_[(t - 1) * K_ + j] = log_sum(next_.data(), K_);
      }
    const double all = log_sum(prefix_.data() + (T_ - 1) * K_, K_);
    if (!m) return all;
    std::fill(m, m + static_cast<size_t>(T_) * stride_, Real(0));
    std::fill(E, E + table, Real(0));
    if (all == never) return never;
    for (int t = 0; t < T_; ++t) {
      Real* own = E + t * step_;
      if (step_) std::fill(own, own + table, Real(0));
      for (int k = 0; k < K_; ++k) {
        const double after = suffix_[t * K_ + k] - all;
        m[t * stride_ + k] = static_cast<Real>(std::exp(prefix_[t * K_ + k] + after));
        for (int j = 0; j < K_ && t > 0; ++j)
          own[j * stride_ + k] += static_cast<Real>(
              std::exp(prefix_[(t - 1) * K_ + j] + score(t, j, k) + u[t * stride_ + k] + after));
      }
    }
    return all;
  }
};

}  // namespace mm
