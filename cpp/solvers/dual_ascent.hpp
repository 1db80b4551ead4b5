// Sequential dual ascent: one pass over the blocks in a given order.
//
// A visit to block i (FASOLE paper, Algorithm 2; h = 1 / (1 + k) of the proximal term, else 1):
//   s(y) = Delta_i(y) + <w, psi_i(y)>       for the kept outputs; in an oracle pass u = argmax_y s(y) too
//   g    = s(u) - sum_y a(y) s(y) / mass    the block's share of the gap, >= 0
//   if g > tolerance: move multipliers along the direction of the rule, with the exact step
//     pair rules: from v to u,   step = min(a(v), (s(u) - s(v)) / (h |psi(u) - psi(v)|^2))
//       wss2: v of the largest gain (9), with its misprint corrected;  mvp: v of the smallest score
//     frank-wolfe: towards the vertex u,   step = min(1, mass g / (h |mass psi(u) - sum a psi|^2))
//
// Structures that keep an index of w allow no updates on several threads. For them the threads search for outputs
// ahead: for a small batch of blocks, at the w before the batch. Then the visits follow one after the other. Each uses
// the output that was found for its block, scored at the w of the visit. The result does not depend on the number of
// threads.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/threads.hpp"
#include "solvers/dual_state.hpp"
#include "solvers/move_log.hpp"
#include "solvers/pass_record.hpp"

namespace mm {

enum class Rule : int { wss2, mvp, frank_wolfe };

struct VisitOptions {
  Rule rule = Rule::wss2;
  bool oracle = true;       // call the argmax, or only compare kept outputs
  bool update = true;       // move multipliers, or only keep the output that was found
  bool slacks = false;      // in oracle passes: report each block's slack max_y s(y) - s(y_i), too
  bool line_search = true;  // for frank_wolfe: the exact step, or 2n / (visits + 2n)
  double tolerance = 0;
  int keep = 0;  // oracle visits without a multiplier, or fewer, after which an output is forgotten; 0: never
  int64_t byte_budget = -1;  // for the outputs found in this pass; further outputs are not kept; -1: no limit
};

struct VisitReport {
  int64_t oracle_calls = 0, updates = 0;
  double violation = 0;  // sum_i mass_i g_i, each g_i at the w of its visit
  double gain = 0;       // sum of the updates' gains in the (proximal) dual
  double loss = 0;       // increase of sum a Delta
  int64_t bytes = 0;     // by which the memory of outputs grew
  int64_t refused = 0;   // outputs not kept, beyond the byte budget

  void operator+=(const VisitReport& r) {
    oracle_calls += r.oracle_calls, updates += r.updates, violation += r.violation, gain += r.gain;
    loss += r.loss, bytes += r.bytes, refused += r.refused;
  }
};

template <class Structure>
class DualAscent {
 public:
  using State = DualState<Structure>;
  using Real = typename Structure::Real;
  using Label = typename Structure::Label;

  explicit DualAscent(State& state)
      : state_(state), W_(state.W.data()), scratch_(state.structure.scratch()) {}

  void work_on(Real* W) { W_ = W; }  // a replica of w, or w itself
  // Sets the log for moves of w and the record for the multipliers before them.
  void write_to(MoveLog<Label>* log, PassRecord* record) { log_ = log, record_ = record; }
  // Makes the moves that another worker has logged.
  void replay(const std::byte* bytes, size_t size) {
    MoveLog<Label>::replay(bytes, size, state_.structure, scratch_, W_);
  }

  VisitReport pass(const int64_t* order, int64_t n, const VisitOptions& options, double* violations,
                   double* slacks) {
    VisitReport report;
    ahead_ = nullptr;
    visits(order, n, 0, n, options, violations, slacks, report);
    return report;
  }
  // Makes the visits [from, to) of an order of n blocks. `orders` such orders are walked at the same time.
  void visits(const int64_t* order, int64_t n, int64_t from, int64_t to, const VisitOptions& options,
              double* violations, double* slacks, VisitReport& report, int orders = 1) {
    for (int64_t k = from; k < to; ++k) {
      poll();
      prefetch(order, k, n);
      step_ = state_.steps + static_cast<double>((k + 1) * orders);
      violations[k] = visit(order[k], options, report);
      if (options.slacks) slacks[k] = slack_;
    }
  }

