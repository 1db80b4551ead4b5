// Block dual ascent for the log loss, exponentiated: a distribution over outputs for each block, kept by its potentials.
//
//   D(a) = sum_i mass_i (H(a_i) + E Delta) - R*(q),   q = m + sum_i mass_i (Psi(y_i) - E_{a_i} Psi),   a_i = p(theta_i)
//
// A visit moves theta towards the scores s of its block at w, whose distribution is what the block would have if w stood
// still, and keeps the move if the dual rises:
//
//   1. theta' = (1 - eta) theta + eta s                                          m' = E_{theta'} phi, and its entropy
//   2. w += mass h (m - m') by features,  h = 1 / (1 + k)                        the change of |w|^2 is counted on the way
//   3. gain = mass (H' + E' Delta - H - E Delta) - (change of |w|^2) (1 + k) / 2
//      negative: undo, halve eta, again; else keep, eta = min(1, growth eta)
//
// A block's share of the gap is KL(a_i || p_w) = f(1) - f(0) - f'(0) with f(x) = log Z(theta + x (s - theta)); f(1) is
// extrapolated from x = eta, where f, f' and a mean of f'' are known: exact for eta = 1.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "models/concept.hpp"
#include "portable.hpp"
#include "runtime/interrupt.hpp"
#include "simd.hpp"
#include "solvers/weights.hpp"

namespace mm {

// While it lives, numbers below the normal range are taken for zero, which is faster.
class NoDenormals {
 public:
#if MM_VECTORS && defined(__SSE2__)
  NoDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040); }
  ~NoDenormals() { _mm_setcsr(before_); }
  NoDenormals(const NoDenormals&) = delete;

 private:
  unsigned before_;
#endif
};

struct SoftReport {
  std::vector<double> shares;  // KL(a_i || p_w) of each visited block, as seen while w moved
  double gain = 0;             // of the dual, with the proximal term
  int64_t halved = 0;          // steps that were taken back
  int64_t visited = 0;         // distributions that were computed
};

// The state behind virtual calls: what Python sees.
class SoftAscent {
 public:
  virtual ~SoftAscent() = default;
  virtual int64_t blocks() const = 0;
  virtual int64_t dimension() const = 0;
  virtual int64_t potentials() const = 0;  // of all blocks, without padding
  virtual SoftReport visit(const int64_t* order, int64_t n) = 0;
  // Potentials of these heights more on the true labels of nodes; w is not changed.
  virtual void lift(const double* heights) = 0;
  virtual void weights(double* flat) const = 0;
  virtual void set_origin(const double* flat) = 0;
  virtual void rebuild() = 0;  // w from the distributions, without the rounding of many updates
  virtual void read(const float* theta) = 0;  // potentials of all blocks; w is not changed
  virtual void write(float* theta) const = 0;
  virtual double dual() const = 0;  // D with q read off the running w
  virtual double squared_distance() const = 0;
  virtual double proximity() const = 0;
  virtual void recenter(double momentum, double k) = 0;
};

template <class S>
  requires SumsAll<S>
class SoftAscentOf final : public SoftAscent {
 public:
  using Real = typename S::Real;

  SoftAscentOf(const typename S::Data& data, std::vector<double> mass, bool augmented, double height)
      : structure_(data), mass_(std::move(mass)), augmented_(augmented), w_(structure_.weights(), 0) {
    first_.push_back(0);
    size_t longest = 0;
    for (int64_t i = 0; i < blocks(); ++i) {
      const size_t size = static_cast<size_t>(structure_.potentials(i)) * structure_.row_stride();
      first_.push_back(first_.back() + size);
      longest = std::max(longest, size);
    }
    theta_.resize(first_.back()), m_.resize(first_.back());
    offset_.resize(blocks()), log_sum_.resize(blocks()), eta_.assign(blocks(), 0.5f);
    score_.resize(longest), next_.resize(longest), found_.resize(longest), change_.resize(longest);
    auto s = structure_.scratch();
    for (int64_t i = 0; i < blocks(); ++i) {
      start(i, static_cast<Real>(height));
      settle(s, i);
    }
  }

