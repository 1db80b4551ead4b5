// The step of one link: how much of the mass that leaves two labels leaves both of them together.
//
//   minimise  1/2 (c - c*)^2 + rho/2 ((alpha - A)^2 + (beta - B)^2)
//   over      0 <= c <= min(alpha, beta),   alpha + beta - c <= m
//
// This is the polytope of the masses (stay, stay), (leave, stay), (stay, leave), (leave, leave) of two nodes. alpha and
// beta are the masses that leave each node, and c is the mass that leaves both. For a given c the best alpha and beta
// are known. With them, the derivative by c is piecewise linear and increasing:
//   alpha = max(A, c), beta = max(B, c)              while their sum is at most m + c
//   else both are smaller by the same amount, but neither is below c
// So Newton's method between two bounds finds the minimum after a few steps.
#pragma once

#include <algorithm>
#include <cmath>

namespace mm {

struct JointMove {
  double alpha, beta, c;
};

class JointStep {
 public:
  JointStep(double A, double B, double rho, double m) : A_(A), B_(B), rho_(rho), m_(m) {}

  JointMove solve(double target) const {
    double low = 0, high = m_;
    if (slope(0, target).value >= 0) return at(0);
    if (slope(m_, target).value <= 0) return at(m_);
    double c = std::clamp(target, low, high);
    for (int step = 0; step < most_steps; ++step) {
      const Slope s = slope(c, target);
      (s.value > 0 ? high : low) = c;
      double next = c - s.value / s.rise;
      if (!(next >= low && next <= high)) next = 0.5 * (low + high);
      if (std::abs(next - c) <= 1e-15 * m_) break;
      c = next;
    }
    return at(c);
  }

 private:
  struct Slope {
    double value, rise;
  };
  static constexpr int most_steps = 60;
  double A_, B_, rho_, m_;

  JointMove at(double c) const {
    const double a = std::max(A_, c), b = std::max(B_, c);
    if (a + b <= m_ + c) return {a, b, c};
    const double less = 0.5 * (A_ + B_ - m_ - c);
    if (A_ - less < c) return {c, m_, c};
    if (B_ - less < c) return {m_, c, c};
    return {A_ - less, B_ - less, c};
  }
  // The derivative by c, and how fast it rises.
  Slope slope(double c, double target) const {
    double pull = 0, rise = 0;
    const auto tied = [&](double own) {
      if (c > own) pull += c - own, rise += 1;
    };
    if (std::max(A_, c) + std::max(B_, c) <= m_ + c) {
      tied(A_);
      tied(B_);
    } else {
      const double less = 0.5 * (A_ + B_ - m_ - c);
      if (A_ - less < c)
        pull = c - A_, rise = 1;
      else if (B_ - less < c)
        pull = c - B_, rise = 1;
      else
        pull = -less, rise = 0.5;
    }
    return {c - target + rho_ * pull, 1 + rho_ * rise};
  }
};

}  // namespace mm
