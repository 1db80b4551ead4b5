// Runs work over a range of blocks on several threads.
//
// No call starts more threads than the process may use cores (cores.hpp), because more would only wait for each
// other. Two functions keep results independent of the machine:
//
//   parallel        Work whose results are the same for any split of the range. The split depends on the number of
//                   cores.
//   parallel_parts  Work whose results depend on the split, such as sums of each part. The split depends on the
//                   arguments only: a thread may do several parts, one after the other.
//
// If the system refuses to start threads, the calling thread does the rest. If a part throws, the other parts end at
// their next poll. When all have ended, the exception of the first part that failed is thrown.
//
// If the process forks inside a call, by a signal handler, the call throws in the child: the other threads do not exist
// there, and their parts are lost.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/cores.hpp"
#include "runtime/interrupt.hpp"

namespace mm {

constexpr int64_t most_threads = 256;

using PartOfWork = void (*)(const void* work, int64_t first, int64_t last, int part);
void run_parts(int64_t n, int parts, const void* work, PartOfWork call);

// Calls work(first, last, part) for contiguous parts of [0, n), whose numbers are 0 .. parts - 1. There are as many
// parts as `parts` says, but at most n.
template <class Work>
void parallel_parts(int64_t n, int parts, const Work& work) {
  run_parts(n, parts, &work, [](const void* own, int64_t first, int64_t last, int part) {
    (*static_cast<const Work*>(own))(first, last, part);
  });
}

// The same with at most `threads` parts, and at most as many as cores.
template <class Work>
void parallel(int64_t n, int threads, const Work& work) {
  parallel_parts(n, threads > 1 ? std::min(threads, usable_cores()) : 1, work);
}

// The number of parts if each has a sum of `length` numbers, and all parts together take about `work` steps. Adding up
// many long sums would take longer than the parts themselves.
inline int parts_with_sums(int threads, int64_t work, size_t length) {
  constexpr int64_t few =
      8;  // sums that are always allowed; more long sums slow down a machine with few cores
  const int64_t worthwhile = std::max(few, work / std::max<int64_t>(1, static_cast<int64_t>(length)));
  return static_cast<int>(std::clamp<int64_t>(threads, 1, std::min(worthwhile, most_threads)));
}

}  // namespace mm
