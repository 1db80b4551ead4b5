// Work over a range of blocks, split over threads of our own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

#include "runtime/interrupt.hpp"

namespace mm {

constexpr int64_t most_threads = 256;

// Calls work(first, last, thread) on `threads` contiguous parts of [0, n). Where the system gives no more
// threads, the caller's own does the rest; the first exception of any part is thrown when all have ended.
template <class Work>
void parallel(int64_t n, int threads, Work&& work) {
  threads =
      static_cast<int>(std::max<int64_t>(1, std::min({static_cast<int64_t>(threads), n, most_threads})));
  if (threads == 1) return work(int64_t{0}, n, 0);
  std::vector<std::exception_ptr> failed(threads);
  Interrupt& leader = Interrupt::here().leader();
  const auto part = [&](int k) {
    try {
      const Interrupt::Follower follower(leader);
      work(n * k / threads, n * (k + 1) / threads, k);
    } catch (const Abandoned&) {  // the reason is with another part
    } catch (...) {
      failed[k] = std::current_exception();
      leader.abandon(true);
    }
  };
  std::vector<std::thread> pool;
  pool.reserve(threads);
  int started = 0;
  try {
    for (; started < threads - 1; ++started) pool.emplace_back(part, started);
  } catch (const std::system_error&) {
  }
  for (int k = started; k < threads; ++k) part(k);
  for (auto& thread : pool) thread.join();
  leader.abandon(false);
  for (const auto& error : failed)
    if (error) std::rethrow_exception(error);
}

}  // namespace mm
