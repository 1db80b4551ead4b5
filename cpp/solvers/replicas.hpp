// A pass of dual ascent on several threads. Each worker has its own copy of w: its replica.
//
// The blocks of a pass are dealt to the workers. A worker applies its own updates at once and logs its moves of w. The
// others replay the log on their replicas, `lag` rounds later. A worker's round r:
//
//   1. wait until all others have posted their round r - lag, and replay it
//   2. visit the next own blocks
//   3. post the moves
//
// No update is lost. A visit does not see the updates in flight, which are at most
//
//   lag * visits of a round * (workers - 1).
//
// Each step is exact at the w that its visit sees, but steps that are made at the same time may overshoot together.
// The number in flight decides by how much. If all blocks share all features (OCR letters), up to 16 updates in flight
// cost nothing, 28 lose half of the gain, and from 45 on the dual falls. If features are many and rare, hundreds cost
// nothing. So:
//
//   - The gain of a pass is compared with the sum of the gains of its updates, one by one. The number in flight grows
//     if these agree, and shrinks if they do not. If one update in flight is too many, one thread makes some passes: 2
//     at first, and twice as many each time that this happens again.
//   - If the updates together gain less than half of that sum, the pass ends at the best point between the multipliers
//     before it and after it. So the dual never falls over a pass. Both ends are computed from the multipliers, without
//     the rounding of large steps. Along d = w' - w the dual is quadratic (k is that of the proximal term, else 0):
//
//       D(t) - D(0) = t slope - t^2 / 2 curvature
//       slope = sum (a' - a) Delta - (1 + k) <w, d>,   curvature = (1 + k) |d|^2
//
// The work of a worker does not depend on the thread that runs it. So the same number of workers gives the same bits.
// There are at most as many threads as cores, and each runs some workers. A thread that waits long runs workers of
// other threads, too: their threads may have been taken off their cores.
//
// Each of T workers makes 1 / T of the visits, but applies all moves. Replaying a move takes a quarter of the
// time of a visit, so more than `most_workers` workers are hardly faster.
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

#include "runtime/cores.hpp"
#include "runtime/crew.hpp"
#include "runtime/process.hpp"
#include "solvers/dual_ascent.hpp"
#include "solvers/pass_record.hpp"

namespace mm {

template <class Structure>
class Replicas {
 public:
  using Real = typename Structure::Real;
  using Label = typename Structure::Label;

  explicit Replicas(DualState<Structure>& state) : state_(state) {}

  // Whether threads pay: each worker must have some blocks, and a replayed move must be much cheaper than a visit.
  bool pays(int64_t n, int threads, const VisitOptions& options) {
    if (threads < 2 || n < 8 * std::min(threads, most_workers)) return false;
    if (!state_.metric.plain() || !state_.weighted.empty() || !long_visits()) return false;
    if constexpr (requires { state_.structure.light_moves(); })
      if (!state_.structure.light_moves()) return false;
    int64_t& rest = limits_[options.oracle].rest;
    return rest == 0 || --rest == 0;
  }

  // Each block appears at most once in the order.
  VisitReport pass(const int64_t* order, int64_t n, const VisitOptions& options, double* violations,
                   double* slacks, int threads) {
    Limit& limit = limits_[options.oracle];
    const Rhythm rhythm(n, threads, limit.flight);
    const bool stale = prepare(rhythm.workers, n);
    const Deal deal{owners(rhythm.workers), order, violations, options.slacks ? slacks : nullptr, n};
    Failure failure;
    VisitOptions part = options;
    if (options.byte_budget >= 0) part.byte_budget = options.byte_budget / rhythm.workers;
    const auto round = [&](Worker& own) {
      const int64_t r = own.round;
      if (r < 0) return own.start(state_, deal, passes_, workers_, stale);
      failure.guard([&] { replay_others(own, r - rhythm.lag); });
      if (r >= rhythm.rounds) return;
      own.log.clear();
      if (!failure.seen()) failure.guard([&] { visit(own, rhythm, part); });
      failure.guard([&] { own.post(); });
    };
    const int crew = std::min(rhythm.workers, usable_cores());
    const uint32_t process = process_generation();
    // If a signal handler forks, the child has none of the other threads: their rounds never end.
    const auto alone = [&] { return process_generation() != process; };
    crew_.together(crew, [&](int k) { run(k, crew, rhythm, round, alone); });
    if (alone()) failure.rethrow();
    ++passes_;
    const VisitReport total = collect(rhythm, threads, limit);
    failure.rethrow();
    return total;
  }

