// The dual on the face that its positive multipliers are on, climbed by conjugate gradients.
//
//   max D(a + p)   over   sum_y p_i(y) = 0,   p_i(y) = 0 where a_i(y) = 0
//   r_i(y) = s(y) - mean of s over the positive outputs of block i,   z = r / h_i,   h_i = |psi(u) - psi(v)|^2 of two of them
//   p = z + beta p,   u = - sum p psi,   step = <p, s> / |u|^2, or less: a multiplier that comes to 0 leaves the face
//
// Visits of single blocks find out which multipliers are positive at the optimum, and creep then. Where few blocks have
// several of them a climb costs less than a pass, and ends at the optimum of the face.
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

template <Structure S>
class Face {
 public:
  using Real = typename S::Real;
  using Label = typename S::Label;

  explicit Face(const S& structure) : structure_(structure), scratch_(structure.scratch()) {}

  void clear() { groups_.clear(), labels_.clear(), a_.clear(), left_.clear(); }
  // A block and its multipliers; it takes part where several are positive.
  void add(int64_t block, const double* a, int outputs) {
    const size_t first = labels_.size();
    for (int y = 0; y < outputs; ++y)
      if (a[y] > 0) labels_.push_back(y), a_.push_back(a[y]);
    if (labels_.size() < first + 2)
      labels_.resize(first), a_.resize(first);
    else
      groups_.push_back({block, first, labels_.size(), 0});
  }
  int64_t blocks() const { return static_cast<int64_t>(groups_.size()); }

  // Until the gap on the face is `enough`, or for about as many visits; returns how many were made. `shrink`: block_step.hpp.
  int64_t climb(aligned<Real>& W, double shrink, int64_t visits, double enough) {
    open(W);
    int64_t made = blocks();
    for (double before = 0; made < visits && gap() > enough;) {
      poll();
      const double slope = turn(before);
      const double square = sum_of(0, static_cast<int64_t>(u_.size()),
                                   [&](int64_t j) { return static_cast<double>(u_[j]) * u_[j]; });
      const double longest_step = longest();
      const bool ends = !(shrink * square * longest_step > slope);  // also where the face is flat
      const double step = ends ? longest_step : slope / (shrink * square);
      made += 2 * blocks();
      if (!(step < std::numeric_limits<double>::infinity())) break;
      move(W, step, shrink);
      if (ends) leave(), before = 0;
    }
    return made;
  }

  // f(block, output, multiplier) for all that took part.
  template <class F>
  void each(F&& f) const {
    for (const Left& l : left_) f(l.block, l.label, l.a);
    for (const Group& g : groups_)
      for (size_t e = g.first; e < g.last; ++e) f(g.block, labels_[e], a_[e]);
  }

 private:
  struct Group {
    int64_t block;
    size_t first, last;  // of its outputs
    double inverse;      // 1 / h
  };
  struct Left {
    int64_t block;
    Label label;
    double a;
  };
  static constexpr double rounding_ = 1e-14;  // of a block's largest multiplier: as good as zero
  const S& structure_;
  typename S::Scratch scratch_;
  std::vector<Group> groups_;
  std::vector<Label> labels_;
  std::vector<double> a_, s_, p_;  // multipliers, scores, direction
  std::vector<Left> left_;
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

  // sum a (max s - s)
  double gap() const {
    double sum = 0;
    for (const Group& g : groups_) {
      const double top = *std::max_element(&s_[g.first], s_.data() + g.last);
      for (size_t e = g.first; e < g.last; ++e) sum += a_[e] * (top - s_[e]);
    }
    return sum;
  }

  double mean(const Group& g) const {
    double sum = 0;
    for (size_t e = g.first; e < g.last; ++e) sum += s_[e];
    return sum / static_cast<double>(g.last - g.first);
  }

  // The next direction, and u; returns <p, s>. `before`: <r, z> of the last, 0 for none.
  double turn(double& before) {
    double product = 0, slope = 0;
    for (const Group& g : groups_) {
      const double m = mean(g);
      for (size_t e = g.first; e < g.last; ++e) product += g.inverse * (s_[e] - m) * (s_[e] - m);
    }
    const double beta = before > 0 ? product / before : 0;
    before = product;
    std::fill(u_.begin(), u_.end(), Real(0));
    for (const Group& g : groups_) {
      const double m = mean(g);
      for (size_t e = g.first; e < g.last; ++e) {
        p_[e] = g.inverse * (s_[e] - m) + beta * p_[e];
        slope += p_[e] * (s_[e] - m);
      }
      const int n = static_cast<int>(g.last - g.first);
      structure_.build_mixture(scratch_, g.block, &labels_[g.first], &p_[g.first], n);
      structure_.apply(scratch_, u_.data(), -1);
    }
    return slope;
  }

  // The step at which the first multiplier comes to zero.
  double longest() const {
    double longest_step = std::numeric_limits<double>::infinity();
    for (size_t e = 0; e < a_.size(); ++e)
      if (p_[e] < 0) longest_step = std::min(longest_step, a_[e] / -p_[e]);
    return longest_step;
  }

  void move(aligned<Real>& W, double step, double shrink) {
    const double change = shrink * step;
    for (size_t j = 0; j < W.size(); ++j) W[j] += static_cast<Real>(change) * u_[j];
    for (const Group& g : groups_) {
      structure_.open(g.block, u_.data(), scratch_, false, 1);
      for (size_t e = g.first; e < g.last; ++e) s_[e] += change * structure_.score(scratch_, &labels_[e]);
    }
    for (size_t e = 0; e < a_.size(); ++e) a_[e] = std::max(0.0, a_[e] + step * p_[e]);  // rounding
  }

  // Drops the outputs whose multipliers have come to zero, and blocks with one that is left: it takes what rounding has left.
  void leave() {
    size_t kept = 0, groups = 0;
    for (Group g : groups_) {
      const size_t first = kept;
      const double most = *std::max_element(&a_[g.first], a_.data() + g.last);
      double rest = 0;
      for (size_t e = g.first; e < g.last; ++e) {
        if (a_[e] <= rounding_ * most) {
          rest += a_[e];
          left_.push_back({g.block, labels_[e], 0.0});
          continue;
        }
        labels_[kept] = labels_[e], a_[kept] = a_[e], s_[kept] = s_[e], p_[kept] = p_[e];
        ++kept;
      }
      *std::max_element(&a_[first], a_.data() + kept) += rest;
      if (kept == first + 1)
        left_.push_back({g.block, labels_[--kept], a_[first]});
      else
        groups_[groups++] = {g.block, first, kept, g.inverse};
    }
    groups_.resize(groups);
    labels_.resize(kept), a_.resize(kept), s_.resize(kept), p_.resize(kept);
  }
};

}  // namespace mm
