// w, and its relation to q = - sum_i sum_y a_i(y) psi_i(y), the weighted sum of vectors:
//
//   w = (q + k z) / (1 + k)
//
// z is the centre of a proximal term k/2 |w - z|^2; k = 0 is the plain problem.
// With an origin m, for a prior around m, read q as m - sum a psi in all of this:
//   R(w) = 1/2 |w - m|^2,   D(a) = sum a Delta - 1/2 |q|^2 + 1/2 |m|^2
// With a metric (metric.hpp), read q as m - Sigma sum a psi; the proximal term k/2 |w - z|^2 uses the same metric.
// With bounds, w = max(lower, v), and the unclipped v = (q + k z) / (1 + k) is stored as well.
//
// All vectors are in the layout of a structure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "simd.hpp"
#include "solvers/metric.hpp"
#include "solvers/resting.hpp"

namespace mm {

// The sums of f(j) and of g(j) over [first, last). Each uses eight partial sums, because each addition to a single
// sum would wait for the previous one.
template <class F, class G>
std::pair<double, double> sums_of(int64_t first, int64_t last, F&& f, G&& g) {
  constexpr int width = 8;
  double left[width] = {}, right[width] = {}, a = 0, b = 0;
  for (; first + width <= last; first += width) {
    for (int l = 0; l < width; ++l) left[l] += f(first + l);
    for (int l = 0; l < width; ++l) right[l] += g(first + l);
  }
  for (; first < last; ++first) a += f(first), b += g(first);
  for (int l = 0; l < width; ++l) a += left[l], b += right[l];
  return {a, b};
}
template <class F>
double sum_of(int64_t first, int64_t last, F&& f) {
  return sums_of(first, last, f, [](int64_t) { return 0.0; }).first;
}

template <class Real>
class Weights {
 public:
  aligned<Real> W;
  std::vector<double> origin;    // m; empty: zero
  Metric metric;                 // for a prior with several scales, and for bounds; otherwise plain
  aligned<Real> unclipped;       // v if there are bounds; otherwise empty
  std::vector<double> weighted;  // sum_j c_j d_j of an averaged iterate; empty if averaging is off
  double proximity = 0;          // k
  int64_t rewritten = 0;         // how often all of W was written; copies from before are then out of date
  int threads = 1;               // for loops over all of a large W; set to the number of the last pass

  // With a kernel, the first `coefficients` weights are A and the next ones K A; without one, `coefficients` is 0.
  Weights(size_t size, size_t coefficients) : W(size), coefficients_(coefficients) {}

  double shrink() const { return 1 / (1 + proximity); }
  void set_origin(std::vector<double> m, double square);  // `square`: |m|^2
  void set_metric(Metric given);

  // Frees memory of W and of the centre while nothing uses them. Before `wake`, only `apply_law` may be called.
  // `rest_center` frees only the centre. Only for a plain metric.
  void rest();
  void rest_center();
  void wake() { resting_.give_back(), center_resting_.give_back(); }

  // Computes v from m - sum a psi (from - sum a psi with a metric), in double precision.
  void apply_law(std::vector<double>& q) const;
  void clip(std::vector<double>& v) const;  // computes w from v
  void write(const std::vector<double>& v);

  // -R*(q) with q computed from the running w; not for a metric with a matrix.
  double negative_conjugate() const;
  // R*(q) = <m, q> + 1/2 q' Sigma q, for a metric with a matrix.
  double conjugate_of(const std::vector<double>& q) const;
  // R(w) + R*(q) - <q, w> in the metric: the part of the gap that the proximal term causes.
  double lag() const;
  double squared_distance() const;  // to the centre
  // `negative_conjugate` and `squared_distance` in one pass over W, for a plain metric with a proximal term.
  std::pair<double, double> conjugate_and_distance() const;

  // Sets the centre of a proximal term k, in the layout of W. The caller must write W again afterwards.
  void set_center(const std::vector<double>& z, double k);

  // The outer step of accelerated proximal dual ascent: a new centre, with momentum.
  //   z' = w + beta (w - w_previous);   w' = (q + k' z') / (1 + k')   with q = (1 + k) w - k z unchanged
  // With bounds, the unclipped v is updated in this way.
  void recenter(double momentum, double new_proximity);

 private:
  size_t coefficients_;
  double origin_square_ = 0;
  aligned<Real> center_, previous_;  // for the proximal term; empty until it is used
  Resting<Real> resting_;            // frees W
  Resting<Real> center_resting_;     // frees center_ and previous_

  double without_proximal(size_t j) const;  // v_j for k = 0: m + Sigma q
  // Calls f(first, last, part) on parts of all weights, on several threads if there is enough work to start them.
  template <class F>
  void over_parts(F&& f) const;
  // |u|^2 and |v|^2
  template <class F, class G>
  std::pair<double, double> squared_lengths(F&& u, G&& v) const;
  template <class F>
  double squared_length(F&& u) const;
};

extern template class Weights<float>;
extern template class Weights<double>;

}  // namespace mm
