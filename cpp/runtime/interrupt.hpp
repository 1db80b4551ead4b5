// Ends a long pass early: at a deadline, or on Ctrl-C.
//
// Kernels call `poll()` when their state is consistent, for instance between two visits. It throws TimeUp after the
// deadline of its thread, or the exception of `on_signals` if the user has pressed Ctrl-C. The clock is read once in
// up to 64 calls and at least every few milliseconds. The other calls cost a few instructions.
//
// Threads that work together are a team. The deadline of the thread that started the work holds for all of them. If one
// of them fails, the others leave at their next poll. A member may start another team inside: it belongs to both.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <limits>

#include "runtime/process.hpp"

namespace mm {

struct TimeUp : std::exception {
  const char* what() const noexcept override { return "the time is up"; }
};
struct Abandoned {};  // another member of a team has failed

class Interrupt {
 public:
  // Called by the leading thread, about 20 times per second; may throw. The bindings set it once.
  static inline void (*on_signals)() = nullptr;

  static Interrupt& here() {
    thread_local constinit Interrupt own;
    return own;
  }

  void poll() {
    if (--left_ <= 0) look();
  }

  // Sets the deadline, in seconds of `now`; infinity: none. Returns the previous deadline.
  double set_deadline(double time) {
    const double before = deadline_;
    deadline_ = time;
    left_ = calls_ = 1;  // the next calls may be slower than the last ones
    return before;
  }
  static double now();

  // The threads of one piece of work. The thread that starts the work owns this object until all threads have ended.
  class Team {
   public:
    Team() : leader_(here().leader()), outer_(here().team_) {}
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;
    void abandon() { abandoned_ = true; }
    bool abandoned() const { return abandoned_ || (outer_ && outer_->abandoned()); }
    // Whether this process is a child that was forked meanwhile. It has at most one thread of the team.
    bool forked() const { return process_ != process_generation(); }

   private:
    friend class Interrupt;
    Interrupt& leader_;
    const Team* const outer_;  // the team of the thread that starts this team, if any
    const uint32_t process_ = process_generation();
    std::atomic<bool> abandoned_ = false;
  };

  // Makes the calling thread a member, for as long as this object lives.
  class Member {
   public:
    explicit Member(const Team& team) : own_(here()), before_(own_.team_) { own_.team_ = &team; }
    ~Member() { own_.team_ = before_; }
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

   private:
    Interrupt& own_;
    const Team* before_;
  };

 private:
  static constexpr double often = 2e-3,
                          seldom = 50e-3;  // seconds between looks at the clock, and at signals
  static constexpr int most_calls = 64;    // polls between two looks, since visits differ in size

  double deadline_ = std::numeric_limits<double>::infinity();
  double looked_ = 0, asked_ = 0;
  int left_ = 1, calls_ = 1;
  const Team* team_ = nullptr;

  Interrupt& leader() { return team_ ? team_->leader_ : *this; }
  void look();
};

inline void poll() { Interrupt::here().poll(); }

}  // namespace mm
