// Work over a range of blocks, split over threads of our own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

namespace mm {

// Calls work(first, last, thread) on `threads` contiguous parts of [0, n).
template <class Work>
void parallel(int64_t n, int threads, Work&& work) {
  threads = static_cast<int>(std::max<int64_t>(1, std::min<int64_t>(threads, n)));
  if (threads == 1) return work(int64_t{0}, n, 0);
  std::vector<std::thread> pool;
  for (int k = 0; k < threads; ++k)
    pool.emplace_back([&, k] { work(n * k / threads, n * (k + 1) / threads, k); });
  for (auto& thread : pool) thread.join();
}

}  // namespace mm
