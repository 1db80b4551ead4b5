// The search over the loss multiplier: slack rescaling with an oracle for margin rescaling.
//
//     wanted: max_y Delta(y) (c + m(y)),   m(y) = <w, psi(y)>
//     oracle: max_y lambda Delta(y) + m(y)
//
// The oracle walks along the upper hull of the points (Delta, m): each answer proves that no output lies
// above a line. Segments between two points are split, most promising first. The search stops when no segment
// promises more than the best point found, or after `calls` oracle calls. It can miss outputs below the hull,
// so it also returns a ceiling, an upper bound on all outputs.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace mm {

struct HullPoint {
  double loss, margin;
  // No output is above the line of slope -multiplier through (loss, margin + missed). `missed` is 0 if the oracle is
  // exact.
  double multiplier;
  double missed = 0;

  double top() const { return margin + missed; }
  double ceiling(double at) const {
    if (multiplier == std::numeric_limits<double>::infinity()) return at <= loss ? multiplier : -multiplier;
    return top() - multiplier * (at - loss);
  }
};

class HullSearch {
 public:
  // Most calls of the margin oracle; more take longer, fewer leave a larger gap to the ceiling.
  static constexpr int calls = 16;

  // `ask(lambda)` returns the point of the best output for that multiplier; `keep()` stores that output.
  // `best` is the value of the best output; at the start it is 0, or the value of an end. Returns the
  // ceiling.
  template <class Ask, class Keep>
  double run(HullPoint left, HullPoint right, double constant, double& best, Ask&& ask, Keep&& keep) {
    constant_ = constant;
    open_ = {{left, right, promise(left, right)}};
    // An upper bound on outputs with less loss than the left end.
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

  // The largest Delta (c + m) between a and b, on the line of slope -lambda through a, raised by `raised`.
  double edge(const HullPoint& a, const HullPoint& b, double lambda, double raised) const {
    const double high = constant_ + a.margin + raised, peak = (high + lambda * a.loss) / (2 * lambda);
    double most = 0;
    for (double at : {a.loss, b.loss, std::clamp(peak, a.loss, b.loss)})
      most = std::max(most, at * (high - lambda * (at - a.loss)));
    return most;
  }

  // An upper bound on Delta (c + m) for outputs between two points.
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
