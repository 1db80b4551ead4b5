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
#pragma once

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

namespace mm {

struct EpochReport {
  int64_t visits = 0, updates = 0, active = 0;
  double violation =
      0;  // sum_i mass_i g_i, each g_i at the w of its visit: the running upper bound less D(a)
};

// Weights are flat; an output is one label.
class Coordinate {
 public:
  virtual ~Coordinate() = default;
  virtual int64_t dimension() const = 0;
  virtual EpochReport epoch(uint64_t seed, bool shrinking, double tolerance) = 0;
  virtual void weights(bool exact, double* flat) const = 0;  // by the law, or as updates have left them
  virtual SupportArrays support() const = 0;
  virtual void restore(const int64_t* blocks, const double* multipliers, const int32_t* outputs,
                       int64_t n) = 0;
  virtual void reopen() = 0;   // sees all blocks again
  virtual void refresh() = 0;  // removes the rounding that the updates of w have gathered
  virtual double dual() const = 0;
  virtual int64_t planes() const = 0;
};

template <Structure S>
class CoordinateOf final : public Coordinate {
 public:
  using Real = typename S::Real;
  using Label = typename S::Label;

  CoordinateOf(std::unique_ptr<S> structure, std::vector<double> block_mass)
      : own_(std::move(structure)),
        structure_(*own_),
        mass_(std::move(block_mass)),
        W_(structure_.weights()),
        step_(structure_) {
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
  void reopen() override { active_ = order_.size(), bound_ = std::numeric_limits<double>::infinity(); }

  EpochReport epoch(uint64_t seed, bool shrinking, double tolerance) override {
    EpochReport report;
    shuffle(seed);
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
      const Look seen = step_.look(i, W_.data(), a, mass_[i]);
      report.violation += mass_[i] * seen.violation;
      if (seen.spread > largest) largest = seen.spread;
      if (shrinking && seen.lead > bound_) {
        aside_.push_back(i);
        continue;
      }
      order_[kept++] = i;
      if (seen.violation > tolerance) ++report.updates, step_.move(i, W_.data(), a, mass_[i]);
    }
    report.visits = static_cast<int64_t>(active_);
    report.active = static_cast<int64_t>(kept);
    close();
    bound_ = largest > 0 ? largest : std::numeric_limits<double>::infinity();
    return report;
  }

  // D(a) by the running w: the lower bound.
  double dual() const override {
    double square = 0, offset = 0;
    for (const Real w : W_) square += static_cast<double>(w) * w;
    each_support([&](int64_t i, Label y, double a) { offset += a * structure_.loss(i, &y); });
    return offset - square / 2;
  }

  void weights(bool exact, double* flat) const override {
    if (!exact) return structure_.unpack(W_.data(), flat);
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
    for (size_t j = 0; j < w.size(); ++j) W_[j] = static_cast<Real>(w[j]);
  }

 private:
  std::unique_ptr<S> own_;
  const S& structure_;
  std::vector<double> mass_;
  std::vector<double> multipliers_;  // a_i(y) of all outputs of all blocks
  aligned<Real> W_;
  BlockStep<S> step_;
  std::vector<int64_t> first_, order_, aside_;
  size_t active_ = 0;  // order_[0 : active_] are visited, the rest is shrunk
  double bound_ = std::numeric_limits<double>::infinity();

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

  // w from the multipliers alone, in double precision.
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
  }

  // Fisher and Yates, with the numbers of SplitMix64.
  void shuffle(uint64_t seed) {
    for (size_t k = active_; k > 1; --k) {
      seed += 0x9e3779b97f4a7c15u;
      uint64_t z = seed;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
      z ^= z >> 31;
      std::swap(order_[k - 1], order_[((z >> 32) * k) >> 32]);
    }
  }
};

}  // namespace mm
