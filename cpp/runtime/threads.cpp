#include "runtime/threads.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <stdexcept>
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
  if (team_ && team_->abandoned()) throw Abandoned();
  if (time >= leader().deadline_) throw TimeUp();
  if (&leader() != this || !on_signals || time - asked_ < seldom) return;
  asked_ = time;
  on_signals();
  if (team_ && team_->forked())
    throw std::runtime_error(
        "the process was forked inside a pass of several threads, and this child has only one of them. "
        "Start the pass again in the child.");
}

namespace {

// The parts of one call. Threads take the parts one by one.
struct Parts {
  int64_t n;
  int count;
  const void* work;
  PartOfWork call;
  Interrupt::Team team;
  std::atomic<int> taken = 0;
  std::atomic<bool> left = false;  // some parts were not done
  std::vector<std::exception_ptr> failed = std::vector<std::exception_ptr>(count);

  void take_all() {
    const Interrupt::Member member(team);
    for (int k; (k = taken.fetch_add(1)) < count;) {
      if (team.abandoned()) {
        left = true;
        return;
      }
      try {
        call(work, n * k / count, n * (k + 1) / count, k);
      } catch (const Abandoned&) {  // another part, or an outer team, has the cause
        left = true;
      } catch (...) {
        failed[k] = std::current_exception();
        team.abandon();
      }
    }
  }
};

}  // namespace

void run_parts(int64_t n, int count, const void* work, PartOfWork call) {
  count = static_cast<int>(std::clamp<int64_t>(std::min<int64_t>(count, n), 1, most_threads));
  if (count == 1) return call(work, 0, n, 0);
  const int threads = std::min(count, usable_cores());
  Parts parts{n, count, work, call};
  std::vector<std::thread> pool;
  pool.reserve(threads);
  try {
    while (static_cast<int>(pool.size()) < threads - 1) pool.emplace_back([&] { parts.take_all(); });
  } catch (const std::system_error&) {
  }
  parts.take_all();
  if (parts.team.forked())
    new std::vector<std::thread>(std::move(pool));  // leaked on purpose: these threads do not exist here
  for (auto& thread : pool) thread.join();
  for (const auto& error : parts.failed)
    if (error) std::rethrow_exception(error);
  if (parts.left) throw Abandoned();
}

}  // namespace mm
