// Memory that is read in random order, in large pages if the system has them. The processor then finds addresses
// without a walk through page tables for every visit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace mm {

// A vector whose numbers are not initialised, for memory that is completely written anyway.
template <class T>
struct UnwrittenAllocator : std::allocator<T> {
  template <class U>
  void construct(U* p) {
    ::new (static_cast<void*>(p)) U;
  }
};
template <class T>
using Unwritten = std::vector<T, UnwrittenAllocator<T>>;

// A vector of zeros that takes no memory until it is written.
template <class T>
struct ZeroAllocator : std::allocator<T> {
  T* allocate(size_t n) {
    void* found = std::calloc(n, sizeof(T));
    if (!found) throw std::bad_alloc();
    return static_cast<T*>(found);
  }
  void deallocate(T* p, size_t) { std::free(p); }
  template <class U>
  void construct(U*) {}
};
template <class T>
using Zeros = std::vector<T, ZeroAllocator<T>>;

#if defined(__linux__)
// Calls madvise for the whole pages between two addresses, if they have `least` bytes or more. The page size is the
// system's: with large pages the system would round the length up, beyond `last`.
inline void advise(const void* first, const void* last, size_t least, int advice) {
  static const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t from = (reinterpret_cast<uintptr_t>(first) + page - 1) / page * page;
  const uintptr_t to = reinterpret_cast<uintptr_t>(last) / page * page;
  if (to >= from + least) madvise(reinterpret_cast<void*>(from), to - from, advice);  // failure is harmless
}
#endif

// Returns the pages between two addresses to the system, if it takes them. Their content is lost.
template <class T>
void forget([[maybe_unused]] T* first, [[maybe_unused]] T* last) {
#if defined(__linux__)
  advise(first, last, 1, MADV_DONTNEED);
#endif
}

constexpr size_t large_page = 2 * 1024 * 1024;
// Requests large pages between two addresses. Call it before writing there. Short ranges are left alone.
template <class T>
void in_large_pages([[maybe_unused]] T* first, [[maybe_unused]] T* last) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  advise(first, last, 2 * large_page, MADV_HUGEPAGE);
#endif
}
// Reserves a vector in large pages. Call it before writing to the vector.
template <class V>
void reserve_in_large_pages(V& v, size_t size) {
  v.reserve(size);
  in_large_pages(v.data(), v.data() + size);
}

}  // namespace mm
