// The generalised distance transform of a row, for any quadratic:
//
//     out(u) = max_q f(q) + A (q - u - m)^2 + B (q - u - m)
//            = A u^2 - B u + max_q [ f(q) + A t^2 + B t - 2 A t u ],   t = q - m
//
// The maximum over q is one of lines in u. Their slopes rise or fall with q, so one pass finds their upper
// envelope, whatever the sign of A. (Felzenszwalb and Huttenlocher have A < 0.)
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace mm {

class DistanceTransform {
 public:
  // Elements of f, out and arg are `step` apart; f and out must not overlap.
  void run(const double* f, int n, int step, double A, double B, double m, double* out, int32_t* arg) {
    envelope(f, n, step, A, B, m);
    int line = 0;
    for (int u = 0; u < n; ++u) {
      while (line + 1 < count_ && from_[line + 1] <= u) ++line;
      const int q = lines_[line];
      const double d = q - u - m;
      out[static_cast<int64_t>(u) * step] = f[static_cast<int64_t>(q) * step] + d * (A * d + B);
      arg[static_cast<int64_t>(u) * step] = q;
    }
  }

 private:
  std::vector<int> lines_;                // lines of the envelope, by rising slope
  std::vector<double> from_, intercept_;  // where each line becomes the highest; f + A t^2 + B t
  int count_ = 0;

  void envelope(const double* f, int n, int step, double A, double B, double m) {
    lines_.resize(n), from_.resize(n), intercept_.resize(n);
    for (int q = 0; q < n; ++q) {
      const double t = q - m;
      intercept_[q] = f[static_cast<int64_t>(q) * step] + t * (A * t + B);
    }
    count_ = 0;
    for (int k = 0; k < n; ++k) add(A > 0 ? n - 1 - k : k, 2 * (A > 0 ? A : -A));
  }

  // Adds the line of q to the envelope; `rise` is the difference in slope between neighbouring lines.
  void add(int q, double rise) {
    double from = -std::numeric_limits<double>::infinity();
    while (count_ > 0) {
      const int last = lines_[count_ - 1];
      const double ahead = intercept_[last] - intercept_[q];
      const double slope = rise * (q > last ? q - last : last - q);
      if (slope == 0 && ahead >= 0) return;  // all lines are level
      from = slope == 0 ? -std::numeric_limits<double>::infinity() : ahead / slope;
      if (from > from_[count_ - 1]) break;
      --count_;
    }
    if (count_ == 0) from = -std::numeric_limits<double>::infinity();
    lines_[count_] = q;
    from_[count_++] = from;
  }
};

}  // namespace mm