  int64_t blocks() const override { return structure_.blocks(); }
  int64_t dimension() const override { return structure_.dimension(); }
  int64_t potentials() const override {
    return static_cast<int64_t>(first_.back()) / structure_.row_stride() * structure_.row_labels();
  }
  double squared_distance() const override { return w_.squared_distance(); }
  double proximity() const override { return w_.proximity; }
  void recenter(double momentum, double k) override { w_.recenter(momentum, k); }
  void weights(double* flat) const override { structure_.unpack(w_.W.data(), flat); }
  void set_origin(const double* flat) override {
    std::vector<double> origin(w_.W.size(), 0);
    structure_.pack(flat, origin.data());
    double square = 0;
    for (const double x : origin) square += x * x;
    w_.set_origin(std::move(origin), square);
  }
  void rebuild() override {
    aligned<Real> sum(w_.W.size());
    auto s = structure_.scratch();
    for (int64_t i = 0; i < blocks(); ++i) {
      if (mass_[i] == 0) continue;
      std::copy_n(marginals(i), size(i), change_.data());
      structure_.subtract_truth(i, change_.data());
      structure_.add_expected(s, i, change_.data(), sum.data(), -mass_[i]);
    }
    std::vector<double> q(sum.begin(), sum.end());
    for (size_t j = 0; j < w_.origin.size(); ++j) q[j] += w_.origin[j];
    w_.apply_law(q);
    w_.write(q);
  }
  double dual() const override {
    double sum = 0;
    for (int64_t i = 0; i < blocks(); ++i) sum += mass_[i] * offset_[i];
    return sum + w_.negative_conjugate();
  }

  void read(const float* given) override {
    const int labels = structure_.row_labels(), stride = structure_.row_stride();
    for (size_t r = 0; r < theta_.size(); r += stride, given += labels)
      std::copy(given, given + labels, theta_.begin() + r);
    auto s = structure_.scratch();
    for (int64_t i = 0; i < blocks(); ++i) settle(s, i);
  }
  void write(float* out) const override {
    const int labels = structure_.row_labels(), stride = structure_.row_stride();
    for (size_t r = 0; r < theta_.size(); r += stride, out += labels)
      for (int k = 0; k < labels; ++k) out[k] = static_cast<float>(theta_[r + k]);
  }

  void lift(const double* heights) override {
    auto s = structure_.scratch();
    for (int64_t i = 0; i < blocks(); ++i) {
      std::fill_n(change_.begin(), size(i), Real(0));
      structure_.subtract_truth(i, change_.data());
      for (size_t k = 0; k < nodes(i); ++k) theta(i)[k] -= static_cast<Real>(heights[i]) * change_[k];
      settle(s, i);
    }
  }

  SoftReport visit(const int64_t* order, int64_t n) override {
    const NoDenormals fast;  // tiny probabilities are zero
    SoftReport report;
    report.shares.resize(n);
    auto s = structure_.scratch();
    for (int64_t at = 0; at < n; ++at) {
      poll();
      if (at + 1 < n) fetch(order[at + 1]);
      report.shares[at] = visit_block(s, order[at], report);
    }
    return report;
  }

 private:
  static constexpr bool single = sizeof(Real) == sizeof(float);
  static constexpr float least = 0.02f, growth = 1.1f;    // of eta
  static constexpr double noise = single ? 2e-6 : 1e-13;  // of the numbers that a gain is the difference of

  const S structure_;
  std::vector<double> mass_;
  bool augmented_;
  Weights<Real> w_;
  std::vector<size_t> first_;
  aligned<Real> theta_, m_;
  std::vector<double> offset_, log_sum_;  // H + E Delta, and log Z
  std::vector<float> eta_;
  aligned<Real> score_, next_, found_, change_;  // s - theta, theta', m', m - m'

  Real* theta(int64_t i) { return theta_.data() + first_[i]; }
  Real* marginals(int64_t i) { return m_.data() + first_[i]; }
  size_t size(int64_t i) const { return first_[i + 1] - first_[i]; }

  // <a, b>, summed in double precision.
  static double dot(const Real* a, const Real* b, size_t n) {
    constexpr size_t lanes = Vector<Real>::lanes;
    WideSum<Real> sums;
    size_t k = 0;
    for (; k + lanes <= n; k += lanes) sums.add(load(a + k) * load(b + k));
    double sum = sums.total();
    for (; k < n; ++k) sum += static_cast<double>(a[k]) * static_cast<double>(b[k]);
    return sum;
  }

