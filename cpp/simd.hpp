// Vectors of reals, as wide as the instruction set for which the file is compiled.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <type_traits>
#include <vector>

#include "portable.hpp"
#include "runtime/pages.hpp"

#if MM_GNU && !defined(MAXMARGIN_PLAIN_LANES)
#define MM_VECTORS 1  // vector types of the compiler
#else
#define MM_VECTORS 0  // arrays, which the compiler may vectorise
#endif
#if MM_VECTORS && (defined(__AVX2__) || defined(__SSE2__))
#include <immintrin.h>
#endif

namespace mm {

#if defined(__AVX2__)
constexpr int vector_bytes = 32;
#else
constexpr int vector_bytes = 16;  // the compiler splits wider types badly on narrow machines
#endif

#if MM_VECTORS
template <class Real>
struct Vector {
  typedef Real type __attribute__((vector_size(vector_bytes)));
  static constexpr int lanes = vector_bytes / static_cast<int>(sizeof(Real));
};
#else
template <class Real>
struct Vector {
  static constexpr int lanes = vector_bytes / static_cast<int>(sizeof(Real));
  struct type {
    Real lane[lanes] = {};
    Real operator[](int k) const { return lane[k]; }
    Real& operator[](int k) { return lane[k]; }
    template <class F>
    static type each(F&& f) {
      type v;
      for (int k = 0; k < lanes; ++k) v.lane[k] = f(k);
      return v;
    }
    template <class F>
    static int bits(F&& f) {
      int found = 0;
      for (int k = 0; k < lanes; ++k) found |= f(k) << k;
      return found;
    }
    friend type operator+(const type& a, const type& b) {
      return each([&](int k) { return a[k] + b[k]; });
    }
    friend type operator*(const type& a, const type& b) {
      return each([&](int k) { return a[k] * b[k]; });
    }
    type& operator+=(const type& b) { return *this = *this + b; }
  };
};
#endif
template <class Real>
using vec = typename Vector<Real>::type;

// Row length of a table with `n` columns. It is a multiple of the vector width, so that kernels need no tail
// loop.
template <class Real>
constexpr int padded(int n) {
  constexpr int lanes = Vector<Real>::lanes;
  return (n + lanes - 1) / lanes * lanes;
}

template <class Real>
inline vec<Real> load(const Real* p) {
  vec<Real> v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class Real>
inline void store(Real* p, vec<Real> v) {
  std::memcpy(p, &v, sizeof v);
}
template <class Real>
inline vec<Real> broadcast(Real x) {
#if MM_VECTORS
  return x - vec<Real>{};
#else
  return vec<Real>::each([&](int) { return x; });
#endif
}
// A vector with x in one lane, and zero in the others.
template <class Real>
inline vec<Real> one_lane(int lane, Real x) {
  constexpr int lanes = Vector<Real>::lanes;
  static constexpr auto window = [] {
    std::array<Real, 2 * lanes - 1> all{};
    all[lanes - 1] = 1;
    return all;
  }();
  return broadcast(x) * load(window.data() + (lanes - 1 - lane));
}
// Loads as many numbers of another type as a vector of reals holds, and converts them.
template <class Real, class T>
inline vec<Real> load_as(const T* p) {
  if constexpr (std::is_same_v<Real, T>) {
    return load<Real>(p);
  } else {
#if MM_VECTORS
    typedef T source __attribute__((vector_size(Vector<Real>::lanes * sizeof(T))));
    source v;
    std::memcpy(&v, p, sizeof v);
    return __builtin_convertvector(v, vec<Real>);
#else
    return vec<Real>::each([&](int k) { return static_cast<Real>(p[k]); });
#endif
  }
}
template <class Real>
inline Real sum_of_lanes(vec<Real> v) {
  Real sum = 0;
  for (int k = 0; k < Vector<Real>::lanes; ++k) sum += v[k];
  return sum;
}

// The same by halves: fewer dependent additions, but another order of summation, and so other rounding.
template <class Real>
inline Real sum_by_halves(vec<Real> v) {
#if MM_VECTORS && defined(__AVX2__)
  if constexpr (sizeof(Real) == sizeof(float)) {
    __m128 half = _mm_add_ps(_mm256_castps256_ps128((__m256)v), _mm256_extractf128_ps((__m256)v, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
  }
#endif
  return sum_of_lanes<Real>(v);
}

// Sums vectors of reals in double precision.
template <class Real>
class WideSum {
 public:
  void add(vec<double> v) { low_ += v; }
#if MM_VECTORS && defined(__AVX2__)
  void add(vec<float> v) {
    low_ += (vec<double>)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)v));
    high_ += (vec<double>)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)v, 1));
  }
#elif MM_VECTORS && defined(__SSE2__)
  void add(vec<float> v) {
    low_ += (vec<double>)_mm_cvtps_pd((__m128)v);
    high_ += (vec<double>)_mm_cvtps_pd(_mm_movehl_ps((__m128)v, (__m128)v));
  }
#else
  void add(vec<float> v) {
    for (int k = 0; k < Vector<float>::lanes; ++k) low_[k % Vector<double>::lanes] += v[k];
  }
#endif
  double total() const { return sum_of_lanes<double>(low_ + high_); }

 private:
  vec<double> low_ = {}, high_ = {};
};

