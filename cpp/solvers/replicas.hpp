// A pass over threads, each with a replica of w.
//
// The blocks of an order go out in small batches, one per thread and round. A thread makes its own updates at once and
// writes down the moves that made them; the others replay these on their replicas, one round later:
//
//   round r:  visit the own batch -> publish its log -> wait for the logs of round r - 1, replay them
//
// So a visit sees a w that lacks at most two batches of each other thread, no update is ever lost, and the result is the
// same bits for a given number of threads. A thread waits only where another is a whole round behind.
//
// A step is exact at the w that its visit sees: steps that others make at the same time may overshoot together. What the
// updates of a pass gain one by one is compared with what they gain together (k of the proximal term, else 0),
//
//   D' - D = sum a' Delta - sum a Delta - (1 + k) / 2 (|w'|^2 - |w|^2),
//
// and batches grow or shrink by that; where batches of one still overshoot, some passes run on one thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/threads.hpp"
#include "solvers/dual_ascent.hpp"

namespace mm {

template <class Structure>
class Replicas {
 public:
  using Real = typename Structure::Real;
  using Label = typename Structure::Label;

  explicit Replicas(DualState<Structure>& state) : state_(state) {}

  // Where each thread has some batches, and a move of w is a sum of vectors.
  bool pays(int64_t n, int threads) {
    if (threads < 2 || n < 8 * threads || !state_.metric.plain() || !state_.weighted.empty()) return false;
    return rest_ == 0 || --rest_ == 0;
  }

  VisitReport pass(const int64_t* order, int64_t n, const VisitOptions& options, double* violations,
                   double* slacks, int threads) {
    prepare(threads);
    const int64_t batch = std::clamp<int64_t>(n / (8 * threads), 1, batch_);
    Failure failure;
    together(threads, [&](int k, int all) {
      Worker& own = *workers_[k];
      VisitOptions part = options;
      if (options.byte_budget >= 0) part.byte_budget = options.byte_budget / all;
      own.start(state_, passes_, k, all);
      if (k == 0) wait_for_others(0, all, 0);  // it works on w itself: the others shall have their copies
      const int64_t rounds = (n + batch * all - 1) / (batch * all);
      for (int64_t round = 0; round <= rounds; ++round) {
        const int64_t from = std::min(n, (round * all + k) * batch), to = std::min(n, from + batch);
        own.write_round(round);
        if (!failure.seen())
          failure.guard([&] { own.ascent.visits(order, from, to, part, violations, slacks, own.report); });
        own.published = round + 1;
        wait_for_others(k, all, round);
        for (int other = 0; other < all && round > 0; ++other)
          if (other != k) failure.guard([&] { own.ascent.replay(workers_[other]->log_of(round - 1)); });
      }
      own.finish(k, all);
    });
    ++passes_;
    failure.rethrow();
    VisitReport total;
    double growth = 0;  // of |w|^2
    for (int k = 0; k < threads; ++k) total += workers_[k]->report, growth += workers_[k]->growth;
    adapt(batch, n, total.gain, total.loss - (1 + state_.proximity) / 2 * growth);
    return total;
  }

 private:
  // On cache lines of its own: what one thread writes shall not slow down the others.
  struct alignas(64) Worker {
    DualAscent<Structure> ascent;
    aligned<Real> replica, *W = nullptr;  // W: the replica, or w itself
    // While one thread writes round r another may still read r - 3.
    MoveLog<Label> logs[4];
    VisitReport report;
    double squares = 0, growth = 0;  // |w|^2 over a part of w, and by how much it grew in this pass
    int parts = 0;
    int64_t rewritten = -1, passes = 0;               // of the w that it has a replica of
    alignas(64) std::atomic<int64_t> published = -1;  // rounds whose log is written; -1: has no replica yet

    explicit Worker(DualState<Structure>& state) : ascent(state) {}

    // Its replica, where it has none of the w of now; and |w|^2 over its part, as the last pass left it or anew.
    void start(DualState<Structure>& state, int64_t pass, int k, int all) {
      W = k > 0 ? &replica : &state.W;
      if (rewritten != state.rewritten || passes != pass || parts != all) {
        if (k > 0) replica = state.W;  // of the same size: no memory is asked for
        rewritten = state.rewritten, parts = all;
        squares = sum_squares(k, all);
      }
      passes = pass + 1;
      ascent.work_on(W->data());
      growth = -squares;
      published = 0;
    }
    void finish(int k, int all) {
      squares = sum_squares(k, all);
      growth += squares;
    }
    double sum_squares(int k, int all) const {
      constexpr int width = 8;  // sums side by side
      const int64_t size = static_cast<int64_t>(W->size()), last = size * (k + 1) / all;
      const Real* w = W->data();
      int64_t j = size * k / all;
      double sum[width] = {}, total = 0;
      for (; j + width <= last; j += width)
        for (int l = 0; l < width; ++l) sum[l] += static_cast<double>(w[j + l]) * w[j + l];
      for (; j < last; ++j) total += static_cast<double>(w[j]) * w[j];
      for (const double part : sum) total += part;
      return total;
    }
    MoveLog<Label>& log_of(int64_t round) { return logs[round % 4]; }
    void write_round(int64_t round) {
      log_of(round).clear();
      ascent.write_to(&log_of(round));
    }
  };

  // A thread that has failed, or sees that another has, makes no more visits. It goes on with its rounds all the same: nobody
  // waits for it, and w has all moves that were made.
  class Failure {
   public:
    bool seen() const { return failed_; }
    template <class F>
    void guard(F&& f) {
      try {
        f();
      } catch (...) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!failed_) error_ = std::current_exception();
        failed_ = true;
      }
    }
    void rethrow() const {
      if (error_) std::rethrow_exception(error_);
    }

   private:
    std::mutex mutex_;
    std::atomic<bool> failed_ = false;
    std::exception_ptr error_;
  };

  DualState<Structure>& state_;
  std::vector<std::unique_ptr<Worker>> workers_;
  int64_t passes_ = 0;
  int64_t batch_ = 8;  // blocks of a thread in a round
  int rest_ = 0;       // passes that one thread makes

  // After a pass whose updates gained `each` one by one, and `all` together.
  void adapt(int64_t batch, int64_t n, double each, double all) {
    const int64_t largest = std::clamp<int64_t>(n / 500, 8, 64);
    constexpr int long_rest = 20;
    if (!(each > 0)) return;
    if (all > 0.95 * each && batch == batch_) batch_ = std::min(2 * batch_, largest);
    if (all < 0.8 * each) {
      if (batch == 1) rest_ = long_rest;
      batch_ = std::max<int64_t>(1, batch / 2);
    }
  }

  void prepare(int threads) {
    while (static_cast<int>(workers_.size()) < threads) workers_.push_back(std::make_unique<Worker>(state_));
    for (int k = 0; k < threads; ++k) {
      workers_[k]->report = {};
      workers_[k]->growth = 0;
      workers_[k]->published = -1;
      if (k > 0) workers_[k]->replica.resize(state_.W.size());
    }
  }
  void wait_for_others(int k, int all, int64_t rounds) {
    for (int other = 0; other < all; ++other)
      if (other != k) wait_until(workers_[other]->published, rounds);
  }
};

}  // namespace mm
