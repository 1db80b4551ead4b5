// The dual state of any structure together with its passes: the interface that solvers of dual ascent use.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "models/concept.hpp"
#include "runtime/threads.hpp"
#include "solvers/dual_ascent.hpp"
#include "solvers/kept_state.hpp"
#include "solvers/replicas.hpp"
#include "solvers/subgradient.hpp"

namespace mm {

// Memory and multipliers of the outputs of each block.
struct Usage {
  std::vector<int64_t> bytes;
  std::vector<int32_t> spread;  // number of outputs with a multiplier
  std::vector<uint8_t> moved;   // whether one of them is not the true output
};

class Ascent : public KeptState {
 public:
  int64_t ahead = 0;  // size of a batch of searches ahead; 0: choose the size, or make no searches ahead

  virtual VisitReport visit(const int64_t* order, int64_t n, const VisitOptions& options, int threads,
                            double* violations, double* slacks) = 0;
  virtual VisitReport subgradient(const int64_t* order, int64_t n, double active) = 0;
  // mean |psi(u)|^2 and mean Delta(u) of the loss-augmented outputs u of some blocks
  virtual std::pair<double, double> probe(const int64_t* blocks, int64_t n) = 0;

  virtual void weights(bool exact, double* flat) = 0;  // by the law if exact, else as updates left them
  virtual void weighted(double* flat) const = 0;       // sum_j c_j d_j of an averaged iterate
  virtual void start_average() = 0;
  // Resumes after this many steps. If the restored multipliers count visits, `sums` has their sum for each block, and W
  // must hold `scale` times the origin. Else `sums` is null. `weighted` may be null.
  virtual void go_on(double steps, double scale, const double* sums, const double* weighted) = 0;

  // The support of these blocks, in this order. Blocks without kept outputs are skipped.
  virtual SupportArrays support_of(const int64_t* blocks, int64_t n) const = 0;
  virtual Usage usage() const = 0;
  virtual void clear() = 0;                     // sets all multipliers to zero
  virtual void freeze(const double* flat) = 0;  // sets the part of q whose multipliers stay fixed

  virtual void recenter(double momentum, double proximity) = 0;
  virtual double lag() = 0;
  virtual double squared_distance() = 0;  // of w to the centre
  virtual double proximity() const = 0;
  virtual double steps() const = 0;
};

template <Structure S>
class AscentOf : public KeptStateOf<S, Ascent> {
 public:
  using Label = typename S::Label;
  using Base = KeptStateOf<S, Ascent>;

  AscentOf(std::unique_ptr<S> structure, std::vector<double> mass, bool lean)
      : Base(std::move(structure), std::move(mass), lean), ascent_(Base::state), replicas_(Base::state) {}

  VisitReport visit(const int64_t* order, int64_t n, const VisitOptions& options, int threads,
                    double* violations, double* slacks) override {
    auto& state = awake();
    VisitReport report;
    ++state.clock;
    measured_ = false;
    state.threads = std::clamp<int>(threads, 1, most_threads);
    try {
      report = run(order, n, options, violations, slacks, threads);
    } catch (...) {  // an interrupt between two visits: the state is whole, but the running sums are old
      bytes_ = state.bytes_kept();
      loss_ = unknown;
      state.steps += static_cast<double>(n);  // also counts the visits that were not made
      throw;
    }
    state.steps += static_cast<double>(n);
    bytes_ += report.bytes;
    loss_ += report.loss;
    return report;
  }

  VisitReport subgradient(const int64_t* order, int64_t n, double active) override {
    auto& state = awake();
    const VisitReport report = subgradient_pass(state, order, n, active);
    measured_ = false;
    ++state.rewritten;
    bytes_ = state.bytes_kept();
    loss_ = unknown;
    return report;
  }