// Calls f<N>(column) for all columns of a table, N <= 4 vectors at a time. Rows must be whole vectors.
template <class Real, class F>
inline void by_vectors(int stride, F&& f) {
  constexpr int lanes = Vector<Real>::lanes;
  for (int column = 0; column < stride; column += 4 * lanes) {
    switch ((stride - column) / lanes) {
      case 1:
        f.template operator()<1>(column);
        break;
      case 2:
        f.template operator()<2>(column);
        break;
      case 3:
        f.template operator()<3>(column);
        break;
      default:
        f.template operator()<4>(column);
    }
  }
}

// Compilers do not fold a comparison and a blend into one `max` under IEEE rules, so this uses intrinsics.
#if MM_VECTORS && defined(__AVX2__)
inline vec<float> maximum(vec<float> a, vec<float> b) {
  return (vec<float>)_mm256_max_ps((__m256)a, (__m256)b);
}
inline vec<double> maximum(vec<double> a, vec<double> b) {
  return (vec<double>)_mm256_max_pd((__m256d)a, (__m256d)b);
}
inline vec<double> minimum(vec<double> a, vec<double> b) {
  return (vec<double>)_mm256_min_pd((__m256d)a, (__m256d)b);
}
#elif MM_VECTORS && defined(__SSE2__)
inline vec<float> maximum(vec<float> a, vec<float> b) { return (vec<float>)_mm_max_ps((__m128)a, (__m128)b); }
inline vec<double> maximum(vec<double> a, vec<double> b) {
  return (vec<double>)_mm_max_pd((__m128d)a, (__m128d)b);
}
inline vec<double> minimum(vec<double> a, vec<double> b) {
  return (vec<double>)_mm_min_pd((__m128d)a, (__m128d)b);
}
#elif MM_VECTORS
inline vec<float> maximum(vec<float> a, vec<float> b) { return a > b ? a : b; }
inline vec<double> maximum(vec<double> a, vec<double> b) { return a > b ? a : b; }
inline vec<double> minimum(vec<double> a, vec<double> b) { return a < b ? a : b; }
#else
template <class V>
inline V maximum(const V& a, const V& b) {
  return V::each([&](int k) { return a[k] > b[k] ? a[k] : b[k]; });
}
template <class V>
inline V minimum(const V& a, const V& b) {
  return V::each([&](int k) { return a[k] < b[k] ? a[k] : b[k]; });
}
#endif

template <class Real>
inline Real largest_lane(vec<Real> v) {
#if MM_VECTORS && defined(__AVX2__)
  if constexpr (sizeof(Real) == sizeof(float)) {
    __m128 half = _mm_max_ps(_mm256_castps256_ps128((__m256)v), _mm256_extractf128_ps((__m256)v, 1));
    half = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
  }
#endif
  Real top = v[0];
  for (int k = 1; k < Vector<Real>::lanes; ++k) top = v[k] > top ? v[k] : top;
  return top;
}

// Returns a bit for each lane in which a comparison holds.
#if MM_VECTORS
template <class Lanes>
inline int bits_of(Lanes holds) {
#if defined(__AVX2__)
  if constexpr (sizeof(holds[0]) == 4) return _mm256_movemask_ps((__m256)holds);
  if constexpr (sizeof(holds[0]) == 8) return _mm256_movemask_pd((__m256d)holds);
#endif
  int bits = 0;
  for (int n = 0; n < static_cast<int>(sizeof(Lanes) / sizeof(holds[0])); ++n) bits |= (holds[n] != 0) << n;
  return bits;
}
template <class V>
inline int lanes_above(V a, V b) {
  return bits_of(a > b);
}
template <class V>
inline int lanes_at_least(V a, V b) {
  return bits_of(a >= b);
}
template <class V>
inline int lanes_different(V a, V b) {
  return bits_of(a != b);
}
#else
template <class V>
inline int lanes_above(const V& a, const V& b) {
  return V::bits([&](int k) { return a[k] > b[k]; });
}
template <class V>
inline int lanes_at_least(const V& a, const V& b) {
  return V::bits([&](int k) { return a[k] >= b[k]; });
}
template <class V>
inline int lanes_different(const V& a, const V& b) {
  return V::bits([&](int k) { return a[k] != b[k]; });
}
#endif

// Allocates memory aligned to cache lines; large blocks use large pages. std::vector zeroes it.
template <class T>
struct AlignedAllocator {
  using value_type = T;
  AlignedAllocator() = default;
  template <class U>
  AlignedAllocator(const AlignedAllocator<U>&) {}
  T* allocate(std::size_t n) {
    T* found = static_cast<T*>(::operator new(n * sizeof(T), alignment(n)));
    in_large_pages(found, found + n);
    return found;
  }
  void deallocate(T* p, std::size_t n) { ::operator delete(p, alignment(n)); }
  static std::align_val_t alignment(std::size_t n) {
    return std::align_val_t(n * sizeof(T) < 2 * large_page ? 64 : large_page);
  }
  bool operator==(const AlignedAllocator&) const = default;
};
template <class T>
using aligned = std::vector<T, AlignedAllocator<T>>;

}  // namespace mm