  // The number of blocks in a batch whose searches several threads make ahead of the visits. A batch must be small
  // beside n. Returns 0 if such a batch has too little work for several threads.
  int64_t worthwhile(int64_t n) const {
    constexpr int64_t least_work = 100'000;  // scores: about as long as starting some threads
    const int64_t batch = std::clamp<int64_t>(n / 500, 1, 256);
    return batch * state_.structure.work() >= least_work ? batch : 0;
  }

  // The same with argmax searches ahead. Reports no slacks.
  VisitReport pass_ahead(const int64_t* order, int64_t n, const VisitOptions& options, double* violations,
                         int64_t batch, int threads) {
    const Structure& structure = state_.structure;
    while (static_cast<int>(seekers_.size()) < threads) seekers_.push_back(structure.scratch());
    std::vector<std::vector<Label>> found(batch);
    VisitReport report;
    for (int64_t first = 0; first < n; first += batch) {
      const int64_t size = std::min(batch, n - first);
      parallel(size, threads, [&](int64_t from, int64_t to, int thread) {
        for (int64_t k = from; k < to; ++k) {
          poll();
          const int64_t i = order[first + k];
          found[k].resize(structure.output_size(i));
          structure.open(i, state_.W.data(), seekers_[thread], true, 1);
          structure.best(seekers_[thread], state_.W.data(), found[k].data());
        }
      });
      for (int64_t k = first; k < first + size; ++k) {
        step_ = state_.steps + static_cast<double>(k + 1);
        ahead_ = found[k - first].data();
        violations[k] = visit(order[k], options, report);
      }
    }
    return report;
  }

 private:
  State& state_;
  Real* W_;                        // the w that updates change
  MoveLog<Label>* log_ = nullptr;  // the log of the moves, or null
  PassRecord* record_ = nullptr;   // the multipliers before the moves, or null
  typename Structure::Scratch scratch_;
  Move<Structure> move_;
  std::vector<double> scores_, mixture_;
  double step_ = 0;   // number of this visit, over all passes
  double slack_ = 0;  // of the visited block
  std::vector<Label> found_, truth_, outputs_;
  std::vector<typename Structure::Scratch> seekers_;  // one per thread
  const Label* ahead_ = nullptr;  // the output that a search ahead has found for the visited block

  // Prefetches memory for the visits after the k-th of n: blocks first, then their outputs and the views of rows, then
  // rows.
  void prefetch(const int64_t* order, int64_t k, int64_t n) const {
    constexpr int64_t step = 2;
    const Structure& structure = state_.structure;
    if (k + 3 * step < n) fetch_ahead(&state_.blocks[order[k + 3 * step]]);
    if (k + 2 * step < n) {
      const int64_t i = order[k + 2 * step];
      const auto& block = state_.blocks[i];
      fetch_ahead(block.planes.data());
      fetch_ahead(block.outputs.data());
      fetch_ahead(block.distances.data());
      if constexpr (requires { structure.prefetch_view(i); }) structure.prefetch_view(i);
    }
    if constexpr (requires { structure.prefetch(k); })
      if (k + step < n) structure.prefetch(order[k + step]);
  }