 private:
  static constexpr int most_workers = 8;      // each replays all moves, so more are hardly faster
  static constexpr int most_lag = 3;          // rounds; fewer let workers wait, more put more in flight
  static constexpr int64_t most_visits = 4;   // of a round; fewer mean more posts, more put more in flight
  static constexpr int64_t free_flight = 16;  // updates in flight that cost nothing on dense data

  // How many workers a pass over n blocks has, and their rounds.
  struct Rhythm {
    int workers, lag;
    int64_t visits, rounds;

    Rhythm(int64_t n, int threads, int64_t most_in_flight) {
      workers = static_cast<int>(std::min<int64_t>({threads, most_workers, 1 + most_in_flight}));
      const int64_t each = most_in_flight / (workers - 1);
      lag = static_cast<int>(std::min<int64_t>(most_lag, each));
      const auto few = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(n / (8 * workers))));
      visits = std::min({most_visits, each / lag, few});
      rounds = ((n + workers - 1) / workers + visits - 1) / visits;
    }
    int64_t in_flight() const { return lag * visits * (workers - 1); }
  };

  // The blocks of a pass, the owner of each, and the arrays for the results.
  struct Deal {
    const uint8_t* owner;
    const int64_t* order;
    double *violations, *slacks;  // slacks: null if they are not asked for
    int64_t n;
  };

  // The moves of a worker's last rounds. The others look here in each round, so this is one cache line.
  static constexpr int slots = 2 * most_lag;  // while it posts round r another may still read r - 2 lag + 1
  static int slot(int64_t round) { return static_cast<int>(round % slots); }
  struct alignas(64) Post {
    std::atomic<int64_t> rounds = -1;  // posted; -1: it has no replica yet
    const std::byte* moves[slots];
    uint32_t size[slots];
  };

  // Aligned to cache lines, against false sharing.
  struct alignas(64) Worker {
    DualAscent<Structure> ascent;
    const int number;
    int workers = 0;  // of this pass
    Deal deal;
    std::vector<int64_t> order, places;  // its blocks of this pass, and their places in the order
    std::vector<int64_t> counts, spare;  // blocks dealt to each worker; places not dealt yet
    std::vector<double> violations, slacks;
    int64_t round = -1, known = -1;       // the next round; a round that all others have posted
    aligned<Real> replica, *W = nullptr;  // W: the replica, or w itself
    MoveLog<Label> log;                   // of this round
    PassRecord record;                    // multipliers before this pass
    std::vector<std::byte> posted[slots];
    VisitReport report;
    double squares = 0, growth = 0;  // |w|^2 over a part of w, and by how much it grew in this pass
    int parts = 0;
    int64_t rewritten = -1, passes = 0;  // identify the w that its replica copies
    Post to_others;
    alignas(64) std::atomic<bool> taken = false;  // a thread runs this worker
    std::atomic<bool> wanted = false;             // its own thread waits for it while another runs it
    std::atomic<bool> ended = false;              // all of its rounds are made

    Worker(DualState<Structure>& state, int k) : ascent(state), number(k) { ascent.write_to(&log, &record); }

    bool has(const DualState<Structure>& state, int64_t pass) const {  // a replica of the current w
      return rewritten == state.rewritten && passes == pass && parts == workers;
    }
    // If some replicas are stale, each worker copies its part of w to all of them. |w|^2 over that part is as the last
    // pass left it, or is computed again.
    void start(DualState<Structure>& state, const Deal& given, int64_t pass,
               const std::vector<std::unique_ptr<Worker>>& all, bool stale) {
      take(given);
      W = number > 0 ? &replica : &state.W;
      if (stale) hand_out(state.W, all);
      rewritten = state.rewritten, parts = workers;
      passes = pass + 1;
      ascent.work_on(W->data());
      growth = -squares;
    }
    void finish() {
      squares = sum_squares(W->data(), first(number), first(number + 1));
      growth += squares;
      for (size_t j = 0; j < places.size(); ++j) deal.violations[places[j]] = violations[j];
      for (size_t j = 0; j < slacks.size(); ++j) deal.slacks[places[j]] = slacks[j];
      ended = true;
    }
    // Reserves memory before the threads start, because an allocation must not fail while they run.
    void reserve(int64_t n) {
      const size_t most = static_cast<size_t>((n + workers - 1) / workers);
      order.reserve(most + 1), places.reserve(most + 1), violations.reserve(most), slacks.reserve(most);
      counts.reserve(workers), spare.reserve(n);
    }
    // Takes its blocks of the pass. A block goes to the same worker in every pass, so that its outputs stay in the
    // cache of one core. Then the numbers of blocks are made equal. Each worker scans the whole order: to read its list
    // from another core would take longer.
    void take(const Deal& given) {
      deal = given;
      const int64_t most = (deal.n + workers - 1) / workers;
      // One entry more: every block is written, and overwritten by the next if it goes to another worker.
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
    // Prefetches the cache lines that this round's moves will be written to, since other cores have read them.
    void expect_post() {
      constexpr size_t most = 1024;
      const std::vector<std::byte>& post = posted[slot(round)];
      for (size_t k = 0; k < std::min(post.size(), most); k += 64) fetch_to_write(post.data() + k);
    }
    // Posts the moves of this round. It copies all of them at once, since lines that others have read are slow to
    // write.
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
        squares += sum_squares(w.data(), from, to);
        for (int k = 1; k < workers; ++k)
          std::copy(w.data() + from, w.data() + to, all[k]->replica.data() + from);
      }
    }
  };

  // A thread that has failed, or sees that another has failed, makes no more visits. It still goes on with its rounds,
  // so that the others do not wait for it and w has all moves that were made.
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

  // The least number of products of a visit, about. A shorter visit is over before another core can read its moves.
  static constexpr double long_visit = 1000;

  DualState<Structure>& state_;
  double visit_ = 0;  // products of a visit, at most; 0: not counted yet
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<uint8_t> owners_;  // of all blocks
  int owners_of_ = 0;            // the number of workers that these are for
  Crew crew_;
  int64_t passes_ = 0;
  // Passes with the oracle and passes over kept outputs have limits of their own: most visits of the latter make an
  // update.
  struct Limit {
    static constexpr int64_t first_rest = 2;
    int64_t flight = free_flight;    // updates in flight at most
    int64_t rest = 0;                // passes that one thread still makes
    int64_t next_rest = first_rest;  // passes that it makes if threads fail again
  } limits_[2];

  bool long_visits() {
    if (visit_ == 0) {
      double labels = 0;
      for (size_t i = 0; i < state_.blocks.size(); ++i)
        labels += state_.structure.output_size(static_cast<int64_t>(i));
      visit_ = labels / static_cast<double>(state_.blocks.size()) * static_cast<double>(state_.W.size());
    }
    return visit_ >= long_visit;
  }

  // Adapts the limits after a pass whose updates gained `each` one by one, and `all` together.
  void adapt(const Rhythm& rhythm, int threads, double each, double all, Limit& limit) {
    const int64_t used = rhythm.in_flight();
    if (all < 0.8 * each) {
      if (used == 1) limit.rest = limit.next_rest, limit.next_rest *= 2;
      limit.flight = std::max<int64_t>(1, used / 2);
    } else if (used == 1) {
      limit.next_rest = std::max(Limit::first_rest, limit.next_rest / 2);
    }
    const int64_t most = most_lag * most_visits * (std::min(threads, most_workers) - 1);
    if (all > 0.95 * each) limit.flight = std::max(limit.flight, std::min(2 * used, most));
  }

  // Prepares the workers for a pass. Returns whether some replicas are not copies of the current w.
  bool prepare(int threads, int64_t n) {
    bool stale = false;
    while (static_cast<int>(workers_.size()) < threads)
      workers_.push_back(std::make_unique<Worker>(state_, static_cast<int>(workers_.size())));
    for (int k = 0; k < threads; ++k) {
      Worker& own = *workers_[k];
      own.report = {};
      own.growth = 0;
      own.record.clear();
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

  // The worker of each block. Stretches of blocks are dealt in turn: if sequences are sorted by length, each worker
  // gets long and short ones.
  const uint8_t* owners(int threads) {
    constexpr size_t stretch = 64;
    static_assert(most_workers <= 256);
    if (owners_of_ != threads) {
      owners_.resize(state_.blocks.size());
      for (size_t i = 0; i < owners_.size(); ++i) owners_[i] = static_cast<uint8_t>(i / stretch % threads);
      owners_of_ = threads;
    }
    return owners_.data();
  }

  // The sum of the workers' reports. If they have overshot, a line search comes first.
  VisitReport collect(const Rhythm& rhythm, int threads, Limit& limit) {
    VisitReport total;
    double growth = 0, squares = 0;  // growth of |w|^2 in this pass; |w|^2 now
    for (int k = 0; k < rhythm.workers; ++k) {
      const Worker& own = *workers_[k];
      total += own.report, growth += own.growth, squares += own.squares;
    }
    const double h = (1 + state_.proximity) / 2, each = total.gain;
    const double noise = std::numeric_limits<Real>::epsilon() * h * squares;  // rounding of |w|^2
    total.gain = total.loss - h * growth;
    if (each > noise) adapt(rhythm, threads, each, total.gain, limit);
    if (!(total.gain >= each / 2 - noise)) search_line(total, rhythm.workers);
    return total;
  }

  // Goes to the best point between the multipliers before the pass and after it; see above.
  [[gnu::cold]] void search_line(VisitReport& total, int workers) {
    state_.refresh();
    const aligned<Real> after = state_.W;
    for (int k = 0; k < workers; ++k) workers_[k]->record.exchange(state_);
    state_.refresh();
    aligned<Real>& W = state_.W;
    const auto d = [&](int64_t j) { return static_cast<double>(after[j]) - W[j]; };
    const auto [along, square] = sums_of(
        0, static_cast<int64_t>(W.size()), [&](int64_t j) { return W[j] * d(j); },
        [&](int64_t j) { return d(j) * d(j); });
    const double h = 1 + state_.proximity, slope = total.loss - h * along, curvature = h * square;
    const double t = slope > 0 ? std::min(1.0, slope / curvature) : 0;
    for (size_t j = 0; j < W.size(); ++j) W[j] += static_cast<Real>(t * d(static_cast<int64_t>(j)));
    for (int k = 0; k < workers; ++k) workers_[k]->record.advance(state_, t);
    state_.watch();
    ++state_.rewritten;
    total.loss *= t;
    total.gain = t * slope - t * t / 2 * curvature;
  }

  // Thread k of a crew makes the rounds of its own workers. If it waits long, it makes rounds of other workers.
  template <class Round, class Alone>
  void run(int k, int crew, const Rhythm& rhythm, const Round& round, const Alone& alone) {
    constexpr int few_looks = 20;     // longer than it takes to see a write of another thread
    constexpr int most_looks = 1000;  // longer than it takes to start a thread
    int patience = most_looks;
    for (int looks = 0;; ++looks) {
      bool went_on = false;
      for (int j = k; j < rhythm.workers; j += crew) went_on |= go_on(*workers_[j], true, rhythm, round);
      if (went_on) {
        looks = 0;
      } else if (all_ended(rhythm.workers) || alone()) {
        return;
      } else if (looks < patience) {
        spin();
      } else {
        bool helped = false;
        for (int j = 1; j < rhythm.workers; ++j)
          helped |= go_on(*workers_[(k + j) % rhythm.workers], false, rhythm, round);
        patience = helped ? few_looks : most_looks;  // a helped worker may need help again
        looks = 0;
        if (!helped) std::this_thread::yield();
      }
    }
  }
  bool all_ended(int workers) const {
    return std::all_of(workers_.begin(), workers_.begin() + workers,
                       [](const auto& own) { return own->ended.load(); });
  }

  // Makes as many rounds of a worker as can be made now. It leaves another thread's worker if that thread wants it
  // back. Returns whether it made any round.
  template <class Round>
  bool go_on(Worker& worker, bool own, const Rhythm& rhythm, const Round& round) {
    if (worker.ended || worker.taken.exchange(true, std::memory_order_acquire)) {
      if (own) worker.wanted.store(true, std::memory_order_relaxed);
      return false;
    }
    if (own) worker.wanted.store(false, std::memory_order_relaxed);
    bool any = false;
    while (!worker.ended && may_begin(worker, worker.round - rhythm.lag + 1)) {
      round(worker);
      any = true;
      worker.round += 1;
      if (worker.round <= rhythm.rounds)
        worker.to_others.rounds.store(worker.round, std::memory_order_release);
      if (worker.round == rhythm.rounds + rhythm.lag) worker.finish();
      if (!own && worker.wanted.load(std::memory_order_relaxed)) break;
    }
    worker.taken.store(false, std::memory_order_release);
    return any;
  }

  // Whether all others have posted this many rounds. Before the first round they must at least have their replicas,
  // because one worker changes w itself.
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

  // Makes the visits of a round. Between them, prefetches the posts of other workers that the next round replays.
  void visit(Worker& own, const Rhythm& rhythm, const VisitOptions& options) {
    const int64_t from = own.round * rhythm.visits, to = from + rhythm.visits;
    const int64_t half = from + rhythm.visits / 2, most = half + rhythm.visits / 4;
    own.expect_post();
    own.visit(from, half, options);
    each_other(own, [](const Worker& other) { fetch_ahead(&other.to_others); });
    own.visit(half, most, options);
    const int64_t next = own.round + 1 - rhythm.lag;
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
