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
// Before a gap is believed to be small enough, blocks that rested are visited, and where w has moved far since the
// epoch all blocks that the last sweep did not visit: what they saw is old.
// Where a small gap is asked for, rounds that come near to it end with a climb of the face (face.hpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "models/concept.hpp"
#include "runtime/interrupt.hpp"
#include "runtime/pages.hpp"
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
  using Block = typename BlockStep<S>::Block;

  // `data`: what the structure reads, where nobody else holds it
  CoordinateOf(std::unique_ptr<S> structure, std::vector<double> block_mass,
               std::shared_ptr<const void> data = nullptr)
      : data_(std::move(data)),
        own_(std::move(structure)),
        structure_(*own_),
        w_(structure_.weights(), structure_.coefficients()),
        step_(structure_),
        face_(structure_) {
    const int64_t n = static_cast<int64_t>(block_mass.size());
    for (int64_t i = 0; i < n; ++i) {
      planes_ += step_.outputs(i);
      if (block_mass[i] > 0) order_.push_back(i);
    }
    if constexpr (std::is_same_v<Block, OneBlock>) multipliers_.resize(planes_);
    double* a = multipliers_.data();
    reserve_in_large_pages(blocks_, n);
    for (int64_t i = 0; i < n; ++i) {
      blocks_.push_back(step_.block(i, block_mass[i], a));
      if (a) a += blocks_.back().outputs;
    }
    aside_.reserve(order_.size());
    active_ = order_.size();
    clear();
  }

  int64_t dimension() const override { return structure_.dimension(); }
  int64_t planes() const override { return planes_; }
  void reopen() override {
    active_ = order_.size(), bound_ = std::numeric_limits<double>::infinity();
    for (Block& b : blocks_) b.rest = 0;
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
      prefetch(order_.data(), k, active_);
      Block& b = blocks_[i];
      const Look seen = step_.look(i, b, w_.W.data());
      report.violation += seen.share;
      if (seen.spread > largest) largest = seen.spread;
      if (shrinking && seen.lead > bound_) {
        aside_.push_back(i);
        continue;
      }
      order_[kept++] = i;
      if (seen.share > tolerance * b.mass) ++report.updates, step_.move(i, b, w_.W.data(), w_.shrink());
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
    for (Block& b : blocks_) b.rest = 0, b.share = 0;
  }
  double proximity() const override { return w_.proximity; }

  RoundReport rounds(const RoundOptions& options) override {
    RoundReport report;
    uint64_t seed = options.seed;
    do {
      if (balance_.k > 0) w_.recenter(report.rounds + rounds_ > 0 ? options.momentum : 0, balance_.k);
      const double seen = round(options, seed, report);
      double gap = measure(report);
      if (gap <= options.enough) {
        if (seen > options.far * options.enough) list_old();
        sweep(resting_, options, options.skip, seed);
        report.visits += static_cast<int64_t>(resting_.size());
        gap = measure(report);
      }
      balance_.after(report.ascent, report.lag, options.decay);
      ++report.rounds;
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

  void weights(double* flat) const override { structure_.unpack(w_.W.data(), flat); }
  SupportArrays support() const override {
    SupportList<Label> found;
    each_support([&](int64_t i, Label y, double a) { found.add(i, a, &y, 1); });
    return found;
  }
  void restore(const int64_t* blocks, const double* c, const int32_t* numbers, int64_t n) override {
    for (Block& b : blocks_) std::fill(b.a, b.a + b.outputs, 0.0);
    for (int64_t p = 0; p < n; ++p) {
      const int64_t i = blocks[p];
      const bool known = i >= 0 && i < static_cast<int64_t>(blocks_.size());
      if (!known || numbers[p] < 0 || numbers[p] >= blocks_[i].outputs)
        throw std::invalid_argument("the kept outputs do not fit the examples");
      blocks_[i].a[numbers[p]] += c[p];
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
  std::vector<double> multipliers_;  // of all outputs of all blocks, where the blocks do not have them inside
  Weights<Real> w_;
  BlockStep<S> step_;
  Face<S> face_;
  std::vector<Block, AlignedAllocator<Block>> blocks_;
  std::vector<int64_t> order_, aside_;
  static constexpr size_t ahead_ = 4;  // visits
  int64_t planes_ = 0;
  size_t active_ = 0;  // order_[0 : active_] are visited, the rest is shrunk
  double bound_ = std::numeric_limits<double>::infinity();
  std::vector<int64_t> due_, todo_, resting_;  // of a round
  std::vector<char> fresh_;
  int64_t rounds_ = 0;
  Balance balance_;
  int64_t swept_ = 0, climbed_ = 0;  // visits so far
  Pace pace_;

  // All multipliers at the true outputs: w = 0.
  void clear() {
    for (size_t i = 0; i < blocks_.size(); ++i) {
      Block& b = blocks_[i];
      Label y;
      structure_.truth(i, &y);
      std::fill(b.a, b.a + b.outputs, 0.0);
      b.a[y] = b.mass;
    }
  }

  // Calls f(block, output, multiplier) for each positive multiplier.
  template <class F>
  void each_support(F&& f) const {
    for (size_t i = 0; i < blocks_.size(); ++i)
      for (int y = 0; y < blocks_[i].outputs; ++y)
        if (blocks_[i].a[y] > 0) f(static_cast<int64_t>(i), y, blocks_[i].a[y]);
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

  // The gap as the last visits saw it.
  double measure(RoundReport& report) const {
    report.ascent = 0;
    for (const Block& b : blocks_) report.ascent += b.share;
    report.lag = 0.5 * w_.proximity * w_.proximity * w_.squared_distance();
    return report.ascent + report.lag;
  }

  // Returns the gap as its epoch saw it.
  double round(const RoundOptions& options, uint64_t& seed, RoundReport& report) {
    due_.clear(), resting_.clear();
    for (const int64_t i : order_)
      if (blocks_[i].rest == 0)
        due_.push_back(i);
      else
        --blocks_[i].rest, resting_.push_back(i);
    const double seen = sweep(due_, options, options.skip, seed);
    report.visits += static_cast<int64_t>(due_.size());
    for (int n = 0; n < options.sweeps && !todo_.empty(); ++n) {
      due_.swap(todo_);
      if (sweep(due_, options, 0, seed) <= options.inner * seen) break;
    }
    return seen;
  }

  // Into `resting_`: all blocks but those of the last sweep.
  void list_old() {
    fresh_.assign(blocks_.size(), false);
    for (const int64_t i : due_) fresh_[i] = true;
    resting_.clear();
    for (const int64_t i : order_)
      if (!fresh_[i]) resting_.push_back(i);
  }

  // To the optimum of the face, with half as many visits as sweeps have made; false where these are too few.
  bool climb(double enough) {
    face_.clear();
    for (const int64_t i : order_) face_.add(i, blocks_[i].a, blocks_[i].outputs);
    const int64_t budget = swept_ / 2 - climbed_;
    if (budget < 5 * face_.blocks()) return false;
    const auto keep = [&] {
      face_.each([&](int64_t i, Label y, double a) { blocks_[i].a[y] = a; });
      for (Block& b : blocks_) b.rest = 0;
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

  // Visits some blocks in a fresh order; those that were not satisfied are `todo_` then, the others miss `skip` rounds.
  // Returns their shares of the gap.
  double sweep(std::vector<int64_t>& blocks, const RoundOptions& options, int skip, uint64_t& seed) {
    seed = shuffle(blocks.data(), blocks.size(), seed);
    swept_ += static_cast<int64_t>(blocks.size());
    todo_.clear();
    const double shrink = w_.shrink();
    Real* W = w_.W.data();
    double sum = 0;
    for (size_t k = 0; k < blocks.size(); ++k) {
      if (k % 8 == 0) poll();  // visits are short
      prefetch(blocks.data(), k, blocks.size());
      const int64_t i = blocks[k];
      Block& b = blocks_[i];
      const Look seen = step_.look(i, b, W);
      b.share = seen.share;
      sum += seen.share;
      if (seen.share <= options.tolerance * b.mass) {
        b.rest = skip;
        continue;
      }
      todo_.push_back(i);
      step_.move(i, b, W, shrink);
    }
    return sum;
  }

  // What the visits after the k-th of n will read.
  void prefetch(const int64_t* order, size_t k, size_t n) const {
    if (k + 2 * ahead_ < n) fetch_ahead(&blocks_[order[k + 2 * ahead_]]);
    if (k + ahead_ < n) step_.prefetch(order[k + ahead_], blocks_[order[k + ahead_]]);
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
