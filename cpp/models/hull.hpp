// The search over the loss multiplier: slack rescaling by an oracle for margins.
//
//   wanted:  max_y Delta(y) (c + m(y)),   m(y) = <w, psi(y)>
//   at hand: max_y lambda Delta(y) + m(y)
//
// The oracle walks the upper hull of the points (Delta, m): no output is above a line that it has answered.
// Segments between two points are split, most promising first, until none promises more than the best point
// found, or the calls are spent. What lies under the hull can be missed, so that the search has a ceiling
// too: no output is better than that.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace mm {

struct HullPoint {
  double loss, margin;
  double multiplier;  // no output is above the line of slope -multiplier through the point,
  double missed = 0;  // raised by what the oracle may have missed

  double top() const { return margin + missed; }
  double ceiling(double at) const {
    if (multiplier == std::numeric_limits<double>::infinity()) return at <= loss ? multiplier : -multiplier;
    return top() - multiplier * (at - loss);
  }
};

class HullSearch {
 public:
  static constexpr int calls = 16;  // of the margin oracle, at most

  // `ask(lambda)` answers the point of the best output for that multiplier, `keep()` remembers that output.
  // Returns the ceiling; `best` is the value of the best output, 0 or that of an end at the start.
  template <class Ask, class Keep>
  double run(HullPoint left, HullPoint right, double constant, double& best, Ask&& ask, Keep&& keep) {
    constant_ = constant;
    open_ = {{left, right, promise(left, right)}};
    // An output of less loss than the left end is at most as good as this.
    double closed = std::max(best, left.loss * (constant_ + left.top()));
    for (int call = 0; call < calls; ++call) {
      const auto top = std::max_element(open_.begin(), open_.end(),
                                        [](const auto& a, const auto& b) { return a.promise < b.promise; });
      if (top == open_.end() || top->promise <= best + tiny * (1 + best)) break;
      const Segment s = *top;
      open_.erase(top);
      if (s.right.loss <= s.left.loss || s.left.margin <= s.right.margin) {
        closed = std::max(closed, s.promise);
        continue;
      }
      const double lambda = (s.left.margin - s.right.margin) / (s.right.loss - s.left.loss);
      const HullPoint found = ask(lambda);
      const double line = lambda * s.left.loss + s.left.margin;
      if (lambda * found.loss + found.margin <= line + tiny * (1 + std::abs(line))) {
        const double raised = std::max(0.0, lambda * found.loss + found.top() - line);
        closed = std::max(closed, edge(s.left, s.right, lambda, raised));
        continue;
      }
      if (value(found) > best) best = value(found), keep();
      open_.push_back({s.left, found, promise(s.left, found)});
      open_.push_back({found, s.right, promise(found, s.right)});
    }
    for (const Segment& s : open_) closed = std::max(closed, s.promise);
    return std::max(closed, best);
  }

  double value(const HullPoint& p) const { return p.loss * (constant_ + p.margin); }
  void scale(double constant) { constant_ = constant; }

 private:
  static constexpr double tiny = 1e-12;
  struct Segment {
    HullPoint left, right;
    double promise;
  };
  double constant_ = 1;
  std::vector<Segment> open_;

  // The largest Delta (c + m) on the line of slope -lambda through a, raised, between a and b.
  double edge(const HullPoint& a, const HullPoint& b, double lambda, double raised) const {
    const double high = constant_ + a.margin + raised, peak = (high + lambda * a.loss) / (2 * lambda);
    double most = 0;
    for (double at : {a.loss, b.loss, std::clamp(peak, a.loss, b.loss)})
      most = std::max(most, at * (high - lambda * (at - a.loss)));
    return most;
  }

  // The largest Delta (c + m) that an output between two points can have.
  double promise(const HullPoint& a, const HullPoint& b) const {
    if (b.loss <= a.loss) return std::max({value(a), value(b), b.loss * (constant_ + a.top())});
    std::vector<double> tops = {a.loss, b.loss};
    for (const HullPoint& p : {a, b})
      if (p.multiplier > 0 && p.multiplier < std::numeric_limits<double>::infinity())
        tops.push_back((constant_ + p.top() + p.multiplier * p.loss) / (2 * p.multiplier));
    if (a.multiplier < b.multiplier && b.multiplier < std::numeric_limits<double>::infinity())
      tops.push_back((b.top() + b.multiplier * b.loss - a.top() - a.multiplier * a.loss) /
                     (b.multiplier - a.multiplier));
    double most = 0;
    for (double at : tops) {
      at = std::clamp(at, a.loss, b.loss);
      most = std::max(most, at * (constant_ + std::min(a.ceiling(at), b.ceiling(at))));
    }
    return most;
  }
};

}  // namespace mm