  [[gnu::cold]] std::pair<double, double> probe(const int64_t* blocks, int64_t n) override {
    auto& state = awake();
    auto s = state.structure.scratch();
    Move<S> move;
    std::vector<Label> u, y;
    double square = 0, loss = 0;
    for (int64_t k = 0; k < n; ++k) {
      const int64_t i = blocks[k];
      u.resize(state.structure.output_size(i));
      state.read_truth(i, y);
      state.structure.open(i, state.W.data(), s, true, 1);
      state.structure.best(s, state.W.data(), u.data());
      state.structure.build_pair(s, i, u.data(), y.data());
      move.renew();
      square += state.squared_norm(move, s);
      loss += state.structure.loss(i, u.data());
    }
    return {square / static_cast<double>(n), loss / static_cast<double>(n)};
  }

  // Exact: computes w by the law in double precision. A w in single precision beside a centre is the exception: it is
  // returned as updates have left it, since only this state knows the centre.
  void weights(bool exact, double* flat) override {
    const bool running = !exact || (sizeof(typename S::Real) == sizeof(float) && Base::state.proximity > 0);
    auto& state = running ? awake() : Base::state;
    // The caller, a certificate, holds more vectors as long as w, so this state gives its memory back meanwhile. With
    // planes given by Python it does not, because Python reads W in place.
    constexpr bool rests = !given_planes<S>;
    if (running) {
      if (exact && rests) state.rest_center();
      unpack(state.structure, state.W.data(), flat, state.threads);
      if (exact && rests) state.rest();
      return;
    }
    if constexpr (rests) state.rest();
    std::vector<double> w;
    state.law(w);
    unpack_spent(state.structure, w.data(), flat, state.threads);
  }
  void weighted(double* flat) const override {
    Base::state.structure.unpack(Base::state.weighted.data(), flat);
  }
  void start_average() override { Base::state.weighted.assign(Base::state.structure.weights(), 0); }
  [[gnu::cold]] void go_on(double steps, double scale, const double* sums, const double* weighted) override {
    auto& state = awake();
    state.steps = steps;
    loss_ = unknown;
    if (sums) {  // true outputs that were dropped, since they do not change w
      for (size_t i = 0; i < state.blocks.size(); ++i)
        state.materialize_truth(static_cast<int64_t>(i), sums[i]);
      for (size_t j = 0; j < state.origin.size(); ++j)
        state.W[j] += static_cast<typename S::Real>((scale - 1) * state.origin[j]);
      state.watch();
      measured_ = false;
      ++state.rewritten;
      bytes_ = state.bytes_kept();
    }
    if (weighted) state.weighted = state.packed(weighted, 0);
  }
  [[gnu::cold]] SupportArrays support() const override {
    const auto& state = Base::state;
    SupportList<Label> found;
    state.each_support([&](int64_t i, const Kept& plane, const Label* y) {
      found.add(i, plane.multiplier, y, state.structure.output_size(i));
    });
    return found;
  }
  [[gnu::cold]] SupportArrays support_of(const int64_t* blocks, int64_t n) const override {
    const auto& state = Base::state;
    SupportList<Label> found;
    for (int64_t k = 0; k < n; ++k) {
      const int64_t i = blocks[k];
      const auto& planes = state.blocks.at(static_cast<size_t>(i)).planes;
      for (size_t j = 0; j < planes.size(); ++j)
        if (planes[j].multiplier > 0)
          found.add(i, planes[j].multiplier, state.output(i, static_cast<int>(j)),
                    state.structure.output_size(i));
    }
    return found;
  }
  [[gnu::cold]] Usage usage() const override {
    const auto& state = Base::state;
    const size_t n = state.blocks.size();
    Usage found{std::vector<int64_t>(n), std::vector<int32_t>(n, 1), std::vector<uint8_t>(n, 0)};
    std::vector<Label> truth;
    for (size_t i = 0; i < n; ++i) {
      const auto& planes = state.blocks[i].planes;
      found.bytes[i] = state.cost(static_cast<int64_t>(i));
      if (planes.empty()) continue;
      state.read_truth(static_cast<int64_t>(i), truth);
      found.spread[i] = 0;
      for (size_t j = 0; j < planes.size(); ++j) {
        if (planes[j].multiplier <= 0) continue;
        ++found.spread[i];
        found.moved[i] |= !state.structure.same(i, state.output(i, static_cast<int>(j)), truth.data());
      }
    }
    return found;
  }

