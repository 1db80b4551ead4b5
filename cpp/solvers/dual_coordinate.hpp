// Batch dual coordinate ascent over constraints that can all be written down (dual coordinate paper, Algorithm 1). An
// epoch visits the blocks in a fresh random order.
//
//   a_i(y) >= 0,  sum_y a_i(y) = mass_i,  w = - sum a psi     the true output (psi = 0, Delta = 0) has the rest
//   s(y) = Delta_i(y) + <w, psi_i(y)>,  u = argmax s,  g = s(u) - sum_y a(y) s(y) / mass   the share of the gap
//
// The paper's update of one variable (12) is a pair step between an output and the true one. Its update of two
// variables (15), with the misprints corrected, is the same step between two other outputs:
//   step = min(a(v), (s(u) - s(v)) / |psi(u) - psi(v)|^2)     moves multiplier from v to u
// A visit solves its block: by pair steps for groups of constraints, by a projection for classes (block_step.hpp).
//
// Shrinking: a block is put aside if all its mass is at the best output and no other output is within `bound` of it.
// `bound` is the largest violation of the last epoch. A certificate that leaves blocks out proves nothing. So `reopen`
// brings all blocks back, and the training loop makes an exact pass before it stops.
//
// Rounds make the same visits around a moving centre: the accelerated proximal ascent of solvers/proximal.py. A round
// is an epoch over the blocks that are due, then a few sweeps over those blocks that were not satisfied. Satisfied
// blocks rest for some rounds if there are few blocks of the other kind.
//   P(w) - D(a) = sum_i mass_i g_i + k^2 / 2 |w - z|^2        ascent and lag
// Before a gap counts as small enough, the blocks that rested are visited. If w has moved far since the epoch, so are
// all blocks that the last sweep did not visit: their parts of the gap are old. If there are many blocks, a sample of
// them is looked at, which may show that no further sweep is needed. If a small gap is asked for, rounds that come near
// to it end with a climb of the face (face.hpp).
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
#include "shuffle.hpp"
#include "simd.hpp"
#include "solvers/block_step.hpp"
#include "solvers/coordinate.hpp"
#include "solvers/face.hpp"
#include "solvers/pace.hpp"
#include "solvers/sampled_sum.hpp"
#include "solvers/weights.hpp"

namespace mm {

template <Structure S>
class CoordinateOf final : public Coordinate {
 public:
  using Real = typename S::Real;
  using Label = typename S::Label;
  using Block = typename BlockStep<S>::Block;

  // `data` keeps alive the data that the structure reads, if they have no other owner. `names` gives the caller's
  // number of each block, if the structure has the blocks in a random order. Visits then follow that order in runs.
  CoordinateOf(std::unique_ptr<S> structure, std::vector<double> block_mass,
               std::shared_ptr<const void> data = nullptr, std::vector<int64_t> names = {})
      : data_(std::move(data)),
        names_(std::move(names)),
        places_(names_.size()),
        own_(std::move(structure)),
        structure_(*own_),
        w_(structure_.weights(), structure_.coefficients()),
        step_(structure_),
        face_(structure_) {
    const int64_t n = static_cast<int64_t>(block_mass.size());
    order_.reserve(n);
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
    for (size_t i = 0; i < names_.size(); ++i) places_[names_[i]] = static_cast<int64_t>(i);
    clear();
  }

  int64_t dimension() const override { return structure_.dimension(); }
  int64_t planes() const override { return planes_; }
  void reopen() override {
    bound_ = std::numeric_limits<double>::infinity();
    for (Block& b : blocks_) b.rest = 0;
  }

  EpochReport epoch(uint64_t seed, bool shrinking, double tolerance) override {
    EpochReport report;
    list_due();
    arrange(due_, seed);
    double largest = 0;
    for (size_t k = 0; k < due_.size(); ++k) {
      poll();
      prefetch(due_.data(), k, due_.size());
      const int64_t i = due_[k];
      Block& b = blocks_[i];
      const Look seen = step_.look(i, b, w_.W.data());
      report.violation += seen.share;
      if (seen.spread > largest) largest = seen.spread;
      if (shrinking && seen.spread <= 0 && step_.lead(b) > bound_)
        b.rest = 1;
      else if (seen.share > tolerance * b.mass)
        ++report.updates, step_.move(i, b, w_.W.data(), w_.shrink());
      report.active += b.rest == 0;
    }
    report.visits = static_cast<int64_t>(due_.size());
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
      if (!confirmed_) settle(options, seen, seed, report);
      const double gap = report.ascent + report.lag;
      balance_.after(report.ascent, report.lag, options.decay);
      ++report.rounds;
      if (gap <= options.enough) break;
      if (pace_.due(gap) && gap < options.climb_below && climb(options.enough)) pace_.made(gap);
    } while (report.rounds < options.rounds && report.visits < options.visits);
    rounds_ += report.rounds;
    return report;
  }

