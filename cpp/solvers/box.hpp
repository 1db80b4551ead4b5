// The box of multipliers of the summed error (hinge "sum") and its passes, for any structure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "models/concept.hpp"
#include "solvers/kept_state.hpp"
#include "solvers/set_ascent.hpp"

namespace mm {

// A cut at some w: which kept outputs violate, by number, and the sum of their planes.
struct BoxCut : CutReport {
  std::vector<double> slacks;  // of each block, over its kept outputs
  std::vector<double> vector;
  std::vector<uint8_t> violators;
};

// Kept outputs are numbered in the order in which they were found; true outputs have no number. `bytes_kept` counts the
// outputs that searches have found. Outputs that are kept from the start are counted with the examples.
class Box : public KeptState {
 public:
  // Visits blocks in the given order, with a multiplier for each output (box_ascent.hpp), or for each set of violators
  // (set_ascent.hpp).
  virtual BoxReport visit(const int64_t* order, int64_t n, const BoxOptions& options) = 0;
  virtual SetReport visit_sets(const int64_t* order, int64_t n, bool oracle, double tolerance) = 0;
  // Returns the cut at w; with `oracle`, searches for violators first.
  virtual BoxCut cut(const double* w, bool oracle, int threads) = 0;
  // Read and write the multipliers of the kept outputs by number, as fractions of their masses.
  virtual std::vector<double> shares() = 0;
  virtual void set_shares(const double* shares, int64_t n) = 0;
  // Adds violators at w (null: at the running w) that are not kept yet, up to `most` kept outputs for a block.
  virtual int64_t widen(const double* w, int64_t most, int threads) = 0;
  virtual void weights(double* flat) const = 0;
  // Convert the multipliers of outputs to multipliers of sets, and back.
  virtual void multipliers_to_sets() = 0;
  virtual void sets_to_multipliers() = 0;
  virtual int64_t sets() const = 0;
};

template <Structure S>
class BoxOf : public KeptStateOf<S, Box> {
 public:
  using Label = typename S::Label;
  using Real = typename S::Real;
  using Base = KeptStateOf<S, Box>;
  using Base::state;

  // complete: V_i holds every output from the start
  BoxOf(std::unique_ptr<S> structure, std::vector<double> mass, bool complete)
      : Base(std::move(structure), std::move(mass)),
        complete_(complete),
        ascent_(state, complete),
        sets_(state, complete) {
    if (complete)
      for (size_t i = 0; i < state.blocks.size(); ++i) BoxAscent<S>::fill(state, static_cast<int64_t>(i));
  }

  BoxReport visit(const int64_t* order, int64_t n, const BoxOptions& options) override {
    return ascent_.pass(order, n, options);
  }
  SetReport visit_sets(const int64_t* order, int64_t n, bool oracle, double tolerance) override {
    return sets_.pass(order, n, oracle, tolerance);
  }

  BoxCut cut(const double* w, bool oracle, int threads) override {
    BoxCut found;
    found.slacks.resize(state.blocks.size());
    std::vector<double> sum;
    const auto W = packed(w);
    static_cast<CutReport&>(found) =
        cut_of_violators(state, complete_, W.data(), oracle, threads, found.slacks.data(), sum);
    found.vector.resize(static_cast<size_t>(this->dimension()));
    state.structure.unpack(sum.data(), found.vector.data());
    number();
    found.violators.assign(static_cast<size_t>(count_), 0);
    each_number([&](int64_t i, int j, int64_t k) {
      found.violators[k] = state.blocks[i].planes[j].stamp == state.clock;
    });
    return found;
  }

  std::vector<double> shares() override {
    number();
    std::vector<double> shares(static_cast<size_t>(count_), 0);
    each_number([&](int64_t i, int j, int64_t k) {
      shares[k] = state.mass[i] > 0 ? state.blocks[i].planes[j].multiplier / state.mass[i] : 0;
    });
    return shares;
  }
  void set_shares(const double* shares, int64_t n) override {
    number();
    each_number([&](int64_t i, int j, int64_t k) {
      const double part = k < n ? shares[k] : 0;
      state.blocks[i].planes[j].multiplier = std::min(state.mass[i], part * state.mass[i]);
    });
  }

  int64_t widen(const double* w, int64_t most, int threads) override {
    const aligned<Real> given = w ? packed(w) : aligned<Real>();
    const Real* W = w ? given.data() : state.W.data();
    std::vector<int64_t> found(most_threads, 0);
    parallel(static_cast<int64_t>(state.blocks.size()), threads, [&](int64_t from, int64_t to, int k) {
      if constexpr (requires { state.structure.lister(); }) {
        const std::unique_ptr<Violators> sums = state.structure.lister();
        if (!sums) return;
        auto s = state.structure.scratch();
        for (int64_t i = from; i < to; ++i)
          if (poll(); state.mass[i] > 0) found[k] += mm::widen(state, W, i, most, s, *sums);
      }
    });
    int64_t total = 0;
    for (int64_t f : found) total += f;
    return total;
  }

