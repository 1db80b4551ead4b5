// Exponentiated block dual ascent for the log loss. Each block has a distribution over outputs, stored as potentials.
//
//   D(a) = sum_i mass_i (H(a_i) + E Delta) - R*(q),   q = m + sum_i mass_i (Psi(y_i) - E_{a_i} Psi),   a_i = p(theta_i)
//
// A visit moves theta towards the scores s of its block at w. The distribution of s would be optimal for the block if
// w did not move. The visit keeps the move if the dual rises:
//
//   1. theta' = (1 - eta) theta + eta s                                          m' = E_{theta'} phi, and its entropy
//   2. w += mass h (m - m') by features,  h = 1 / (1 + k)                        this also computes the change of |w|^2
//   3. gain = mass (H' + E' Delta - H - E Delta) - (change of |w|^2) (1 + k) / 2
//      negative: undo, halve eta, try again; otherwise keep the move, and set eta to the step that was best here
//
// If one row of scores gives the change of |w|^2 (OneRow), w is changed only when a step is kept.
//
// A block's share of the gap is KL(a_i || p_w) = f(1) - f(0) - f'(0) with f(x) = log Z(theta + x (s - theta)); f(1) is
// extrapolated from x = eta, where f, f' and a mean of f'' are known. The extrapolation is exact for eta = 1.
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
#include "runtime/pages.hpp"
#include "runtime/threads.hpp"
#include "simd.hpp"
#include "solvers/priored_weights.hpp"
#include "solvers/side_by_side.hpp"

namespace mm {

// Treats numbers below the normal range as zero while it lives, which is faster.
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
  double gain = 0;             // increase of the dual, with the proximal term
  int64_t halved = 0;          // number of steps that were undone
  int64_t visited = 0;         // number of distributions that were computed
};

// The state behind virtual calls, as Python uses it.
class SoftAscent {
 public:
  virtual ~SoftAscent() = default;
  virtual int64_t blocks() const = 0;
  virtual int64_t dimension() const = 0;
  virtual int64_t potentials() const = 0;  // number of potentials of all blocks, without padding
  virtual SoftReport visit(const int64_t* order, int64_t n) = 0;
  virtual void weights(double* flat) const = 0;
  virtual void set_origin(const double* flat) = 0;
  virtual void rebuild() = 0;  // computes w from the distributions, to remove the rounding of updates
  virtual void read(const float* theta) = 0;  // sets the potentials of all blocks; w is not changed
  virtual void write(float* theta) const = 0;
  virtual double dual() const = 0;  // D with q computed from the running w
  virtual double squared_distance() const = 0;
  virtual double proximity() const = 0;
  virtual void recenter(double momentum, double k) = 0;
  virtual void set_center(const double* flat, double k) = 0;  // sets the proximal term; w is not changed
};

template <class S>
  requires SumsAll<S>
class SoftAscentOf final : public SoftAscent {
 public:
  using Real = typename S::Real;

  SoftAscentOf(const typename S::Data& data, std::vector<double> mass, bool augmented, double height,
               int threads)
      : structure_(data), augmented_(augmented), threads_(threads), w_(structure_) {
    reserve_in_large_pages(kept_, mass.size());
    kept_.resize(mass.size());
    first_.push_back(0);
    size_t longest = 0, size = 0;
    for (int64_t i = 0; i < blocks(); ++i) {
      const size_t own = static_cast<size_t>(structure_.potentials(i)) * structure_.row_stride();
      if (size += own; !OneRow<S>) first_.push_back(size);
      longest = std::max(longest, own);
    }
    reserve_in_large_pages(numbers_, 2 * size);
    numbers_.resize(2 * size);
    score_.resize(longest), next_.resize(longest), found_.resize(longest), change_.resize(longest);
    w_.threads = threads;
    over_blocks([&](int64_t i, typename S::Scratch& s, Real*, int) {
      kept_[i].mass = mass[i];
      if constexpr (OneRow<S>) kept_[i].square = static_cast<float>(structure_.part_square(i));
      start(i, static_cast<Real>(height));
      settle(s, i);
    });
  }

