// Wrappers for features that GCC and Clang (also as clang-cl) spell differently from MSVC.
#pragma once

#if defined(__GNUC__) || defined(__clang__)
#define MM_GNU 1
#else
#define MM_GNU 0
#include <intrin.h>
#endif

namespace mm {

// Prefetches the cache line of an address that will be read soon. GCC would treat a function that only
// prefetches as free of effects, and drop its calls; the empty statement prevents this.
inline void fetch_ahead(const void* p) {
#if MM_GNU
  __builtin_prefetch(p);
  asm volatile("");
#elif defined(_M_X64)
  _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0);
#else
  (void)p;
#endif
}

// Prefetches a cache line that will be written, and that another core may hold.
inline void fetch_to_write(const void* p) {
#if MM_GNU
  __builtin_prefetch(p, 1);
  asm volatile("");
#elif defined(_M_X64)
  _m_prefetchw(p);
#else
  (void)p;
#endif
}

// Call inside a loop that waits for another thread.
inline void spin() {
#if MM_GNU && defined(__x86_64__)
  __builtin_ia32_pause();
#elif !MM_GNU && defined(_M_X64)
  _mm_pause();
#endif
}

// Whether this machine runs code compiled for x86-64-v3 (AVX2, FMA and their companions).
inline bool runs_v3() {
#if MM_GNU && defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2");
#elif !MM_GNU && defined(_M_X64)
  int basic[4], more[4];
  __cpuid(basic, 1);
  __cpuidex(more, 7, 0);
  constexpr int fma = 1 << 12, saved = 1 << 27, avx2 = 1 << 5, bmi = 1 << 3 | 1 << 8;
  if ((basic[2] & (fma | saved)) != (fma | saved)) return false;
  return (_xgetbv(0) & 6) == 6 && (more[1] & (avx2 | bmi)) == (avx2 | bmi);
#else
  return false;
#endif
}

}  // namespace mm
