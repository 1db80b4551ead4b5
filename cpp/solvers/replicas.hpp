// A pass over threads, each with a replica of w.
//
// The blocks of an order are dealt to as many workers as threads were asked for. A worker makes its own updates at once
// and writes down the moves that made them; the others replay these on their replicas, `late` rounds later:
//
//   round r:  once all others have posted round r - late: replay it -> visit the next own blocks -> post the moves
//
// So a visit sees a w that lacks at most `late` rounds of each other worker, no update is ever lost, and a worker waits
// only where another is that many rounds behind. A line of memory that another core has written takes as long to get as
// half a visit or more: moves are posted a round at a time, in one piece, and asked for before they are needed.
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
// and rounds grow or shrink by that; where one visit still overshoots, some passes run on one thread. While w is large and steps
// do not overshoot, most passes are not compared: that takes a walk over w.
//
// With T threads a pass takes 1 / T of the visits, and all the moves: replaying is the price.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/crew.hpp"
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
    const Rhythm rhythm(n, threads, visits_);
    const bool stale = prepare(threads, n);
    const Deal deal{owners(threads), order, violations, options.slacks ? slacks : nullptr, n};
    Failure failure;
    VisitOptions part = options;
    if (options.byte_budget >= 0) part.byte_budget = options.byte_budget / threads;
    const auto round = [&](Worker& own) {
      const int64_t r = own.round;
      if (r < 0) return own.start(state_, deal, passes_, workers_, stale, trusted_ == 0);
      failure.guard([&] { replay_others(own, r - late); });
      if (r >= rhythm.rounds) return;
      own.log.clear();
      if (!failure.seen()) failure.guard([&] { visit(own, rhythm, part); });
      failure.guard([&] { own.post(); });
    };
    crew_.together(threads, [&](int k) { run(k, rhythm, round); });
    ++passes_;
    failure.rethrow();
    return collect(threads, rhythm.visits);
  }

 private:
  static constexpr int late = 3;  // rounds

  // Rounds of a pass over n blocks, each of this many visits of a worker.
  struct Rhythm {
    int workers;
    int64_t visits, rounds;

    Rhythm(int64_t n, int threads, int64_t most) : workers(threads) {
      visits = std::min(most, static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(n / (8 * threads)))));
      rounds = ((n + threads - 1) / threads + visits - 1) / visits;
    }
  };

  // The blocks of a pass, who has each of them, and where what is found goes.
  struct Deal {
    const uint8_t* owner;
    const int64_t* order;
    double *violations, *slacks;  // slacks: null where nobody asks
    int64_t n;
  };

  // Where others find the moves of a worker's last rounds: on one line of the cache, since they look here in each round.
  static constexpr int slots = 2 * late;  // while it posts round r another may still read r - 2 late + 1
  static int slot(int64_t round) { return static_cast<int>(round % slots); }
  struct alignas(64) Post {
    std::atomic<int64_t> rounds = -1;  // posted; -1: it has no replica yet
    const std::byte* moves[slots];
    uint32_t size[slots];
  };

  // On cache lines of its own: what one thread writes shall not slow down the others.
  struct alignas(64) Worker {
    DualAscent<Structure> ascent;
    const int number;
    int workers = 0;  // of this pass
    Deal deal;
    std::vector<int64_t> order, places;  // its blocks of this pass, and where they are in the order of all
    std::vector<int64_t> counts, spare;  // of all workers, while blocks are dealt; places that none has yet
    std::vector<double> violations, slacks;
    int64_t round = -1, known = -1;       // the next one; what all others have at least posted
    aligned<Real> replica, *W = nullptr;  // W: the replica, or w itself
    MoveLog<Label> log;                   // of this round
    std::vector<std::byte> posted[slots];
    VisitReport report;
    double squares = 0, growth = 0;          // |w|^2 over a part of w, and by how much it grew in this pass
    bool measures = true, measured = false;  // whether it is asked for; whether the last pass has left it
    int parts = 0;
    int64_t rewritten = -1, passes = 0;  // of the w that it has a replica of
    Post to_others;
    alignas(64) std::atomic<bool> taken = false;  // a thread runs it
    std::atomic<bool> wanted = false;             // by its own thread, while another runs it
    std::atomic<bool> ended = false;              // all of its rounds are made

    Worker(DualState<Structure>& state, int k) : ascent(state), number(k) { ascent.write_to(&log); }

    bool has(const DualState<Structure>& state, int64_t pass) const {  // a replica of the w of now
      return rewritten == state.rewritten && passes == pass && parts == workers;
    }
    // Where some replicas are stale, those of all get its part of w: with the parts of the others they are whole. |w|^2 over
    // its part, where it is asked for, is as the last pass left it, or computed again.
    void start(DualState<Structure>& state, const Deal& given, int64_t pass,
               const std::vector<std::unique_ptr<Worker>>& all, bool stale, bool compared) {
      take(given);
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
      for (size_t j = 0; j < places.size(); ++j) deal.violations[places[j]] = violations[j];
      for (size_t j = 0; j < slacks.size(); ++j) deal.slacks[places[j]] = slacks[j];
      ended = true;
    }
    // Here, for nothing may fail where several threads run.
    void reserve(int64_t n) {
      const size_t most = static_cast<size_t>((n + workers - 1) / workers);
      order.reserve(most + 1), places.reserve(most + 1), violations.reserve(most), slacks.reserve(most);
      counts.reserve(workers), spare.reserve(n);
    }
    // A block goes to the same worker in every pass, so that what is kept of it stays in the cache of one core; then as many
    // to each. All workers go through the whole deal, and keep what is their own: to get that from another core takes longer.
    void take(const Deal& given) {
      deal = given;
      const int64_t most = (deal.n + workers - 1) / workers;
      // One more: each is written, and stays if the next does not take its place.
      order.resize(most + 1), places.resize(most + 1);
      counts.assign(workers, 0), spare.clear();
      int64_t own = 0;
      const auto give = [&](int to, int64_t place) {
        order[own] = deal.order[place], places[own] = place;
        own += to == number;
        ++counts[to];
      };
      for (int64_t k = 0; k < deal.n; ++k) {
        const int to = deal.owner[deal.order[k]];
        if (counts[to] < most)
          give(to, k);
        else
          spare.push_back(k);
      }
      for (int to = 0; to < workers; ++to)
        for (; counts[to] < most && !spare.empty(); spare.pop_back()) give(to, spare.back());
      order.resize(own), places.resize(own);
      violations.resize(own), slacks.resize(deal.slacks ? own : 0);
    }
    void visit(int64_t from, int64_t to, const VisitOptions& options) {
      const int64_t n = static_cast<int64_t>(order.size());
      ascent.visits(order.data(), n, from, std::min(to, n), options, violations.data(), slacks.data(), report,
                    workers);
    }
    // Asks for the lines that this round's moves will be written to, which others have read.
    void expect_post() {
      constexpr size_t most = 1024;
      const std::vector<std::byte>& post = posted[slot(round)];
      for (size_t k = 0; k < std::min(post.size(), most); k += 64) fetch_to_write(post.data() + k);
    }
    // The moves of this round, for others: all at once, since lines that others have read are slow to write.
    void post() {
      const int at = slot(round);
      to_others.size[at] = 0;
      posted[at].assign(log.data(), log.data() + log.size());
      to_others.moves[at] = posted[at].data();
      to_others.size[at] = static_cast<uint32_t>(log.size());
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

  static constexpr int64_t most_visits = 4;
  DualState<Structure>& state_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<uint8_t> owners_;  // of all blocks
  int owners_of_ = 0;            // threads
  Crew crew_;
  int64_t passes_ = 0;
  int64_t visits_ = most_visits;  // of a round
  int rest_ = 0;                  // passes that one thread makes
  int trusted_ = 0;               // passes that are not compared

  // After a pass of rounds of this many visits, whose updates gained `each` one by one, and `all` together.
  void adapt(int64_t visits, double each, double all) {
    constexpr int long_rest = 20, long_trust = 3;
    constexpr size_t large = size_t(1) << 20;
    if (!(each > 0)) return;
    if (all > 0.95 * each && visits == most_visits && state_.W.size() >= large) trusted_ = long_trust;
    if (all > 0.95 * each && visits == visits_) visits_ = std::min(2 * visits_, most_visits);
    if (all < 0.8 * each) {
      if (visits == 1) rest_ = long_rest;
      visits_ = std::max<int64_t>(1, visits / 2);
    }
  }

  // Whether some replicas are not of the w of now.
  bool prepare(int threads, int64_t n) {
    bool stale = false;
    while (static_cast<int>(workers_.size()) < threads)
      workers_.push_back(std::make_unique<Worker>(state_, static_cast<int>(workers_.size())));
    for (int k = 0; k < threads; ++k) {
      Worker& own = *workers_[k];
      own.report = {};
      own.growth = 0;
      own.workers = threads;
      own.round = own.known = -1;
      own.to_others.rounds = -1;
      own.wanted = own.ended = false;
      own.reserve(n);
      if (k > 0) own.replica.resize(state_.W.size());
      stale |= !own.has(state_, passes_);
    }
    return stale;
  }

  // The worker of each block. Stretches of blocks go by turns: where sequences are sorted, each has long and short ones.
  const uint8_t* owners(int threads) {
    constexpr size_t stretch = 64;
    static_assert(most_threads <= 256);
    if (owners_of_ != threads) {
      owners_.resize(state_.blocks.size());
      for (size_t i = 0; i < owners_.size(); ++i) owners_[i] = static_cast<uint8_t>(i / stretch % threads);
      owners_of_ = threads;
    }
    return owners_.data();
  }

  VisitReport collect(int threads, int64_t visits) {
    VisitReport total;
    double growth = 0;  // of |w|^2
    for (int k = 0; k < threads; ++k) total += workers_[k]->report, growth += workers_[k]->growth;
    if (trusted_ > 0)
      --trusted_;
    else
      adapt(visits, total.gain, total.loss - (1 + state_.proximity) / 2 * growth);
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
    while (!worker.ended && may_begin(worker, worker.round - late + 1)) {
      round(worker);
      any = true;
      worker.round += 1;
      if (worker.round <= rhythm.rounds)
        worker.to_others.rounds.store(worker.round, std::memory_order_release);
      if (worker.round == rhythm.rounds + late) worker.finish();
      if (!own && worker.wanted.load(std::memory_order_relaxed)) break;
    }
    worker.taken.store(false, std::memory_order_release);
    return any;
  }

  // Whether all others have posted this many rounds; before the first, whether they have their replicas: one works on w
  // itself.
  bool may_begin(Worker& worker, int64_t rounds) {
    if (worker.round < 0) return true;
    const int64_t least = std::max<int64_t>(0, rounds);
    if (worker.known >= least) return true;
    look(worker);
    return worker.known >= least;
  }
  void look(Worker& worker) {
    worker.known = std::numeric_limits<int64_t>::max();
    each_other(worker, [&](const Worker& other) {
      worker.known = std::min(worker.known, other.to_others.rounds.load(std::memory_order_acquire));
    });
  }
  template <class F>
  void each_other(const Worker& own, F&& f) {
    for (int k = 0; k < own.workers; ++k)
      if (k != own.number) f(*workers_[k]);
  }

  void replay_others(Worker& own, int64_t round) {
    if (round < 0) return;
    each_other(own, [&](const Worker& other) {
      const int at = slot(round);
      own.ascent.replay(other.to_others.moves[at], other.to_others.size[at]);
    });
  }

  // The visits of a round; meanwhile what others have posted comes, which the next round replays.
  void visit(Worker& own, const Rhythm& rhythm, const VisitOptions& options) {
    const int64_t from = own.round * rhythm.visits, to = from + rhythm.visits;
    const int64_t half = from + rhythm.visits / 2, most = half + rhythm.visits / 4;
    own.expect_post();
    own.visit(from, half, options);
    each_other(own, [](const Worker& other) { fetch_ahead(&other.to_others); });
    own.visit(half, most, options);
    const int64_t next = own.round + 1 - late;
    if (own.known <= next) look(own);
    if (next >= 0 && own.known > next)
      each_other(own, [&](const Worker& other) {
        const int at = slot(next);
        const std::byte* moves = other.to_others.moves[at];
        for (uint32_t k = 0; k < other.to_others.size[at]; k += 64) fetch_ahead(moves + k);
      });
    fetch_to_write(&own.to_others);
    own.visit(most, to, options);
  }
};

}  // namespace mm
