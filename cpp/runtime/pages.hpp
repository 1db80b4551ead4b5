// Memory that is visited in any order, in large pages where the system has them: the processor then finds its addresses
// without a walk through tables for every visit.
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

// A vector whose numbers are not set to zero: for memory that is written as a whole anyway.
template <class T>
struct UnwrittenAllocator : std::allocator<T> {
  template <class U>
  void construct(U* p) {
    ::new (static_cast<void*>(p)) U;
  }
};
template <class T>
using Unwritten = std::vector<T, UnwrittenAllocator<T>>;

// A vector of zeros that takes no memory before it is written.
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
// Tells the system something about the whole pages between two addresses, where these are `least` bytes or more. Pages of
// the system: a length that ends inside a larger page would be rounded up, beyond `last`.
inline void advise(const void* first, const void* last, size_t least, int advice) {
  static const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t from = (reinterpret_cast<uintptr_t>(first) + page - 1) / page * page;
  const uintptr_t to = reinterpret_cast<uintptr_t>(last) / page * page;
  if (to >= from + least) madvise(reinterpret_cast<void*>(from), to - from, advice);  // or not: it may refuse
}
#endif

// Gives the pages between two numbers back to the system, where it takes them: what is there is lost.
template <class T>
void forget([[maybe_unused]] T* first, [[maybe_unused]] T* last) {
#if defined(__linux__)
  advise(first, last, 1, MADV_DONTNEED);
#endif
}

constexpr size_t large_page = 2 * 1024 * 1024;
// Asks for large pages between two numbers, before anything is written there; not for few.
template <class T>
void in_large_pages([[maybe_unused]] T* first, [[maybe_unused]] T* last) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  advise(first, last, 2 * large_page, MADV_HUGEPAGE);
#endif
}
// Reserves a vector; before anything is written to it.
template <class V>
void reserve_in_large_pages(V& v, size_t size) {
  v.reserve(size);
  in_large_pages(v.data(), v.data() + size);
}

}  // namespace mm
