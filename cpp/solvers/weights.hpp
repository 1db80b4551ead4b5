// w, and the law that ties it to q = - sum_i sum_y a_i(y) psi_i(y), the weighted sum of vectors.
//
//   w = (q + k z) / (1 + k)
//
// z is the centre of a proximal term k/2 |w - z|^2; k = 0 is the plain problem.
// With an origin m, for a prior around m, q stands for m - sum a psi throughout:
//   R(w) = 1/2 |w - m|^2,   D(a) = sum a Delta - 1/2 |q|^2 + 1/2 |m|^2
// With a metric (metric.hpp) q stands for m - Sigma sum a psi, and the proximal term is k/2 |w - z|^2 in it;
// with bounds w = max(lower, v), and v = (q + k z) / (1 + k) is kept unclipped besides.
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

// The sums of f(j) and of g(j) over [first, last): eight of each side by side, since one would wait for itself at each
// step.
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
  Metric metric;                 // of a prior with several scales, and bounds; else plain
  aligned<Real> unclipped;       // v, where there are bounds; else empty
  std::vector<double> weighted;  // sum_j c_j d_j of an averaged iterate; empty unless asked for
  double proximity = 0;          // k
  int64_t rewritten = 0;         // how often W changed as a whole: copies of it are old then
  int threads = 1;               // for what goes over all of a large W: those of the last pass

  // Under a kernel the first `coefficients` weights are A, the next K A; else none are.
  Weights(size_t size, size_t coefficients) : W(size), coefficients_(coefficients) {}

  double shrink() const { return 1 / (1 + proximity); }
  void set_origin(std::vector<double> m, double square);  // `square`: |m|^2
  void set_metric(Metric given);

  // Gives memory back while nobody reads or writes W: until `wake` its numbers are not there. What else reads them here, or
  // the centre, is not to be called either, but for the law. `rest_center` leaves W where it is. Without a metric.
  void rest();
  void rest_center();
  void wake() { resting_.give_back(), center_resting_.give_back(); }

  // From m - sum a psi (under a metric without m), in double precision: v by the law.
  void apply_law(std::vector<double>& q) const;
  void clip(std::vector<double>& v) const;  // w
  void write(const std::vector<double>& v);

  // -R*(q) with q read off the running w; without a matrix.
  double negative_conjugate() const;
  // R*(q) = <m, q> + 1/2 q' Sigma q with a matrix.
  double conjugate_of(const std::vector<double>& q) const;
  // R(w) + R*(q) - <q, w> in the metric: by how much the proximal term keeps w from the law of q.
  double lag() const;
  double squared_distance() const;  // to the centre
  // Both, in one walk over W: in a plain metric, with a proximal term.
  std::pair<double, double> conjugate_and_distance() const;

  // The centre of a proximal term k, in the layout of W, which is to be written again afterwards.
  void set_center(const std::vector<double>& z, double k);

  // The outer step of accelerated proximal dual ascent: a new centre, with momentum.
  //   z' = w + beta (w - w_previous);   w' = (q + k' z') / (1 + k')   with q = (1 + k) w - k z unchanged
  // With bounds it is the unclipped v that follows the law.
  void recenter(double momentum, double new_proximity);

 private:
  size_t coefficients_;
  double origin_square_ = 0;
  aligned<Real> center_, previous_;  // of the proximal term; empty while it was never used
  Resting<Real> resting_;            // W
  Resting<Real> center_resting_;     // these two

  double without_proximal(size_t j) const;  // v_j for k = 0: m + Sigma q
  // Calls f(first, last, part) on parts of all weights, on several threads where that is worth starting them.
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
