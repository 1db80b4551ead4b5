// Batch dual coordinate ascent over constraints that can all be written down (dual coordinate paper,
// Algorithm 1): one epoch over the blocks in a fresh random order.
//
//   a_i(y) >= 0,  sum_y a_i(y) = mass_i,  w = - sum a psi     the true output (psi = 0, Delta = 0) has the rest
//   s(y) = Delta_i(y) + <w, psi_i(y)>,  u = argmax s,  g = s(u) - sum_y a(y) s(y) / mass   the share of the gap
//
// The paper's update of one variable (12) is a pair step between an output and the true one; its update of two
// (15), with the misprints mended, is the same step between two others:
//   step = min(a(v), (s(u) - s(v)) / |psi(u) - psi(v)|^2)     moves multiplier from v to u
// A visit solves its block: pair steps for groups of constraints, a projection for classes (block_step.hpp).
//
// Shrinking: a block with all its mass at the best output, and no other output within `bound` of it, is put
// aside; `bound` is the largest violation of the last epoch. Nobody may trust a certificate that left blocks
// out: `reopen` brings all of them back, and the training loop makes an exact pass before it stops.
//
// Rounds: the same visits around a moving centre, the accelerated proximal ascent of solvers/proximal.py. A round is an
// epoch over the blocks that are due and a few sweeps over those of them that were not satisfied; one that was, rests.
//   P(w) - D(a) = sum_i mass_i g_i + k^2 / 2 |w - z|^2        ascent and lag
// Where a small gap is asked for, rounds that come near to it end with a climb of the face (face.hpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "models/concept.hpp"
#include "runtime/interrupt.hpp"
#include "simd.hpp"
#include "solvers/block_step.hpp"
#include "solvers/coordinate.hpp"
#include "solvers/face.hpp"
#include "solvers/weights.hpp"

namespace mm {

// k from round to round, as in solvers/proximal.py: lower where the centre is too far from w, or nothing falls.
struct Balance {
  double k = 0;  // of the next round
  double best = std::numeric_limits<double>::infinity();
  int stalled = 0;

  void after(double ascent, double lag, double decay) {
    if (k == 0) return;
    ++stalled;
    if (ascent + lag < 0.9 * best) best = ascent + lag, stalled = 0;
    if (lag > 0.5 * ascent)
      k /= decay;
    else if (stalled >= 10)
      k /= 2, stalled = 0;
  }
};

// Rounds between two climbs: twice as many, and one more, after a climb that has not halved the gap.
struct Pace {
  double before = 0;  // the gap at the last climb; 0 once it was looked at
  int pause = 0, wait = 0;

  bool due(double gap) {
    if (before > 0) wait = pause = gap > before / 2 ? std::min(2 * pause + 1, 15) : 0;
    before = 0;
    return wait-- <= 0;
  }
  void made(double gap) { before = gap; }
};

template <Structure S>
class CoordinateOf final : public Coordinate {
 public:
  using Real = typename S::Real;
  using Label = typename S::Label;

  // `data`: what the structure reads, where nobody else holds it
  CoordinateOf(std::unique_ptr<S> structure, std::vector<double> block_mass,
               std::shared_ptr<const void> data = nullptr)
      : data_(std::move(data)),
        own_(std::move(structure)),
        structure_(*own_),
        mass_(std::move(block_mass)),
        w_(structure_.weights(), structure_.coefficients()),
        step_(structure_),
        face_(structure_) {
    first_.push_back(0);
    for (size_t i = 0; i < mass_.size(); ++i) {
      first_.push_back(first_.back() + step_.outputs(i));
      if (mass_[i] > 0) order_.push_back(static_cast<int64_t>(i));
    }
    aside_.reserve(order_.size());
    active_ = order_.size();
    multipliers_.resize(first_.back());
    clear();
  }

  int64_t dimension() const override { return structure_.dimension(); }
  int64_t planes() const override { return static_cast<int64_t>(multipliers_.size()); }
  void reopen() override {
    active_ = order_.size(), bound_ = std::numeric_limits<double>::infinity();
    std::fill(rest_.begin(), rest_.end(), 0);
  }

