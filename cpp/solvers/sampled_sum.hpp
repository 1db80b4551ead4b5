// Estimates a sum over many terms from a sample of the terms.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "shuffle.hpp"

namespace mm {

// f(0) + ... + f(n - 1) plus its standard error, from runs of neighbours at random places. An eighth of the sample must
// do if it shows a sum far above `enough`.
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
