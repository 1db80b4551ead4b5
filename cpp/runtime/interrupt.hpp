// How a long pass ends before its end: at a deadline, or by Ctrl-C.
//
// Kernels call `poll()` where their state is whole, between two visits for instance. It throws TimeUp after the
// deadline of its thread, or what `on_signals` throws where the user has pressed Ctrl-C. The clock is read once in
// up to 64 calls and at least every few milliseconds; between these a call costs a few instructions.
//
// The threads of `parallel` follow the one that started them: its deadline holds for all of them, and when one of
// them fails the others leave at their next poll.
#pragma once

#include <atomic>
#include <exception>
#include <limits>

namespace mm {

struct TimeUp : std::exception {
  const char* what() const noexcept override { return "the time is up"; }
};
struct Abandoned {};  // another thread of the same work has failed

class Interrupt {
 public:
  // Asked by the thread that leads, about 20 times per second; may throw. Set once, by the bindings.
  static inline void (*on_signals)() = nullptr;

  static Interrupt& here() {
    thread_local constinit Interrupt own;
    return own;
  }

  void poll() {
    if (--left_ <= 0) look();
  }

  // In seconds of `now`; infinity: none. Returns the deadline before.
  double set_deadline(double time) {
    const double before = deadline_;
    deadline_ = time;
    left_ = calls_ = 1;  // what comes may be slower than what was
    return before;
  }
  static double now();

  // A thread of `parallel`, for as long as this object lives.
  class Follower {
   public:
    explicit Follower(Interrupt& leader) : own_(here()), before_(own_.leader_) {
      if (&leader != &own_) own_.leader_ = &leader;
    }
    ~Follower() { own_.leader_ = before_; }
    Follower(const Follower&) = delete;
    Follower& operator=(const Follower&) = delete;

   private:
    Interrupt& own_;
    Interrupt* before_;
  };
  void abandon(bool all) { abandoned_ = all; }
  Interrupt& leader() { return leader_ ? *leader_ : *this; }

 private:
  static constexpr double often = 2e-3,
                          seldom = 50e-3;  // seconds between two looks at the clock, at the signals
  static constexpr int most_calls = 64;    // between two looks at the clock: visits differ in size

  double deadline_ = std::numeric_limits<double>::infinity();
  double looked_ = 0, asked_ = 0;
  int left_ = 1, calls_ = 1;
  Interrupt* leader_ = nullptr;
  std::atomic<bool> abandoned_ = false;

  void look();
};

inline void poll() { Interrupt::here().poll(); }

}  // namespace mm