  EpochReport epoch(uint64_t seed, bool shrinking, double tolerance) override {
    EpochReport report;
    shuffle(order_.data(), active_, seed);
    aside_.clear();
    size_t kept = 0, k = 0;
    double largest = 0;
    const auto close = [&] {  // what was not visited stays
      while (k < active_) order_[kept++] = order_[k++];
      std::copy(aside_.begin(), aside_.end(), order_.begin() + static_cast<int64_t>(kept));
      active_ = kept;
    };
    for (; k < active_; ++k) {
      try {
        poll();
      } catch (...) {
        close();
        throw;
      }
      const int64_t i = order_[k];
      if (k + 1 < active_) step_.prefetch(order_[k + 1], multipliers_.data() + first_[order_[k + 1]]);
      double* a = multipliers_.data() + first_[i];
      const Look seen = step_.look(i, w_.W.data(), a, mass_[i]);
      report.violation += mass_[i] * seen.violation;
      if (seen.spread > largest) largest = seen.spread;
      if (shrinking && seen.lead > bound_) {
        aside_.push_back(i);
        continue;
      }
      order_[kept++] = i;
      if (seen.violation > tolerance) ++report.updates, step_.move(i, w_.W.data(), a, mass_[i], w_.shrink());
    }
    report.visits = static_cast<int64_t>(active_);
    report.active = static_cast<int64_t>(kept);
    close();
    bound_ = largest > 0 ? largest : std::numeric_limits<double>::infinity();
    return report;
  }

  void set_proximity(double k) override {
    if (k > 0) w_.recenter(0, k);
    balance_ = {k};
    rest_.assign(mass_.size(), 0);
    last_.assign(mass_.size(), 0);
  }
  double proximity() const override { return w_.proximity; }

  RoundReport rounds(const RoundOptions& options) override {
    RoundReport report;
    uint64_t seed = options.seed;
    do {
      if (balance_.k > 0) w_.recenter(report.rounds + rounds_ > 0 ? options.momentum : 0, balance_.k);
      round(options, seed, report);
      report.ascent = 0;
      for (const double share : last_) report.ascent += share;
      report.lag = 0.5 * w_.proximity * w_.proximity * w_.squared_distance();
      balance_.after(report.ascent, report.lag, options.decay);
      ++report.rounds;
      const double gap = report.ascent + report.lag;
      if (gap <= options.enough) break;
      if (pace_.due(gap) && gap < options.climb_below && climb(options.enough)) pace_.made(gap);
    } while (report.rounds < options.rounds);
    rounds_ += report.rounds;
    return report;
  }

  [[gnu::cold]] std::pair<double, double> probe(const int64_t* blocks, int64_t n) override {
    auto s = structure_.scratch();
    double square = 0, loss = 0;
    for (int64_t k = 0; k < n; ++k) {
      Label u, y;
      structure_.truth(blocks[k], &y);
      structure_.open(blocks[k], w_.W.data(), s, true, 1);
      structure_.best(s, w_.W.data(), &u);
      structure_.build_pair(s, blocks[k], &u, &y);
      square += structure_.squared_norm(s);
      loss += structure_.loss(blocks[k], &u);
    }
    return {square / static_cast<double>(n), loss / static_cast<double>(n)};
  }

  // D(a) by the running w: the lower bound.
  double dual() const override {
    double offset = 0;
    each_support([&](int64_t i, Label y, double a) { offset += a * structure_.loss(i, &y); });
    return offset + w_.negative_conjugate();
  }

  void weights(bool exact, double* flat) const override {
    if (!exact) return structure_.unpack(w_.W.data(), flat);
    std::vector<double> w;
    law(w);
    structure_.unpack(w.data(), flat);
  }
  SupportArrays support() const override {
    SupportList<Label> found;
    each_support([&](int64_t i, Label y, double a) { found.add(i, a, &y, 1); });
    return found;
  }
  void restore(const int64_t* blocks, const double* c, const int32_t* numbers, int64_t n) override {
    std::fill(multipliers_.begin(), multipliers_.end(), 0.0);
    for (int64_t p = 0; p < n; ++p) {
      const int64_t i = blocks[p];
      if (i < 0 || i >= static_cast<int64_t>(mass_.size()) || numbers[p] < 0 || numbers[p] >= outputs(i))
        throw std::invalid_argument("the kept outputs do not fit the examples");
      multipliers_[first_[i] + numbers[p]] += c[p];
    }
    refresh();
    reopen();
  }
  void refresh() override {
    std::vector<double> w;
    law(w);
    w_.write(w);
  }

 private:
  std::shared_ptr<const void> data_;
  std::unique_ptr<S> own_;
  const S& structure_;
  std::vector<double> mass_;
  std::vector<double> multipliers_;  // a_i(y) of all outputs of all blocks
  Weights<Real> w_;
  BlockStep<S> step_;
  Face<S> face_;
  std::vector<int64_t> first_, order_, aside_;
  static constexpr size_t ahead_ = 4;  // visits
  size_t active_ = 0;                  // order_[0 : active_] are visited, the rest is shrunk
  double bound_ = std::numeric_limits<double>::infinity();
  // Of rounds: how many a block may still miss, its share of the gap as its last visit saw it.
  std::vector<int32_t> rest_;
  std::vector<double> last_;
  std::vector<int64_t> due_, todo_;
  int64_t rounds_ = 0;
  Balance balance_;
  int64_t swept_ = 0, climbed_ = 0;  // visits so far
  Pace pace_;