  int64_t blocks() const override { return structure_.blocks(); }
  int64_t dimension() const override { return structure_.dimension(); }
  int64_t potentials() const override {
    return static_cast<int64_t>(numbers_.size()) / 2 / structure_.row_stride() * structure_.row_labels();
  }
  double squared_distance() const override { return w_.squared_distance(); }
  double proximity() const override { return w_.proximity; }
  void recenter(double momentum, double k) override { w_.recenter(momentum, k); }
  void set_center(const double* flat, double k) override { w_.take_center(flat, k); }
  void weights(double* flat) const override { structure_.unpack(w_.W.data(), flat); }
  void set_origin(const double* flat) override { w_.take_origin(flat); }
  void rebuild() override {
    std::vector<aligned<Real>> sums(parts_with_sums(threads_, potentials(), w_.W.size()));
    parallel_parts(blocks(), static_cast<int>(sums.size()),
                   over([&](int64_t i, typename S::Scratch& s, Real* change, int part) {
                     if (kept_[i].mass == 0) return;
                     aligned<Real>& own = sums[part];
                     if (own.empty()) own.resize(w_.W.size());
                     std::copy_n(marginals(i), size(i), change);
                     structure_.subtract_truth(i, change);
                     structure_.add_expected(s, i, change, own.data(), -kept_[i].mass);
                   }));
    std::vector<double> q(w_.W.size(), 0);
    for (const aligned<Real>& own : sums)
      for (size_t j = 0; j < own.size(); ++j) q[j] += own[j];
    w_.follow(q);
  }
  double dual() const override {
    double sum = 0;
    for (int64_t i = 0; i < blocks(); ++i) sum += kept_[i].mass * kept_[i].offset;
    return sum + w_.negative_conjugate();
  }

  void read(const float* given) override {
    const int labels = structure_.row_labels(), stride = structure_.row_stride();
    over_blocks([&](int64_t i, typename S::Scratch& s, Real*, int) {
      const float* from = given + first(i) / stride * labels;
      for (size_t r = 0; r < size(i); r += stride, from += labels)
        std::copy(from, from + labels, theta(i) + r);
      settle(s, i);
    });
  }
  void write(float* out) const override {
    const int labels = structure_.row_labels(), stride = structure_.row_stride();
    for (int64_t i = 0; i < blocks(); ++i)
      for (size_t r = 0; r < size(i); r += stride, out += labels)
        for (int k = 0; k < labels; ++k) out[k] = static_cast<float>(numbers_[2 * first(i) + r + k]);
  }

  SoftReport visit(const int64_t* order, int64_t n) override {
    const NoDenormals fast;  // tiny probabilities become zero
    SoftReport report;
    report.shares.resize(n);
    auto s = structure_.scratch();
    for (int64_t at = 0; at < n; ++at) {
      poll();
      if (at + far < n) fetch_views(order[at + far]);
      if (at + near < n) fetch(order[at + near]);
      report.shares[at] = visit_block(s, order[at], report);
    }
    return report;
  }

 private:
  static constexpr bool single = sizeof(Real) == sizeof(float);
  // Limits of eta: rounding alone never lowers eta below `least`; long features may lower it to `shortest`, because a
  // longer step would lower the dual. `caution` is a factor on the best eta.
  static constexpr float least = 0.02f, shortest = 1e-6f, caution = 0.85f;
  // The relative error of the numbers whose difference is a gain. A step that lowers the dual by less counts as a rise.
  static constexpr double noise = single ? 2e-6 : 1e-13;

  static constexpr int near = OneRow<S> ? 2 : 1, far = 2 * near;  // prefetch memory this many visits ahead

  // The data of a block besides its potentials and marginals. They are stored together, since blocks come in any order.
  struct Kept {
    double mass = 0, offset = 0, log_sum = 0;  // offset: H + E Delta
    float square = 0;                          // OneRow: the square of a part
    float eta = 0.5f;
  };

  S structure_;
  bool augmented_;
  int threads_;  // for work on each block by itself; one thread makes the visits
  PrioredWeights<S> w_;
  std::vector<size_t> first_;  // the offset of each block's potentials; not needed for one row
  aligned<Real> numbers_;      // for each block its potentials, then its marginals
  aligned<Kept> kept_;
  aligned<Real> score_, next_, found_, change_;  // s - theta, theta', m', m - m'