  size_t nodes(int64_t i) const {
    return static_cast<size_t>(structure_.output_size(i)) * structure_.row_stride();
  }
  // Potentials of this height on the true labels of nodes, whose rows are the first.
  void start(int64_t i, Real height) {
    Real* own = theta(i);
    structure_.subtract_truth(i, own);
    for (size_t k = 0; k < size(i); ++k) own[k] = k < nodes(i) ? -height * own[k] : Real(0);
  }
  // Asks for the memory of a block ahead: the first lines of each stretch, the rest follows by itself.
  void fetch(int64_t i) const {
    constexpr size_t page = 4096 / sizeof(Real), line = 64 / sizeof(Real);
    for (size_t k = first_[i]; k < first_[i + 1]; k += page)
      for (size_t n = 0; n < 4; ++n) {
        fetch_ahead(theta_.data() + k + n * line);
        fetch_ahead(m_.data() + k + n * line);
      }
  }
  // Marginals and entropy of the potentials of a block.
  void settle(typename S::Scratch& s, int64_t i) {
    log_sum_[i] = structure_.distribute(s, i, theta(i), marginals(i));
    offset_[i] = offset_of(i, theta(i), marginals(i), log_sum_[i]);
  }
  double offset_of(int64_t i, const Real* own, const Real* m, double log_sum) const {
    const double entropy = log_sum - dot(own, m, size(i));
    return augmented_ ? entropy + structure_.expected_loss(i, m) : entropy;
  }

  // Returns the share of the gap.
  double visit_block(typename S::Scratch& s, int64_t i, SoftReport& report) {
    if (mass_[i] == 0) return 0;
    Real *own = theta(i), *m = marginals(i), *W = w_.W.data();
    const size_t n = size(i);
    structure_.open(i, W, s, augmented_, 1);
    structure_.list_potentials(s, W, score_.data());
    for (size_t j = 0; j < n; ++j) score_[j] -= own[j];
    const double slope = dot(score_.data(), m, n);  // f'(0)
    const double k = w_.proximity, step = mass_[i] * w_.shrink();
    for (;;) {
      const Real eta = eta_[i];
      for (size_t j = 0; j < n; ++j) next_[j] = own[j] + eta * score_[j];
      const double log_sum = structure_.distribute(s, i, next_.data(), found_.data());
      ++report.visited;
      if (std::isfinite(log_sum)) {
        for (size_t j = 0; j < n; ++j) change_[j] = m[j] - found_[j];
        const double offset = offset_of(i, next_.data(), found_.data(), log_sum);
        const double square = structure_.add_expected(s, i, change_.data(), W, step);
        const double gain = mass_[i] * (offset - offset_[i]) - 0.5 * (1 + k) * square;
        if (gain >= -noise * mass_[i] * (1 + std::abs(log_sum))) {
          report.gain += gain;
          const double seen = share(i, slope, eta, log_sum);
          keep(i, offset, log_sum);
          return seen;
        }
        structure_.add_expected(s, i, change_.data(), W, -step);
      }
      ++report.halved;
      if (eta_[i] <= least) return share(i, slope, eta, log_sum);  // rounding hides what a step gains
      eta_[i] = std::max(least, eta_[i] / 2);
    }
  }

  // KL(a || p_w), from what is known at eta.
  double share(int64_t i, double slope, double eta, double log_sum) const {
    const double there = dot(score_.data(), found_.data(), size(i));
    const double rest = 1 - eta, curvature = std::max(0.0, (there - slope) / eta);
    const double top = log_sum + rest * there + 0.5 * rest * rest * curvature;
    return std::max(0.0, top - log_sum_[i] - slope);
  }

  void keep(int64_t i, double offset, double log_sum) {
    std::copy_n(next_.data(), size(i), theta(i));
    std::copy_n(found_.data(), size(i), marginals(i));
    offset_[i] = offset, log_sum_[i] = log_sum;
    eta_[i] = std::min(1.0f, growth * eta_[i]);
  }
};

}  // namespace mm
