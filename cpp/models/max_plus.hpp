// The product of a vector and a matrix in the max-plus algebra: a step of Viterbi.
#pragma once

#include <cstdint>

#include "simd.hpp"

namespace mm {

// out = max_j (from[j] + A[j, :]) for N vectors of columns; rows of A are `stride` apart.
template <class Real, int N>
void max_plus(const Real* from, const Real* A, int64_t stride, int rows, Real* out) {
  constexpr int lanes = Vector<Real>::lanes;
  vec<Real> top[N];
  for (int n = 0; n < N; ++n) top[n] = broadcast(from[0]) + load(A + n * lanes);
  for (int j = 1; j < rows; ++j) {
    const vec<Real> f = broadcast(from[j]);
    const Real* a = A + j * stride;
    for (int n = 0; n < N; ++n) top[n] = maximum(top[n], f + load(a + n * lanes));
  }
  for (int n = 0; n < N; ++n) store(out + n * lanes, top[n]);
}

}  // namespace mm