  void weights(double* flat) const override {
    std::vector<double> w;
    state.law(w);
    state.structure.unpack(w.data(), flat);
  }

  SupportArrays support() const override {
    SupportList<Label> found;
    for (size_t i = 0; i < state.blocks.size(); ++i)
      for (size_t j = 1; j < state.blocks[i].planes.size(); ++j) {
        const double a = state.blocks[i].planes[j].multiplier;
        const Label* y = state.output(static_cast<int64_t>(i), static_cast<int>(j));
        if (a > 0) found.add(static_cast<int64_t>(i), a, y, state.structure.output_size(i));
      }
    return found;
  }

  // Adds multipliers from outside. Each output gets at most its block's mass.
  void restore(const int64_t* blocks, const double* multipliers, int64_t n, LabelView outputs) override {
    state.each_given(blocks, n, outputs, [&](int64_t p, int64_t i, const Label* y) {
      restore_plane(i, y, std::max(0.0, multipliers[p]));
    });
    state.refresh();
  }

  void refresh() override { state.refresh(); }
  double dual() override { return state.dual(state.offset()); }
  int64_t planes() const override {
    int64_t n = 0;
    for (const auto& b : state.blocks) n += std::max<int64_t>(1, static_cast<int64_t>(b.planes.size())) - 1;
    return n;
  }
  int64_t bytes_kept() const override { return complete_ ? 0 : state.bytes_kept(); }
  [[gnu::cold]] void prune(int64_t most) override {
    int64_t now = bytes_kept();
    for (size_t i = 0; i < state.blocks.size() && now > most; ++i) {
      auto& block = state.blocks[i];
      const int64_t before = state.cost(static_cast<int64_t>(i));
      for (int j = static_cast<int>(block.planes.size()) - 1; j > 0; --j)  // the first is the true output
        if (block.planes[j].multiplier <= 0) state.remove(static_cast<int64_t>(i), j);
      block.planes.shrink_to_fit();
      block.outputs.shrink_to_fit();
      now += state.cost(static_cast<int64_t>(i)) - before;
    }
  }
  int64_t sets() const override { return sets_.sets(); }
  void multipliers_to_sets() override { sets_.from_multipliers(); }
  void sets_to_multipliers() override { sets_.to_multipliers(); }
  // Adds a given plane to V_i, even if an equal plane is kept.
  void keep(int64_t i, Label y) {
    state.materialize_truth(i, 0);
    state.add(i, &y, 0);
  }

 private:
  bool complete_;
  BoxAscent<S> ascent_;
  SetAscent<S> sets_;
  std::vector<std::vector<int64_t>> numbers_;  // of the kept outputs of each block; -1: the true output
  int64_t count_ = 0;

  aligned<Real> packed(const double* w) const {
    aligned<Real> W(state.structure.weights());
    state.structure.pack(w, W.data());
    return W;
  }
  void number() {
    numbers_.resize(state.blocks.size());
    for (size_t i = 0; i < numbers_.size(); ++i) {
      if (numbers_[i].empty()) numbers_[i].push_back(-1);  // the true output
      while (numbers_[i].size() < state.blocks[i].planes.size()) numbers_[i].push_back(count_++);
    }
  }
  template <class F>
  void each_number(F&& f) const {
    for (size_t i = 0; i < numbers_.size(); ++i)
      for (size_t j = 1; j < numbers_[i].size(); ++j)
        f(static_cast<int64_t>(i), static_cast<int>(j), numbers_[i][j]);
  }

  void restore_plane(int64_t i, const Label* y, double a) {
    state.materialize_truth(i, 0);
    auto& planes = state.blocks[i].planes;
    for (int j = 0; a > 0 && j < static_cast<int>(planes.size()); ++j) {
      if (!state.structure.same(i, state.output(i, j), y)) continue;
      if (j == 0) return;  // the true output
      const double part = std::min(a, state.mass[i] - planes[j].multiplier);
      planes[j].multiplier += part, a -= part;
      if (!given_planes<S> || a <= 0) return;  // outputs of one plane may appear several times
    }
    const int j = state.find(i, y);
    if (j < 0) state.add(i, y, std::min(a, state.mass[i]));
  }
};

}  // namespace mm
