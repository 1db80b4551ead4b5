#include "runtime/crew.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <system_error>
#include <thread>

#include "portable.hpp"
#include "runtime/interrupt.hpp"
#include "runtime/process.hpp"

namespace mm {

// The shared state of a crew. All members except the two atomic numbers are protected by the mutex.
struct Crew::Desk {
  std::mutex mutex;
  std::condition_variable news;
  std::atomic<uint64_t> turn = 0;  // number of pieces of work so far; the end counts as one
  std::atomic<int> inside = 0;     // helpers at work
  int helpers = 0, asleep = 0, begun = 0, most = 0;
  bool ended = false;
  const uint32_t process = process_generation();  // the process that has the helpers
  struct Work {
    Share call = nullptr;
    const void* object = nullptr;
    const Interrupt::Team* team = nullptr;
  } work;

  // Runs on a helper: does its part of the current work, if a part is left.
  void help() {
    int k = 0;
    Work own;  // a copy: the leader may reset `work`, but waits for helpers that are inside
    {
      const std::lock_guard lock(mutex);
      if (!work.call || begun == most) return;
      k = ++begun, own = work;
      inside.fetch_add(1, std::memory_order_relaxed);
    }
    {
      const Interrupt::Member member(*own.team);
      own.call(own.object, k);
    }
    inside.fetch_sub(1, std::memory_order_release);
  }

  // Waits until `turn` changes. It spins at first, because waking from sleep takes long.
  void wait(uint64_t known) {
    constexpr auto awake = std::chrono::microseconds(300);
    constexpr int looks = 50;  // spins between two readings of the clock
    const auto began = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - began < awake)
      for (int k = 0; k < looks; ++k, spin())
        if (turn.load(std::memory_order_acquire) != known) return;
    std::unique_lock lock(mutex);
    ++asleep;
    news.wait(lock, [&] { return turn.load(std::memory_order_relaxed) != known; });
    --asleep;
  }

  static void serve(const std::shared_ptr<Desk>& desk) {
    for (uint64_t known = 0;;) {
      desk->wait(known);
      known = desk->turn.load(std::memory_order_acquire);
      {
        const std::lock_guard lock(desk->mutex);
        if (desk->ended) return;
      }
      desk->help();
    }
  }

  void tell() {
    turn.fetch_add(1, std::memory_order_release);
    if (asleep > 0) news.notify_all();
  }
};

Crew::Crew() : desk_(std::make_shared<Desk>()) {}

Crew::~Crew() {
  if (forked()) {
    leave();
    return;
  }
  const std::lock_guard lock(desk_->mutex);
  desk_->ended = true;
  desk_->tell();
}

bool Crew::forked() const { return desk_->process != process_generation(); }

// The desk is leaked on purpose. A thread that does not exist in this process may hold its mutex or wait for its
// condition variable, and the destructor would wait for that thread.
void Crew::leave() { new std::shared_ptr<Desk>(std::move(desk_)); }

void Crew::run(int threads, const void* work, Share share) {
  if (forked()) {
    leave();
    desk_ = std::make_shared<Desk>();
  }
  Desk& desk = *desk_;
  const Interrupt::Team team;
  {
    const std::lock_guard lock(desk.mutex);
    desk.work = {share, work, &team};
    desk.begun = 0, desk.most = threads - 1;
    try {
      for (; desk.helpers < threads - 1; ++desk.helpers) std::thread(Desk::serve, desk_).detach();
    } catch (const std::system_error&) {
    }
    desk.tell();
  }
  {
    const Interrupt::Member member(team);
    share(work, 0);
  }
  if (forked()) return;  // no helper exists in this process
  {
    const std::lock_guard lock(desk.mutex);
    desk.work = {};
  }
  while (desk.inside.load(std::memory_order_acquire) > 0) std::this_thread::yield();
}

}  // namespace mm