  size_t first(int64_t i) const {
    if constexpr (OneRow<S>) return static_cast<size_t>(i) * structure_.row_stride();
    return first_[i];
  }
  size_t size(int64_t i) const { return first(i + 1) - first(i); }
  Real* theta(int64_t i) { return numbers_.data() + 2 * first(i); }
  Real* marginals(int64_t i) { return theta(i) + size(i); }

  // Returns a function for `parallel`, which calls f(block, scratch, memory for the numbers of a block, part) for each
  // block of a part.
  template <class F>
  auto over(F f) {
    return [this, f](int64_t from, int64_t to, int part) {
      auto s = structure_.scratch();
      aligned<Real> space(change_.size());
      for (int64_t i = from; i < to; ++i) {
        poll();
        f(i, s, space.data(), part);
      }
    };
  }
  template <class F>
  void over_blocks(F f) {
    parallel(blocks(), threads_, over(f));
  }

  // <a, b> and <b, b>
  static TwoSums products(const Real* a, const Real* b, size_t n) {
    return sums_over<Real>(n, [&]<class V>(size_t k, V* sums) {
      const V y = take<V>(b + k);
      sums[0] += take<V>(a + k) * y, sums[1] += y * y;
    });
  }
  // score = s - theta and next = theta + eta (s - theta); returns <s - theta, m> and <theta, m>
  TwoSums aim(const Real* own, const Real* m, Real eta, size_t n) {
    return sums_over<Real>(n, [&]<class V>(size_t k, V* sums) {
      const V at = take<V>(own + k), mean = take<V>(m + k);
      const V to = take<V>(score_.data() + k) + spread<V>(Real(-1)) * at;
      put<V>(score_.data() + k, to), put<V>(next_.data() + k, at + spread<V>(eta) * to);
      sums[0] += to * mean, sums[1] += at * mean;
    });
  }
  // change = m - m'; returns <s - theta, m'> and <theta, m'>
  TwoSums compare(const Real* own, const Real* m, size_t n) {
    return sums_over<Real>(n, [&]<class V>(size_t k, V* sums) {
      const V mean = take<V>(found_.data() + k);
      put<V>(change_.data() + k, take<V>(m + k) + spread<V>(Real(-1)) * mean);
      sums[0] += take<V>(score_.data() + k) * mean, sums[1] += take<V>(own + k) * mean;
    });
  }

  size_t nodes(int64_t i) const {
    return static_cast<size_t>(structure_.output_size(i)) * structure_.row_stride();
  }
  // Sets potentials of this height on the true labels of nodes, whose rows come first.
  void start(int64_t i, Real height) {
    Real* own = theta(i);
    structure_.subtract_truth(i, own);
    for (size_t k = 0; k < size(i); ++k) own[k] = k < nodes(i) ? -height * own[k] : Real(0);
  }
  // Prefetches a block: the first lines of each page. The hardware prefetches the rest.
  void fetch_views(int64_t i) const {
    fetch_ahead(&kept_[i]);
    if constexpr (OneRow<S>) structure_.prefetch_view(i);
  }
  void fetch(int64_t i) const {
    if constexpr (OneRow<S>) structure_.prefetch(i);
    constexpr size_t page = 4096 / sizeof(Real), line = 64 / sizeof(Real);
    const size_t end = 2 * first(i + 1);
    for (size_t k = 2 * first(i); k < end; k += page)
      for (size_t n = k; n < std::min(end, k + 4 * line); n += line) fetch_ahead(numbers_.data() + n);
  }
  // Computes marginals and entropy from the potentials of a block.
  void settle(typename S::Scratch& s, int64_t i) {
    Kept& own = kept_[i];
    own.log_sum = structure_.distribute(s, i, theta(i), marginals(i));
    own.offset = with_loss(i, own.log_sum - products(theta(i), marginals(i), size(i)).first, marginals(i));
  }
  double with_loss(int64_t i, double entropy, const Real* m) const {
    return augmented_ ? entropy + structure_.expected_loss(i, m) : entropy;
  }