  [[gnu::cold]] std::pair<double, double> probe(const int64_t* blocks, int64_t n) override {
    auto s = structure_.scratch();
    double square = 0, loss = 0;
    for (int64_t k = 0; k < n; ++k) {
      Label u, y;
      const int64_t i = place(blocks[k]);
      structure_.truth(i, &y);
      structure_.open(i, w_.W.data(), s, true, 1);
      structure_.best(s, w_.W.data(), &u);
      structure_.build_pair(s, i, &u, &y);
      square += structure_.squared_norm(s);
      loss += structure_.loss(i, &u);
    }
    return {square / static_cast<double>(n), loss / static_cast<double>(n)};
  }

  // D(a), the lower bound, from the running w.
  double dual() const override {
    double offset = 0;
    if constexpr (requires(const Block& b) { step_.offset(b); })
      for (const Block& b : blocks_) offset += step_.offset(b);
    else
      each_support([&](int64_t i, Label y, double a) { offset += a * structure_.loss(i, &y); });
    return offset + w_.negative_conjugate();
  }

  void weights(double* flat) const override { structure_.unpack(w_.W.data(), flat); }
  SupportArrays support() const override {
    SupportList<Label> found;
    size_t planes = 0;
    for (const Block& b : blocks_)
      for (int y = 0; y < b.outputs; ++y) planes += b.a[y] > 0;
    found.resize(planes + 1);  // each entry is written, and overwritten by the next if its multiplier is zero
    planes = 0;
    for (size_t name = 0; name < blocks_.size(); ++name) {  // exact passes read in the order of the caller
      const Block& b = blocks_[place(static_cast<int64_t>(name))];
      for (Label y = 0; y < b.outputs; ++y) {
        found.blocks[planes] = static_cast<int64_t>(name);
        found.multipliers[planes] = b.a[y];
        found.outputs[planes] = y;
        planes += b.a[y] > 0;
      }
    }
    found.resize(planes);
    return found;
  }
  void restore(const int64_t* blocks, const double* c, const int32_t* numbers, int64_t n) override {
    for (Block& b : blocks_) std::fill(b.a, b.a + b.outputs, 0.0);
    for (int64_t p = 0; p < n; ++p) {
      const bool known = blocks[p] >= 0 && blocks[p] < static_cast<int64_t>(blocks_.size());
      if (!known || numbers[p] < 0 || numbers[p] >= blocks_[place(blocks[p])].outputs)
        throw std::invalid_argument("the kept outputs do not fit the examples");
      blocks_[place(blocks[p])].a[numbers[p]] += c[p];
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
  std::vector<int64_t> names_, places_;  // the caller's number of each block, and back; empty: the same order
  std::unique_ptr<S> own_;
  const S& structure_;
  std::vector<double> multipliers_;  // of all outputs of all blocks, unless the blocks contain them
  Weights<Real> w_;
  BlockStep<S> step_;
  Face<S> face_;
  std::vector<Block, AlignedAllocator<Block>> blocks_;
  std::vector<int64_t> order_;           // blocks that have a mass
  static constexpr size_t ahead_ = 4;    // number of visits to prefetch ahead
  static constexpr size_t many_ = 2048;  // number of blocks from which a sample is looked at
  int64_t planes_ = 0;
  double bound_ = std::numeric_limits<double>::infinity();
  std::vector<int64_t> due_, todo_, resting_;  // of a round: to visit, not satisfied, resting
  Runs runs_;
  std::vector<char> fresh_;
  int64_t rounds_ = 0;
  int64_t unsatisfied_ = -1;  // number of blocks that were not satisfied in the last epoch; -1: no epoch yet
  bool confirmed_ = false;    // whether a sample has confirmed the gap of this round
  Balance balance_;
  int64_t swept_ = 0, climbed_ = 0;  // visits so far, by sweeps and by climbs
  Pace pace_;

  // Puts all multipliers on the true outputs: w = 0.
  void clear() {
    for (size_t i = 0; i < blocks_.size(); ++i) {
      Block& b = blocks_[i];
      Label y;
      structure_.truth(i, &y);
      std::fill(b.a, b.a + b.outputs, 0.0);
      b.a[y] = b.mass;
    }
  }

  int64_t place(int64_t name) const { return places_.empty() ? name : places_[name]; }

  // Calls f(block, output, multiplier) for each positive multiplier of block i.
  template <class F>
  void supports_of(int64_t i, F&& f) const {
    for (int y = 0; y < blocks_[i].outputs; ++y)
      if (blocks_[i].a[y] > 0) f(i, y, blocks_[i].a[y]);
  }
  template <class F>
  void each_support(F&& f) const {
    for (size_t i = 0; i < blocks_.size(); ++i) supports_of(static_cast<int64_t>(i), f);
  }

  // w from the multipliers alone, in double precision. Under a proximal term it includes the centre.
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

  // The gap, with each block's part as its last visit saw it.
  double measure(RoundReport& report) const {
    report.ascent = 0;
    for (const Block& b : blocks_) report.ascent += b.share;
    report.lag = 0.5 * w_.proximity * w_.proximity * w_.squared_distance();
    return report.ascent + report.lag;
  }

  // If the gap seems small enough after a round, checks it once more.
  void settle(const RoundOptions& options, double seen, uint64_t& seed, RoundReport& report) {
    if (measure(report) > options.enough || confirm(options.enough, seed, report)) return;
    if (seen > options.far * options.enough) list_old();
    sweep(resting_, options, options.skip, seed);
    report.visits += static_cast<int64_t>(resting_.size());
    measure(report);
    confirm(options.enough, seed, report);
  }

  // Whether a sample of many blocks shows a gap that is small enough. If not, raises the reported gap to the
  // sample's gap, if that is larger.
  bool confirm(double enough, uint64_t& seed, RoundReport& report) {
    if (order_.size() < many_) return false;
    const auto share = [&](size_t k) { return step_.look(order_[k], blocks_[order_[k]], w_.W.data()).share; };
    const size_t run = names_.empty() ? 1 : Runs::length;
    const double ascent = sampled_sum(order_.size(), run, enough - report.lag, seed, share);
    confirmed_ = ascent + report.lag <= enough;
    report.ascent = confirmed_ ? ascent : std::max(report.ascent, ascent);
    return confirmed_;
  }

  // Lists the blocks that are due and the blocks that rest.
  void list_due() {
    due_.clear(), resting_.clear();
    for (const int64_t i : order_) (blocks_[i].rest == 0 ? due_ : resting_).push_back(i);
  }

  // Makes one round. Returns the gap as its epoch saw it.
  double round(const RoundOptions& options, uint64_t& seed, RoundReport& report) {
    list_due();
    for (const int64_t i : resting_) --blocks_[i].rest;
    const double most = options.few * static_cast<double>(order_.size());
    const bool few = unsatisfied_ < 0 ? options.few >= 1 : static_cast<double>(unsatisfied_) <= most;
    const double seen = sweep(due_, options, few ? options.skip : 0, seed);
    unsatisfied_ = static_cast<int64_t>(todo_.size());
    report.visits += static_cast<int64_t>(due_.size());
    confirmed_ = false;
    if (seen <= options.enough) {
      measure(report);
      if (confirm(options.enough, seed, report)) return seen;
    }
    for (int n = 0; n < options.sweeps && !todo_.empty(); ++n) {
      due_.swap(todo_);
      if (sweep(due_, options, 0, seed) <= options.inner * seen) break;
    }
    return seen;
  }

  // Lists all blocks that the last sweep did not visit in `resting_`.
  void list_old() {
    fresh_.assign(blocks_.size(), false);
    for (const int64_t i : due_) fresh_[i] = true;
    resting_.clear();
    for (const int64_t i : order_)
      if (!fresh_[i]) resting_.push_back(i);
  }

  // Climbs to the optimum of the face, with half as many visits as sweeps have made. Returns false if these are too
  // few.
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

  // Visits some blocks in a fresh order. Afterwards `todo_` has the blocks that were not satisfied; the others rest for
  // `skip` rounds. Returns the sum of the blocks' parts of the gap.
  double sweep(std::vector<int64_t>& blocks, const RoundOptions& options, int skip, uint64_t& seed) {
    seed = arrange(blocks, seed);
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

  // Prefetches memory for the visits after the k-th of n. Runs of rows in the order of visits are prefetched by the
  // processor itself.
  void prefetch(const int64_t* order, size_t k, size_t n) const {
    if (k + 2 * ahead_ < n) fetch_ahead(&blocks_[order[k + 2 * ahead_]]);
    if (names_.empty() && k + ahead_ < n) step_.prefetch(order[k + ahead_], blocks_[order[k + ahead_]]);
  }

  // Puts the blocks into a fresh order. Returns the seed of the next order.
  uint64_t arrange(std::vector<int64_t>& blocks, uint64_t seed) {
    return names_.empty() ? shuffle(blocks, seed) : runs_.shuffle(blocks, seed);
  }
};

}  // namespace mm
