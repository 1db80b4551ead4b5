// Loops over numbers that may not fill whole vectors. The same lambda runs on vectors and on the remaining numbers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "simd.hpp"

namespace mm {

// V is a vector of reals, or a single real at the end of a row that does not fill its last vector.
template <class V, class Real>
inline V take(const Real* p) {
  V v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class V, class Real>
inline void put(Real* p, V v) {
  std::memcpy(p, &v, sizeof v);
}
template <class V, class Real>
inline V spread(Real x) {
  if constexpr (std::is_same_v<V, Real>)
    return x;
  else
    return broadcast(x);
}

struct TwoSums {
  double first, second;
};
// Two sums over n numbers: f<V>(k, sums) adds the terms at k to sums[0] and sums[1]. Up to four vectors are added in
// Real, and their sums in double precision.
template <class Real, class F>
inline TwoSums sums_over(size_t n, F&& f) {
  constexpr size_t lanes = Vector<Real>::lanes, together = 4 * lanes;
  const size_t whole = n / lanes * lanes;
  WideSum<Real> first, second;
  for (size_t k = 0; k < whole; k += together) {
    vec<Real> sums[2] = {};
    for (size_t l = k; l < std::min(whole, k + together); l += lanes)
      f.template operator()<vec<Real>>(l, sums);
    first.add(sums[0]), second.add(sums[1]);
  }
  Real sums[2] = {};
  for (size_t k = whole; k < n; ++k) f.template operator()<Real>(k, sums);
  return {first.total() + sums[0], second.total() + sums[1]};
}

}  // namespace mm
