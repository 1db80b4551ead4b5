// exp of vectors of reals, by bit operations and a polynomial.
//
//     x = n log 2 + r, |r| <= log 2 / 2;     exp(x) = 2^n (1 + r + r^2 / 2 + ...), to the rounding of the type
//
// Below `exp_least` the result is zero; above `exp_most` it is exp(exp_most). Callers subtract the largest
// argument first, so that only negligible terms become zero.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "simd.hpp"

namespace mm {

template <class Real>
constexpr Real exp_least = std::is_same_v<Real, float> ? Real(-87) : Real(-708);
template <class Real>
constexpr Real exp_most = std::is_same_v<Real, float> ? Real(88) : Real(709);

template <class Real>
constexpr Real inverse_factorial(int k) {
  double product = 1;
  for (int j = 2; j <= k; ++j) product *= j;
  return static_cast<Real>(1 / product);
}

template <class Real>
inline vec<Real> exponential(vec<Real> given) {
#if !MM_VECTORS
  return vec<Real>::each([&](int k) {
    return given[k] >= exp_least<Real> ? std::exp(std::min(given[k], exp_most<Real>)) : Real(0);
  });
#else
  constexpr bool single = std::is_same_v<Real, float>;
  using Bits = std::conditional_t<single, int32_t, int64_t>;
  constexpr int mantissa = single ? 23 : 52, terms = single ? 7 : 13;
  constexpr Bits bias = single ? 127 : 1023;
  // Adding and subtracting this constant rounds to a whole number, and leaves its bits in the lowest places.
  constexpr Real whole = single ? Real(12582912.0f) : Real(6755399441055744.0);
  constexpr Real high = single ? Real(0.693359375f) : Real(6.93147180369123816490e-01);
  constexpr Real low = single ? Real(-2.12194440e-4f) : Real(1.90821492927058770002e-10);
  const auto known = given >= broadcast(exp_least<Real>);  // false for NaN
  const vec<Real> most = broadcast(exp_most<Real>);
  vec<Real> x = known ? given : vec<Real>{};
  x = x < most ? x : most;
  const vec<Real> shifted = x * Real(1.44269504088896340736) + whole;
  const vec<Real> n = shifted - whole;
  const vec<Real> r = (x - n * high) - n * low;
  vec<Real> sum = broadcast(inverse_factorial<Real>(terms));
  for (int k = terms - 1; k >= 0; --k) sum = sum * r + inverse_factorial<Real>(k);
  const vec<Bits> power = ((vec<Bits>)shifted + bias) << mantissa;
  const vec<Real> result = sum * (vec<Real>)power;
  return known ? result : vec<Real>{};
#endif
}

// out = exp(x - top) for `size` numbers, a multiple of the vector width.
template <class Real>
inline void exponentials(const Real* x, Real top, int size, Real* out) {
  constexpr int lanes = Vector<Real>::lanes;
  for (int k = 0; k < size; k += lanes) store(out + k, exponential<Real>(load(x + k) + broadcast(-top)));
}

// log sum_k exp(x[k]); x may contain minus infinity.
inline double log_sum(const double* x, int64_t n) {
  const double top = *std::max_element(x, x + n);
  if (top == -std::numeric_limits<double>::infinity()) return top;
  double sum = 0;
  for (int64_t k = 0; k < n; ++k) sum += std::exp(x[k] - top);
  return top + std::log(sum);
}

}  // namespace mm
