// A pass over threads, each with a replica of w.
//
// The blocks of an order are dealt to as many workers as threads were asked for. A worker makes its own updates at once
// and writes down the moves that made them; the others replay these on their replicas, `late` rounds later:
//
//   round r:  once all others have published round r - late: replay it -> visit the next own block -> publish its log
//
// So a visit sees a w that lacks at most `late` blocks of each other worker, no update is ever lost, and a worker waits
// only where another is that many blocks behind.
//
// What a worker does in a round does not depend on who runs it, so that the result is the same bits for a given number of
// threads. Each thread runs a worker of its own. Where that has to wait for longer than a moment, the thread goes on with
// another worker that nobody runs: its thread was taken off its core, or there are fewer threads than workers.
//
// A step is exact at the w that its visit sees: steps that others make at the same time may overshoot together. What the
// updates of a pass gain one by one is compared with what they gain together (k of the proximal term, else 0),
//
//   D' - D = sum a' Delta - sum a Delta - (1 + k) / 2 (|w'|^2 - |w|^2),
//
// and `late` grows or shrinks by that; where 1 still overshoots, some passes run on one thread. While w is large and steps
// do not overshoot, most passes are not compared: that takes a walk over w.
//
// With T threads a pass takes 1 / T of the visits, and all the moves: replaying is the price.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
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

  // Where each thread has some blocks, a move of w is a sum of vectors, and to repeat it takes much less than a visit.
  bool pays(int64_t n, int threads) {
    if (threads < 2 || n < 8 * threads || !state_.metric.plain() || !state_.weighted.empty()) return false;
    if constexpr (requires { state_.structure.light_moves(); })
      if (!state_.structure.light_moves()) return false;
    return rest_ == 0 || --rest_ == 0;
  }

  VisitReport pass(const int64_t* order, int64_t n, const VisitOptions& options, double* violations,
                   double* slacks, int threads) {
    const Rhythm rhythm(n, threads, late_);
    const bool stale = prepare(threads, rhythm);
    deal(order, n, threads, options.slacks);
    Failure failure;
    VisitOptions part = options;
    if (options.byte_budget >= 0) part.byte_budget = options.byte_budget / threads;
    const auto round = [&](Worker& own) {
      const int64_t r = own.round;
      if (r < 0) return own.start(state_, passes_, workers_, stale, trusted_ == 0);
      failure.guard([&] { replay_others(own, r - rhythm.late); });
      if (r >= rhythm.rounds) return;
      own.write_round(r);
      if (!failure.seen()) failure.guard([&] { own.visit(r, part); });
    };
    together(threads, [&](int k, int) { run(k, rhythm, round); });
    ++passes_;
    failure.rethrow();
    return collect(threads, violations, slacks, rhythm.late);
  }

 private:
  // Rounds of a pass over n blocks.
  struct Rhythm {
    int workers;
    int64_t late, rounds;

    Rhythm(int64_t n, int threads, int64_t latest) : workers(threads), rounds((n + threads - 1) / threads) {
      late = std::min(latest, static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(n / (4 * threads)))));
    }
  };

  // On cache lines of its own: what one thread writes shall not slow down the others.
  struct alignas(64) Worker {
    DualAscent<Structure> ascent;
    const int number;
    int workers = 0;                     // of this pass
    std::vector<int64_t> order, places;  // its blocks of this pass, and where they are in the order of all
    std::vector<double> violations, slacks;
    int64_t round = -1, known = -1;       // the next one; what all others have at least published
    aligned<Real> replica, *W = nullptr;  // W: the replica, or w itself
    std::vector<MoveLog<Label>> logs;     // of the rounds that others may still read
    VisitReport report;
    double squares = 0, growth = 0;          // |w|^2 over a part of w, and by how much it grew in this pass
    bool measures = true, measured = false;  // whether it is asked for; whether the last pass has left it
    int parts = 0;
    int64_t rewritten = -1, passes = 0;               // of the w that it has a replica of
    alignas(64) std::atomic<int64_t> published = -1;  // rounds whose log is written; -1: has no replica yet
    alignas(64) std::atomic<bool> taken = false;      // a thread runs it
    std::atomic<bool> wanted = false;                 // by its own thread, while another runs it
    std::atomic<bool> ended = false;                  // all of its rounds are made

    Worker(DualState<Structure>& state, int k) : ascent(state), number(k) {}

    bool has(const DualState<Structure>& state, int64_t pass) const {  // a replica of the w of now
      return rewritten == state.rewritten && passes == pass && parts == workers;
    }
    // Where some replicas are stale, those of all get its part of w: with the parts of the others they are whole. |w|^2 over
    // its part, where it is asked for, is as the last pass left it, or computed again.
    void start(DualState<Structure>& state, int64_t pass, const std::vector<std::unique_ptr<Worker>>& all,
               bool stale, bool compared) {
      W = number > 0 ? &replica : &state.W;
      measures = compared;
      if (stale)
        hand_out(state.W, all);
      else if (measures && !measured)
        squares = sum_squares(W->data(), first(number), first(number + 1));
      rewritten = state.rewritten, parts = workers;
      passes = pass + 1;
      ascent.work_on(W->data());
      growth = -squares;
    }
    void finish() {
      if (measures) squares = sum_squares(W->data(), first(number), first(number + 1));
      measured = measures;
      growth += squares;
      ended = true;
    }
    void visit(int64_t k, const VisitOptions& options) {
      const int64_t n = static_cast<int64_t>(order.size()), to = std::min(k + 1, n);
      ascent.visits(order.data(), n, k, to, options, violations.data(), slacks.data(), report, workers);
    }
    int64_t first(int part) const { return static_cast<int64_t>(W->size()) * part / workers; }
    static double sum_squares(const Real* w, int64_t from, int64_t to) {
      return sum_of(from, to, [=](int64_t j) { return static_cast<double>(w[j]) * w[j]; });
    }
    void hand_out(const aligned<Real>& w, const std::vector<std::unique_ptr<Worker>>& all) {
      constexpr int64_t piece = 4096;  // stays in the cache
      squares = 0;
      for (int64_t from = first(number), last = first(number + 1); from < last; from += piece) {
        const int64_t to = std::min(from + piece, last);
        if (measures) squares += sum_squares(w.data(), from, to);
        for (int k = 1; k < workers; ++k)
          std::copy(w.data() + from, w.data() + to, all[k]->replica.data() + from);
      }
    }
    MoveLog<Label>& log_of(int64_t round) { return logs[round % static_cast<int64_t>(logs.size())]; }
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

  static constexpr int64_t most_late = 8;
  DualState<Structure>& state_;
  std::vector<std::unique_ptr<Worker>> workers_;
  int64_t passes_ = 0;
  int64_t late_ = most_late;
  int rest_ = 0;     // passes that one thread makes
  int trusted_ = 0;  // passes that are not compared

  // After a pass whose updates gained `each` one by one, and `all` together.
  void adapt(int64_t late, double each, double all) {
    constexpr int long_rest = 20, long_trust = 3;
    constexpr size_t large = size_t(1) << 20;
    if (!(each > 0)) return;
    if (all > 0.95 * each && late == most_late && state_.W.size() >= large) trusted_ = long_trust;
    if (all > 0.95 * each && late == late_) late_ = std::min(2 * late_, most_late);
    if (all < 0.8 * each) {
      if (late == 1) rest_ = long_rest;
      late_ = std::max<int64_t>(1, late / 2);
    }
  }

  // Whether some replicas are not of the w of now.
  bool prepare(int threads, const Rhythm& rhythm) {
    bool stale = false;
    while (static_cast<int>(workers_.size()) < threads)
      workers_.push_back(std::make_unique<Worker>(state_, static_cast<int>(workers_.size())));
    for (int k = 0; k < threads; ++k) {
      Worker& own = *workers_[k];
      own.report = {};
      own.growth = 0;
      own.workers = threads;
      own.round = own.known = -1;
      own.published = -1;
      own.wanted = own.ended = false;
      // While one writes round r another may still read r - 2 late + 1.
      own.logs.resize(std::max<size_t>(own.logs.size(), static_cast<size_t>(2 * rhythm.late)));
      if (k > 0) own.replica.resize(state_.W.size());
      stale |= !own.has(state_, passes_);
    }
    return stale;
  }

  // Blocks next to each other go to the same worker in every pass, so that what is kept of them stays in the cache of one
  // core; then as many to each.
  void deal(const int64_t* order, int64_t n, int threads, bool slacks) {
    const double scale = threads / static_cast<double>(state_.blocks.size());
    for (int k = 0; k < threads; ++k) workers_[k]->order.clear(), workers_[k]->places.clear();
    std::vector<int64_t> rest;
    const size_t most = static_cast<size_t>((n + threads - 1) / threads);
    const auto give = [&](Worker& to, int64_t place) {
      to.order.push_back(order[place]), to.places.push_back(place);
    };
    for (int64_t k = 0; k < n; ++k) {
      Worker& owner = *workers_[static_cast<int>(static_cast<double>(order[k]) * scale)];
      if (owner.order.size() < most)
        give(owner, k);
      else
        rest.push_back(k);
    }
    for (int k = 0; k < threads; ++k) {
      Worker& own = *workers_[k];
      for (; own.order.size() < most && !rest.empty(); rest.pop_back()) give(own, rest.back());
      own.violations.resize(own.order.size());
      own.slacks.resize(slacks ? own.order.size() : 0);
    }
  }

  // What the workers have found, in the order of the pass.
  VisitReport collect(int threads, double* violations, double* slacks, int64_t late) {
    VisitReport total;
    double growth = 0;  // of |w|^2
    for (int k = 0; k < threads; ++k) {
      const Worker& own = *workers_[k];
      total += own.report, growth += own.growth;
      for (size_t j = 0; j < own.places.size(); ++j) violations[own.places[j]] = own.violations[j];
      for (size_t j = 0; j < own.slacks.size(); ++j) slacks[own.places[j]] = own.slacks[j];
    }
    if (trusted_ > 0)
      --trusted_;
    else
      adapt(late, total.gain, total.loss - (1 + state_.proximity) / 2 * growth);
    return total;
  }

  // What thread k does: its own worker's rounds, and those of others where these keep it waiting.
  template <class Round>
  void run(int k, const Rhythm& rhythm, const Round& round) {
    constexpr int few_looks = 20;     // as long as it takes to see what another thread has written, and more
    constexpr int most_looks = 1000;  // as long as it takes to start a thread, and more
    const int threads = rhythm.workers;
    const auto all_ended = [&] {
      for (int j = 0; j < threads; ++j)
        if (!workers_[j]->ended) return false;
      return true;
    };
    int patience = most_looks;
    for (int looks = 0; !all_ended(); ++looks) {
      if (go_on(*workers_[k], true, rhythm, round)) {
        looks = 0;
      } else if (looks < patience) {
        spin();
      } else {
        bool helped = false;
        for (int j = 1; j < threads; ++j) helped |= go_on(*workers_[(k + j) % threads], false, rhythm, round);
        patience = helped ? few_looks : most_looks;  // who was helped may need it again
        looks = 0;
        if (!helped) std::this_thread::yield();
      }
    }
  }

  // As many rounds of a worker as can be made now; of another's until its own thread wants it back. False: none.
  template <class Round>
  bool go_on(Worker& worker, bool own, const Rhythm& rhythm, const Round& round) {
    if (worker.ended || worker.taken.exchange(true, std::memory_order_acquire)) {
      if (own) worker.wanted.store(true, std::memory_order_relaxed);
      return false;
    }
    if (own) worker.wanted.store(false, std::memory_order_relaxed);
    bool any = false;
    while (!worker.ended && may_begin(worker, worker.round - rhythm.late + 1)) {
      round(worker);
      any = true;
      worker.round += 1;
      if (worker.round <= rhythm.rounds) worker.published.store(worker.round, std::memory_order_release);
      if (worker.round == rhythm.rounds + rhythm.late) worker.finish();
      if (!own && worker.wanted.load(std::memory_order_relaxed)) break;
    }
    worker.taken.store(false, std::memory_order_release);
    return any;
  }

  // Whether all others have published this many rounds; before the first, whether they have their replicas: one works on w
  // itself.
  bool may_begin(Worker& worker, int64_t rounds) {
    if (worker.round < 0) return true;
    const int64_t least = std::max<int64_t>(0, rounds);
    if (worker.known >= least) return true;
    worker.known = std::numeric_limits<int64_t>::max();
    for (int k = 0; k < worker.workers; ++k)
      if (k != worker.number)
        worker.known = std::min(worker.known, workers_[k]->published.load(std::memory_order_acquire));
    return worker.known >= least;
  }

  void replay_others(Worker& own, int64_t round) {
    for (int k = 0; k < own.workers && round >= 0; ++k) {
      if (k == own.number) continue;
      if (round + 2 < own.known) own.ascent.prefetch_views(workers_[k]->log_of(round + 2));
      if (round + 1 < own.known) own.ascent.prefetch_rows(workers_[k]->log_of(round + 1));
      own.ascent.replay(workers_[k]->log_of(round));
    }
  }
};

}  // namespace mm