  double visit(int64_t i, const VisitOptions& options, VisitReport& report) {
    const Structure& structure = state_.structure;
    auto& block = state_.blocks[i];
    const bool bare = block.planes.empty();  // keeps no outputs: all mass is on the true one
    const int kept = bare ? 1 : static_cast<int>(block.planes.size());
    if (!options.oracle && kept < 2) return 0;
    if (bare || options.slacks) state_.read_truth(i, truth_);
    const int64_t before = state_.cost(i);
    if (ahead_)
      open_ahead(i, kept, bare);
    else if (options.oracle)
      structure.open(i, W_, scratch_, true, 1);
    else
      structure.open_where_different(i, W_, scratch_, block.outputs.data(), kept);

    int u = 0;
    double mean = 0;
    scores_.resize(kept);
    for (int j = 0; j < kept; ++j) {
      scores_[j] = structure.score(scratch_, bare ? truth_.data() : state_.output(i, j));
      mean += (bare ? state_.mass[i] : block.planes[j].multiplier) * scores_[j];
      if (scores_[j] > scores_[u]) u = j;
    }
    double top = scores_[u];
    bool fresh = false;
    if constexpr (requires { structure.tolerate(scratch_, top); })
      structure.tolerate(scratch_, options.slacks ? 0 : options.tolerance);
    if (options.oracle) fresh = ask_oracle(i, bare, top, report);
    if (options.slacks) slack_ = top - structure.score(scratch_, truth_.data());
    const double violation = top - mean / state_.mass[i];
    report.violation += state_.mass[i] * violation;

    const bool enough = violation > options.tolerance;
    if (record_ && enough && options.update) record_->save(i, block.planes, state_.mass[i]);
    if (enough && bare) state_.materialize_truth(i, state_.mass[i]);
    if (fresh && enough && !fits_budget(i, before, options, report)) {
      fresh = false;
      ++report.refused;
    }
    if (fresh && enough) {
      u = state_.add(i, found_.data(), 0);
      scores_.push_back(top);
    }
    if constexpr (given_planes<Structure>)
      if (options.oracle && !(fresh && enough)) state_.structure.release(found_[0]);
    if (u < static_cast<int>(block.planes.size())) block.planes[u].stamp = state_.clock;
    if (enough && options.update) {
      ++report.updates;
      report.gain += options.rule == Rule::frank_wolfe ? towards(i, u, violation, options, report)
                                                       : pair(i, u, options, report);
    }
    if (options.oracle && options.keep > 0)
      forget(i, u, std::max(violation, options.tolerance), options.keep);
    if (options.byte_budget >= 0) state_.drop_if_truth_only(i);
    report.bytes += state_.cost(i) - before;
    return violation;
  }

  // Computes scores for the kept outputs and for the output that was found ahead.
  void open_ahead(int64_t i, int kept, bool bare) {
    const int length = state_.structure.output_size(i);
    const Label* own = bare ? truth_.data() : state_.blocks[i].outputs.data();
    outputs_.assign(own, own + static_cast<size_t>(kept) * length);
    outputs_.insert(outputs_.end(), ahead_, ahead_ + length);
    state_.structure.open_where_different(i, W_, scratch_, outputs_.data(), kept + 1);
  }

  // Whether one more output of the block fits into the rest of the byte budget.
  bool fits_budget(int64_t i, int64_t before, const VisitOptions& options, const VisitReport& report) const {
    if (options.byte_budget < 0) return true;
    int64_t more = state_.cost(i, 1) - before;
    if constexpr (given_planes<Structure>) more += state_.structure.bytes_of(found_[0]);
    return report.bytes + more <= options.byte_budget;
  }

  // Writes the loss-augmented argmax to found_. Returns true if it is better than all kept outputs.
  bool ask_oracle(int64_t i, bool bare, double& top, VisitReport& report) {
    const Structure& structure = state_.structure;
    found_.resize(structure.output_size(i));
    if (ahead_) std::copy(ahead_, ahead_ + found_.size(), found_.begin());
    const double value =
        ahead_ ? structure.score(scratch_, found_.data()) : structure.best(scratch_, W_, found_.data());
    ++report.oracle_calls;
    // Scores carry the rounding errors of Real, so a smaller improvement does not count.
    const double noise = (sizeof(Real) == 4 ? 1e-6 : 1e-13) * (1 + std::abs(top));
    if (value <= top + noise) return false;
    if (bare ? structure.same(i, truth_.data(), found_.data()) : state_.find(i, found_.data()) >= 0)
      return false;
    top = value;
    return true;
  }

  // The most promising output v to move from. mvp: the v of the smallest score. wss2: the v of the largest
  // a(v) (s(u) - s(v)). This is an upper bound on its gain, so most other outputs need not be tried.
  int promising(int u, const std::vector<Kept>& planes, Rule rule) const {
    int v = -1;
    double most = 0;
    for (int j = 0; j < static_cast<int>(planes.size()); ++j) {
      const double a = planes[j].multiplier, g = scores_[u] - scores_[j];
      const double value = a <= 0 ? 0 : rule == Rule::mvp ? g : a * g;
      if (value > most) most = value, v = j;
    }
    return v;
  }

