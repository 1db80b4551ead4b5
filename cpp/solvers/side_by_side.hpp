// Loops over numbers that may not fill whole vectors: the same lambda for vectors and for what is left, with two sums.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "simd.hpp"

namespace mm {

// V: a vector of reals, or one real at the end of a row that is not made of vectors.
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
// f<V>(k, sums) adds to sums[0] and sums[1] what is at k, for all n numbers. Four vectors are added in Real, the rest in
// double precision.
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