  // Takes multipliers from outside; they must fit the masses (checked by the caller).
  [[gnu::cold]] void restore(const int64_t* blocks, const double* multipliers, int64_t n,
                             LabelView outputs) override {
    auto& state = Base::state;
    for (auto& block : state.blocks)
      for (auto& plane : block.planes) plane.multiplier = 0;
    state.each_given(blocks, n, outputs, [&](int64_t p, int64_t i, const Label* y) {
      state.materialize_truth(i, 0);
      const int j = state.find(i, y);
      if (j < 0)
        state.add(i, y, multipliers[p]);
      else
        state.blocks[i].planes[j].multiplier += multipliers[p];
    });
    for (int64_t p = 0; p < n; ++p) state.drop_if_truth_only(blocks[p]);
    bytes_ = state.bytes_kept();
    refresh();
  }
  [[gnu::cold]] void clear() override {
    auto& state = Base::state;
    for (size_t i = 0; i < state.blocks.size(); ++i) {
      state.materialize_truth(static_cast<int64_t>(i), 0);
      for (auto& plane : state.blocks[i].planes) plane.multiplier = 0;
    }
    bytes_ = state.bytes_kept();
    loss_ = unknown;
  }
  [[gnu::cold]] void set_origin(const double* flat) override {
    awake();
    Base::set_origin(flat), measured_ = false;
  }
  [[gnu::cold]] void set_metric(const double* diagonal, const double* lower, const double* matrix) override {
    awake();
    Base::set_metric(diagonal, lower, matrix), measured_ = false;
  }
  [[gnu::cold]] void freeze(const double* flat) override {
    auto& state = awake();
    state.base = state.packed(flat, 0);
    state.refresh();
    measured_ = false;
  }
  [[gnu::cold]] void prune(int64_t most) override { bytes_ = Base::state.prune(most); }
  int64_t planes() const override { return Base::state.planes(); }
  int64_t bytes_kept() const override { return bytes_; }

  void refresh() override {
    awake().refresh();
    loss_ = unknown;
    measured_ = false;
  }
  double dual() override {
    auto& state = awake();
    if (std::isnan(loss_)) loss_ = state.offset();
    return measures() ? loss_ + conjugate_ : state.dual(loss_);
  }
  void recenter(double momentum, double proximity) override {
    auto& state = awake();
    state.recenter(momentum, proximity);
    state.watch();
    measured_ = false;
  }
  double lag() override { return awake().lag(); }
  double squared_distance() override { return measures() ? distance_ : awake().squared_distance(); }
  double proximity() const override { return Base::state.proximity; }
  double steps() const override { return Base::state.steps; }

 private:
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  int64_t bytes_ = 0;
  DualAscent<S> ascent_;
  Replicas<S> replicas_;
  double loss_ = unknown;  // sum a Delta, kept up to date by visits; NaN: must be added up again
  // -R*(q) and |w - z|^2. They are measured together, since a caller that asks for one asks for the other next.
  // measured_ is false if w has changed since.
  double conjugate_ = 0, distance_ = 0;
  bool measured_ = false;

  // The state, for methods that read or write W or the centre. Methods that need neither use `Base::state`.
  DualState<S>& awake() {
    Base::state.wake();
    return Base::state;
  }

  bool measures() {
    auto& state = awake();
    if (!state.metric.plain() || state.proximity == 0) return false;
    if (!measured_) std::tie(conjugate_, distance_) = state.conjugate_and_distance();
    return measured_ = true;
  }

  VisitReport run(const int64_t* order, int64_t n, const VisitOptions& options, double* violations,
                  double* slacks, int threads) {
    auto& state = Base::state;
    if constexpr (requires { S::one_thread; }) {
      const int64_t batch = this->ahead ? this->ahead : ascent_.worthwhile(n);
      if (threads > 1 && options.oracle && !options.slacks && batch > 1)
        return ascent_.pass_ahead(order, n, options, violations, batch, threads);
    } else if constexpr (!given_planes<S>) {
      if (replicas_.pays(n, state.threads, options))
        return replicas_.pass(order, n, options, violations, slacks, state.threads);
    }
    ++state.rewritten;
    return ascent_.pass(order, n, options, violations, slacks);
  }
};

}  // namespace mm