  int outputs(int64_t block) const { return static_cast<int>(first_[block + 1] - first_[block]); }

  // All multipliers at the true outputs: w = 0.
  void clear() {
    std::fill(multipliers_.begin(), multipliers_.end(), 0.0);
    for (size_t i = 0; i < mass_.size(); ++i) {
      Label y;
      structure_.truth(i, &y);
      multipliers_[first_[i] + y] = mass_[i];
    }
  }

  // Calls f(block, output, multiplier) for each positive multiplier.
  template <class F>
  void each_support(F&& f) const {
    for (size_t i = 0; i < mass_.size(); ++i)
      for (int y = 0; y < outputs(i); ++y)
        if (multipliers_[first_[i] + y] > 0) f(static_cast<int64_t>(i), y, multipliers_[first_[i] + y]);
  }

  // w from the multipliers alone, in double precision; under a proximal term with its centre.
  void law(std::vector<double>& w) const {
    w.assign(structure_.weights(), 0);
    auto s = structure_.scratch();
    each_support([&](int64_t i, Label u, double a) {
      Label y;
      structure_.truth(i, &y);
      if (u == y) return;
      structure_.build_pair(s, i, &u, &y);
      structure_.apply(s, w.data(), -a);
    });
    w_.apply_law(w);
  }

  void round(const RoundOptions& options, uint64_t& seed, RoundReport& report) {
    due_.clear();
    for (const int64_t i : order_)
      if (rest_[i] == 0)
        due_.push_back(i);
      else
        --rest_[i];
    const double seen = sweep(due_, options, seed);
    report.visits += static_cast<int64_t>(due_.size());
    for (const int64_t i : due_)
      if (last_[i] <= options.tolerance * mass_[i]) rest_[i] = options.skip;
    for (int n = 0; n < options.sweeps && !todo_.empty(); ++n) {
      due_.swap(todo_);
      if (sweep(due_, options, seed) <= options.inner * seen) break;
    }
  }

  // To the optimum of the face, with half as many visits as sweeps have made; false where these are too few.
  bool climb(double enough) {
    face_.clear();
    for (const int64_t i : order_) face_.add(i, multipliers_.data() + first_[i], outputs(i));
    const int64_t budget = swept_ / 2 - climbed_;
    if (budget < 5 * face_.blocks()) return false;
    const auto keep = [&] {
      face_.each([&](int64_t i, Label y, double a) { multipliers_[first_[i] + y] = a; });
      std::fill(rest_.begin(), rest_.end(), 0);
    };
    try {
      climbed_ += face_.climb(w_.W, w_.shrink(), budget, 0.1 * enough);
    } catch (...) {
      keep();
      throw;
    }
    keep();
    return true;
  }

  // Visits some blocks in a fresh order; those that were not satisfied are `todo_` then. Returns their shares of the gap.
  double sweep(std::vector<int64_t>& blocks, const RoundOptions& options, uint64_t& seed) {
    seed = shuffle(blocks.data(), blocks.size(), seed);
    swept_ += static_cast<int64_t>(blocks.size());
    todo_.clear();
    const double shrink = w_.shrink();
    Real* W = w_.W.data();
    double sum = 0;
    for (size_t k = 0; k < blocks.size(); ++k) {
      if (k % 8 == 0) poll();  // visits are short
      if (k + ahead_ < blocks.size()) {
        const int64_t next = blocks[k + ahead_];
        step_.prefetch(next, multipliers_.data() + first_[next]);
      }
      const int64_t i = blocks[k];
      double* a = multipliers_.data() + first_[i];
      const Look seen = step_.look(i, W, a, mass_[i]);
      last_[i] = mass_[i] * seen.violation;
      sum += last_[i];
      if (seen.violation <= options.tolerance) continue;
      todo_.push_back(i);
      step_.move(i, W, a, mass_[i], shrink);
    }
    return sum;
  }

  // Fisher and Yates, with the numbers of SplitMix64; returns the seed of the next.
  static uint64_t shuffle(int64_t* order, size_t n, uint64_t seed) {
    for (size_t k = n; k > 1; --k) {
      seed += 0x9e3779b97f4a7c15u;
      uint64_t z = seed;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
      z ^= z >> 31;
      std::swap(order[k - 1], order[((z >> 32) * k) >> 32]);
    }
    return seed;
  }
};

}  // namespace mm