  // Visits a block, and returns its share of the gap.
  double visit_block(typename S::Scratch& s, int64_t i, SoftReport& report) {
    Kept& kept = kept_[i];
    if (kept.mass == 0) return 0;
    Real *own = theta(i), *m = marginals(i), *W = w_.W.data();
    const size_t n = size(i);
    structure_.open(i, W, s, augmented_, 1);
    structure_.list_potentials(s, W, score_.data());
    const TwoSums before = aim(own, m, kept.eta, n);
    const double slope = before.first;  // f'(0)
    for (;;) {
      const double log_sum = structure_.distribute(s, i, next_.data(), found_.data());
      ++report.visited;
      const TwoSums after = compare(own, m, n);
      const double there = after.first;  // f'(eta)
      double best = kept.eta / 2;
      if (std::isfinite(log_sum)) {
        const double entropy = log_sum - after.second - kept.eta * there;
        const double offset = with_loss(i, entropy, found_.data());
        const Move move = try_move(s, i, slope - there + before.second - after.second);
        const double gain = kept.mass * (offset - kept.offset) - 0.5 * (1 + w_.proximity) * move.square;
        const bool rises = gain >= -noise * kept.mass * (1 + std::abs(log_sum));
        end_move(s, i, rises);
        best = best_step(kept, there - slope, move.bend);
        if (rises) {
          report.gain += gain;
          const double seen = share(kept, slope, there, log_sum);
          keep(i, offset, log_sum);
          kept.eta = static_cast<float>(best);
          return seen;
        }
      }
      ++report.halved;
      const float measured = static_cast<float>(best), floor = std::max(shortest, std::min(least, measured));
      if (kept.eta <= floor) return share(kept, slope, there, log_sum);  // the gain is below rounding
      kept.eta = std::max(floor, std::min(kept.eta / 2, measured));
      for (size_t k = 0; k < n; ++k) next_[k] = own[k] + kept.eta * score_[k];
    }
  }

  // A step along m - m': the change of |w|^2, and the part of the change that is quadratic in the step.
  struct Move {
    double square, bend;
  };
  double step_of(int64_t i) const { return kept_[i].mass * w_.shrink(); }
  // Computes the move, and unless OneRow also applies it to w. `scores`: <s, m - m'>.
  Move try_move(typename S::Scratch& s, int64_t i, double scores) {
    const double step = step_of(i);
    if (augmented_) scores -= structure_.expected_loss(i, change_.data());
    if constexpr (OneRow<S>) {
      const double bend =
          step * step * kept_[i].square * products(change_.data(), change_.data(), size(i)).second;
      return {2 * step * scores + bend, bend};
    } else {
      const double square = structure_.add_expected(s, i, change_.data(), w_.W.data(), step);
      return {square, std::max(0.0, square - 2 * step * scores)};
    }
  }
  void end_move(typename S::Scratch& s, int64_t i, bool kept) {
    if (kept == OneRow<S>)
      structure_.add_expected(s, i, change_.data(), w_.W.data(), kept ? step_of(i) : -step_of(i));
  }
  // Near theta the gain of a step x is mass (c (x - x^2 / 2) - q x^2 / 2), with c = f'' and q = (1 + k) |dw / dx|^2 /
  // mass: the best x is c / (c + q). A slightly shorter step takes fewer passes, because other blocks move in the
  // same direction.
  double best_step(const Kept& kept, double turned, double bend) const {
    const double c = turned / kept.eta, q = (1 + w_.proximity) * bend / (kept.mass * kept.eta * kept.eta);
    if (!(c > noise * (1 + std::abs(kept.log_sum)))) return kept.eta;  // rounding
    return std::max<double>(shortest, caution * c / (c + q));
  }

  // KL(a || p_w), estimated from the values at eta.
  static double share(const Kept& kept, double slope, double there, double log_sum) {
    const double rest = 1 - kept.eta, curvature = std::max(0.0, (there - slope) / kept.eta);
    const double top = log_sum + rest * there + 0.5 * rest * rest * curvature;
    return std::max(0.0, top - kept.log_sum - slope);
  }

  void keep(int64_t i, double offset, double log_sum) {
    std::copy_n(next_.data(), size(i), theta(i));
    std::copy_n(found_.data(), size(i), marginals(i));
    Kept& kept = kept_[i];
    kept.offset = offset, kept.log_sum = log_sum;
  }
};

}  // namespace mm
