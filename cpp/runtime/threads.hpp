// Work over a range of blocks, split over threads of our own.
#pragma once

#include <cstdint>

#include "runtime/interrupt.hpp"

namespace mm {

constexpr int64_t most_threads = 256;

using PartOfWork = void (*)(void* work, int64_t first, int64_t last, int thread);
void split_over_threads(int64_t n, int threads, void* work, PartOfWork call);

// Calls work(first, last, thread) on `threads` contiguous parts of [0, n). Where the system gives no more
// threads, the caller's own does the rest; the first exception of any part is thrown when all have ended.
template <class Work>
void parallel(int64_t n, int threads, const Work& work) {
  split_over_threads(n, threads, const_cast<Work*>(&work),
                     [](void* own, int64_t first, int64_t last, int thread) {
                       (*static_cast<const Work*>(own))(first, last, thread);
                     });
}

}  // namespace mm
