// Threads that stay from one piece of work to the next, which follows soon: to start and to join a thread takes as long as a
// tenth of a short pass.
//
// Whoever leads does not depend on the others: what a helper has not begun when the leader ends, it never begins. So work must
// not be lost where nobody helps: the system may give no threads, or this may be a copy of the process that has none of them.
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
  template <class Work>
  void together(int threads, const Work& work) {
    run(threads, &work, [](const void* own, int k) { (*static_cast<const Work*>(own))(k); });
  }

 private:
  using Share = void (*)(const void* work, int k);
  struct Desk;
  std::shared_ptr<Desk> desk_;  // helpers have it, too: they may leave last

  void run(int threads, const void* work, Share share);
};

}  // namespace mm
