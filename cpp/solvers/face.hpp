// Climbs the dual by conjugate gradients on its current face: multipliers that are zero stay zero.
//
//   max D(a + p)   over   sum_y p_i(y) = 0,   p_i(y) = 0 where a_i(y) = 0
//   r_i(y) = s(y) - mean of s over the positive outputs of block i
//   z = r / h_i,   h_i = |psi(u) - psi(v)|^2 for two of these outputs
//   p = z + beta p,   u = - sum p psi,   step = <p, s> / |u|^2, or less: a multiplier that comes to 0 leaves the face
//
// Visits of single blocks find out which multipliers are positive at the optimum, and then they become slow. If few
// blocks have several positive multipliers, a climb costs less than a pass, and it ends at the optimum of the face.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "models/concept.hpp"
#include "runtime/interrupt.hpp"
#include "simd.hpp"
#include "solvers/weights.hpp"

namespace mm {

// The part of a face that does not depend on the structure: positive multipliers, their scores, and the direction.
class FaceState {
 public:
  using Label = int32_t;

  void clear() { groups_.clear(), labels_.clear(), a_.clear(), left_.clear(); }
  // Adds a block with its multipliers. It takes part if several of them are positive.
  void add(int64_t block, const double* a, int outputs);
  int64_t blocks() const { return static_cast<int64_t>(groups_.size()); }

  // Calls f(block, output, multiplier) for all outputs that took part.
  template <class F>
  void each(F&& f) const {
    for (const Left& l : left_) f(l.block, l.label, l.a);
    for (const Group& g : groups_)
      for (size_t e = g.first; e < g.last; ++e) f(g.block, labels_[e], a_[e]);
  }

 protected:
  struct Group {
    int64_t block;
    size_t first, last;  // range of its outputs
    double inverse;      // 1 / h
    double mass;         // the sum of its multipliers
  };
  std::vector<Group> groups_;
  std::vector<Label> labels_;
  std::vector<double> a_, s_, p_;  // multipliers, scores, direction

  double gap() const;  // sum a (max s - s)
  // Computes the next direction and returns <p, s>. `before` is <r, z> of the last direction, or 0 if there was none.
  double turn(double& before);
  double longest() const;  // the step at which the first multiplier reaches zero
  void step_by(double step);
  // Drops the outputs whose multipliers have reached zero, and then the blocks with a single output left. If
  // rounding has left a small multiplier, it is added to the block's largest one.
  void leave();

 private:
  struct Left {
    int64_t block;
    Label label;
    double a;
  };
  std::vector<Left> left_;

  double mean(const Group& g) const;  // the mean of s over the group
};

template <Structure S>
class Face : public FaceState {
 public:
  using Real = typename S::Real;

  explicit Face(const S& structure) : structure_(structure), scratch_(structure.scratch()) {}

  // Climbs until the gap on the face is at most `enough`, or for about `visits` visits. Returns the number of visits
  // made. `shrink` is explained in block_step.hpp.
  int64_t climb(aligned<Real>& W, double shrink, int64_t visits, double enough) {
    open(W);
    int64_t made = blocks();
    for (double before = 0; made < visits && gap() > enough;) {
      poll();
      const double slope = turn(before), square = collect(), longest_step = longest();
      const bool ends = !(shrink * square * longest_step > slope);  // also true if the curvature is 0
      const double step = ends ? longest_step : slope / (shrink * square);
      made += 2 * blocks();
      if (!(step < std::numeric_limits<double>::infinity())) break;
      move(W, step, shrink);
      if (ends) leave(), before = 0;
    }
    return made;
  }

 private:
  const S& structure_;
  typename S::Scratch scratch_;
  aligned<Real> u_;

  void open(const aligned<Real>& W) {
    s_.resize(a_.size());
    p_.assign(a_.size(), 0.0);
    u_.resize(W.size());
    for (Group& g : groups_) {
      structure_.open(g.block, W.data(), scratch_, true, 1);
      for (size_t e = g.first; e < g.last; ++e) s_[e] = structure_.score(scratch_, &labels_[e]);
      structure_.build_pair(scratch_, g.block, &labels_[g.first], &labels_[g.first + 1]);
      const double square = structure_.squared_norm(scratch_);
      g.inverse = square > 0 ? 1 / square : 1;
    }
  }
  // Computes u of the direction and returns |u|^2.
  double collect() {
    std::fill(u_.begin(), u_.end(), Real(0));
    for (const Group& g : groups_) {
      const int n = static_cast<int>(g.last - g.first);
      structure_.build_mixture(scratch_, g.block, &labels_[g.first], &p_[g.first], n);
      structure_.apply(scratch_, u_.data(), -1);
    }
    return sum_of(0, static_cast<int64_t>(u_.size()),
                  [&](int64_t j) { return static_cast<double>(u_[j]) * u_[j]; });
  }
  void move(aligned<Real>& W, double step, double shrink) {
    const double change = shrink * step;
    for (size_t j = 0; j < W.size(); ++j) W[j] += static_cast<Real>(change) * u_[j];
    for (const Group& g : groups_) {
      structure_.open(g.block, u_.data(), scratch_, false, 1);
      for (size_t e = g.first; e < g.last; ++e) s_[e] += change * structure_.score(scratch_, &labels_[e]);
    }
    step_by(step);
  }
};

}  // namespace mm