  // Moves multiplier from v to u; returns the gain.
  double pair(int64_t i, int u, const VisitOptions& options, VisitReport& report) {
    const Structure& structure = state_.structure;
    auto& planes = state_.blocks[i].planes;
    const double h = state_.shrink();
    int v = -1;
    double best = 0, step = 0;
    const auto consider = [&](int j) {
      const double a = planes[j].multiplier, g = scores_[u] - scores_[j];
      const double curvature = h * state_.distance_between(i, u, j, move_, scratch_);
      const double t = curvature * a <= g ? a : g / curvature;
      const double gain = t * (g - t * curvature / 2);
      if (gain > best) best = gain, v = j, step = t;
    };
    const int first = promising(u, planes, options.rule);
    if (first >= 0) consider(first);
    if (options.rule == Rule::wss2)
      for (int j = 0; j < static_cast<int>(planes.size()); ++j)
        if (j != first && planes[j].multiplier * (scores_[u] - scores_[j]) > best) consider(j);
    if (v < 0) return 0;
    structure.build_pair(scratch_, i, state_.output(i, u), state_.output(i, v));
    move_.renew();
    move(-h * step);
    const Label *to = state_.output(i, u), *from = state_.output(i, v);
    if constexpr (requires { structure.loss_of_move(scratch_); })
      report.loss += step * structure.loss_of_move(scratch_);
    else
      report.loss += step * (structure.loss(i, to) - structure.loss(i, from));
    if (log_) log_->add_pair(structure, scratch_, i, to, from, -h * step);
    planes[v].multiplier = step == planes[v].multiplier ? 0 : planes[v].multiplier - step;
    planes[u].multiplier += step;
    return best;
  }

  // Moves the whole block towards the vertex u; returns the gain.
  double towards(int64_t i, int u, double violation, const VisitOptions& options, VisitReport& report) {
    const Structure& structure = state_.structure;
    auto& block = state_.blocks[i];
    const double mass = state_.mass[i], h = state_.shrink();
    const int n = static_cast<int>(block.planes.size());
    mixture_.resize(n);
    for (int j = 0; j < n; ++j) mixture_[j] = -block.planes[j].multiplier;
    mixture_[u] += mass;
    structure.build_mixture(scratch_, i, block.outputs.data(), mixture_.data(), n);
    move_.renew();
    const double curvature = h * state_.squared_norm(move_, scratch_), slope = mass * violation;
    const double size = static_cast<double>(state_.blocks.size());
    double step = curvature <= slope ? 1 : slope / curvature;
    if (!options.line_search) step = 2 * size / (step_ - 1 + 2 * size);
    move(-h * step);
    for (int j = 0; j < n; ++j) report.loss += step * mixture_[j] * structure.loss(i, state_.output(i, j));
    if (log_) log_->add_mixture(i, block.outputs.data(), structure.output_size(i), mixture_, -h * step);
    for (int j = 0; j < n; ++j)
      block.planes[j].multiplier = step == 1 ? 0 : (1 - step) * block.planes[j].multiplier;
    block.planes[u].multiplier += step * mass;
    return step * (slope - step * curvature / 2);
  }

  // w += c * (the move that was built). Also adds its part of the average sum_j j w_j.
  void move(double c) {
    if (log_) return state_.structure.apply(scratch_, W_, c);
    state_.shift(move_, scratch_, c);
    if (!state_.weighted.empty()) state_.weigh(move_, scratch_, c * step_ * (step_ - 1) / 2);
  }

  // Forgets outputs that have had no multiplier for `keep` visits, or for a quarter of these if the score is far below
  // the best. Each kept output makes visits longer: it is scored, and so are the positions where only it differs.
  void forget(int64_t i, int u, double violation, int keep) {
    constexpr double far = 10;
    auto& planes = state_.blocks[i].planes;
    const double near = scores_[u] - far * violation;
    for (int j = static_cast<int>(planes.size()) - 1; j >= 0; --j) {
      planes[j].idle = planes[j].multiplier > 0 || j == u ? 0 : planes[j].idle + 1;
      if (planes[j].idle > (scores_[j] < near ? keep / 4 : keep)) {
        if (record_ && !record_->forget(i, j, planes.size())) continue;
        state_.remove(i, j);
        if (u == static_cast<int>(planes.size())) u = j;
      }
    }
  }
};

}  // namespace mm
