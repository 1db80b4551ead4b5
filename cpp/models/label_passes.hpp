// Passes over an array with one number per label, for many labels, a vector at a time.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "simd.hpp"

namespace mm {

// The maximum of each group of labels. Labels with the same remainder modulo `groups` form a group, so that
// no operation across the lanes of a vector is needed.
template <class Real>
class Peaks {
 public:
  static constexpr int groups = 16;

  // Sets F[k] = at(k) for the `stride` labels; `stride` is a multiple of the vector width.
  template <class At>
  void fill(Real* F, int stride, const At& at) {
    vec<Real> top[ways];
    for (auto& x : top) x = broadcast(-std::numeric_limits<Real>::infinity());
    const auto take = [&](int k, int way) {
      const vec<Real> x = at(k);
      store(F + k, x);
      top[way] = maximum(top[way], x);
    };
    int first = 0;
    for (; first + groups <= stride; first += groups)
      for (int n = 0; n < ways; ++n) take(first + n * lanes, n);
    for (int n = 0; first + n * lanes < stride; ++n) take(first + n * lanes, n);
    for (int n = 0; n < ways; ++n) store(best_ + n * lanes, top[n]);
  }

  // Returns the n-th largest of the maxima of the groups.
  Real of_best(int n) const {
    int32_t above[groups] = {};
    for (int a = 0; a < groups; ++a)
      for (int b = 0; b < groups; ++b) above[b] += best_[a] > best_[b];
    Real least = std::numeric_limits<Real>::infinity();
    for (int b = 0; b < groups; ++b)
      if (above[b] < n) least = std::min(least, best_[b]);
    return least;
  }

 private:
  static constexpr int lanes = Vector<Real>::lanes, ways = groups / lanes;
  Real best_[groups];
};

// Lists the labels whose bit is set, and returns their number. `bits(k)` has one bit for each lane of the
// vector that starts at label k.
template <class Real, class Bits>
int list_labels(int stride, int32_t* out, const Bits& bits) {
  const int32_t* first = out;
  for (int from = 0; from < stride; from += 64) {
    uint64_t found = 0;
    const int size = std::min(stride - from, 64);
    for (int k = 0; k < size; k += Vector<Real>::lanes) found |= static_cast<uint64_t>(bits(from + k)) << k;
    for (; found; found &= found - 1) *out++ = from + std::countr_zero(found);
  }
  return static_cast<int>(out - first);
}

}  // namespace mm
