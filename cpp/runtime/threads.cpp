#include "runtime/threads.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace mm {

double Interrupt::now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void Interrupt::look() {
  const double time = now(), took = time - looked_;
  looked_ = time;
  if (took < often / 2) calls_ = std::min(2 * calls_, most_calls);
  if (took > often) calls_ = std::max(calls_ / 4, 1);
  left_ = calls_;
  if (leader().abandoned_) throw Abandoned();
  if (time >= leader().deadline_) throw TimeUp();
  if (leader_ || !on_signals || time - asked_ < seldom) return;
  asked_ = time;
  on_signals();
}

void split_over_threads(int64_t n, int threads, void* work, PartOfWork call) {
  threads = static_cast<int>(std::clamp<int64_t>(std::min<int64_t>(threads, n), 1, most_threads));
  if (threads == 1) return call(work, 0, n, 0);
  std::vector<std::exception_ptr> failed(threads);
  Interrupt& leader = Interrupt::here().leader();
  const auto part = [&](int k) {
    try {
      const Interrupt::Follower follower(leader);
      call(work, n * k / threads, n * (k + 1) / threads, k);
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
