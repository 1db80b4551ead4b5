// A sum over many, as a few of them show it: what a look at all would cost is not worth it.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "shuffle.hpp"

namespace mm {

// f(0) + ... + f(n - 1) and its standard error, by runs of neighbours from anywhere; by an eighth of the sample where
// that is far above what would be `enough`.
template <class F>
double sampled_sum(size_t n, size_t run, double enough, uint64_t& seed, F&& f) {
  constexpr size_t sample = 512;
  double sum = 0, squares = 0, all = 0;
  for (size_t looks = 0; looks < sample && (looks != sample / 8 || all <= 3 * enough);) {
    const size_t first = mixed(seed) % n;
    for (size_t k = 0; k < run; ++k, ++looks) {
      const double value = f((first + k) % n);
      sum += value, squares += value * value;
    }
    all = (sum + std::sqrt(squares)) * static_cast<double>(n) / static_cast<double>(looks);
  }
  return all;
}

}  // namespace mm
