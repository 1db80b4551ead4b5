// Threads that persist from one piece of work to the next. To start and to join a thread takes as long as a tenth of
// a short pass.
//
// The leader does not depend on the helpers: a part that no helper has begun when the leader ends is never begun. So
// the leader must be able to do all of the work alone, because the system may refuse to start threads.
//
// A crew knows the process that its helpers belong to. In a child made by fork() it starts new helpers.
#pragma once

#include <memory>

namespace mm {

class Crew {
 public:
  Crew();
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // Calls work(0) on the caller's thread. Meanwhile helpers that are available call work(k) for other k of
  // 1 .. threads - 1. The work must not throw.
  //
  // If a signal handler forks the process meanwhile, the work that helpers have begun never ends in the child, and
  // every poll by the caller's thread throws. So work must not wait for helpers after an error.
  template <class Work>
  void together(int threads, const Work& work) {
    run(threads, &work, [](const void* own, int k) { (*static_cast<const Work*>(own))(k); });
  }

 private:
  using Share = void (*)(const void* work, int k);
  struct Desk;
  bool forked() const;  // whether the helpers belong to another process
  void leave();
  std::shared_ptr<Desk> desk_;  // shared with the helpers, which may end later than the crew

  void run(int threads, const void* work, Share share);
};

}  // namespace mm
