// Threads that stay from one piece of work to the next, which follows soon: to start and to join a thread takes as long as a
// tenth of a short pass.
//
// Whoever leads does not depend on the others: what a helper has not begun when the leader ends, it never begins. So work must
// not be lost where nobody helps: the system may give no threads.
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

  // Calls work(k) for k = 0 by the caller's thread and at the same time, by as many helpers as come before that ends, for
  // others of 1 .. threads - 1. The work does not throw.
  //
  // If the process forks meanwhile, by a signal handler, then in the child the work that helpers have begun never ends, and
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
  std::shared_ptr<Desk> desk_;  // helpers have it, too: they may leave last

  void run(int threads, const void* work, Share share);
};

}  // namespace mm
