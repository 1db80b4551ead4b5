// A chain with many labels: the same model and the same weights as `Chain`, with a faster argmax that is
// still exact.
//
// Viterbi computes F'[k] = U[k] + max_j (F[j] + A[j, k]), which takes K^2 work per position. But most A[j, k]
// are exactly zero, because no update ever touched them. So all K labels start at U[k] + f, with f = F[i] the
// largest of F, and only stored entries change that. Moreover, few labels matter. For the others a ceiling is
// enough, an upper bound on F'[k].
//   1. losses(i): a label k with A[i, k] < 0 falls to U[k] + f + A[i, k]. The second best label and the largest gain
//      into k may allow more; then k gets that ceiling, and is unsure.
//   2. For each j with F[j] + most(j) > f, gains(j) are read, the largest first, until F[j] + A[j, k] <= f. Each
//      label k that is read rises to at least U[k] + F[j] + A[j, k]; it is unsure if j is unsure.
//   3. The best few labels, the leaders, must be sure. To evaluate an unsure leader k, F'[k] is maximised over the
//      previous leaders, then over the gains into k that can still raise it. A gain from an unsure label counts only
//      after that label has been evaluated.
// The passes over K labels are additions and maxima of vectors; the rest follows the entries that matter. The
// predecessors on the best path are found by evaluating its labels again.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "models/chain.hpp"
#include "models/label_passes.hpp"
#include "models/leaders.hpp"
#include "models/sparse_transitions.hpp"

namespace mm {

template <class Real_, class Label_>
class LargeChain : public Chain<Real_, Label_> {
 public:
  using Base = Chain<Real_, Label_>;
  using Real = Real_;
  using Label = Label_;
  using Index = SparseTransitions<Real>;
  // Updates keep the index sorted, so only one at a time is possible.
  static constexpr bool one_thread = true;
  using Leaders = mm::Leaders<Real>;
  struct Scratch : Base::Scratch {  // `forward` of Base has F of all positions, or ceilings
    std::vector<char> unsure;       // for all positions and labels
    std::vector<Leaders> leaders;   // for all positions
    aligned<Real> reach;            // for one position: max_j (F[j] + A[j, k]), or ceilings
    Peaks<Real> peaks;              // of the latest position
    aligned<Real> ends;             // scores added at the last position; empty if there are none
    std::vector<int32_t> found, order;
    // The index to read instead of the structure's own; for weights that do not change.
    const Index* given = nullptr;
  };

  using Base::Base;

  // Returns an index of the weights W for scratches to read. One index serves many data sets.
  std::shared_ptr<const void> index_of(const Real* W) const {
    auto index = std::make_shared<Index>();
    read(W, *index);
    return index;
  }
  // Reads the transitions of W. `apply` to this W keeps the index up to date; after any other change call
  // `changed` or `watch`.
  void watch(const Real* W) {
    watched_ = W;
    read(W, index_);
  }
  // The average number of local scores of a sequence.
  int64_t work() const {
    return this->data_.offsets.back() * this->stride_ / std::max<int64_t>(1, this->blocks());
  }

  // The interface for factorwise solvers. A position is a row of the features; `first` and `last` tell
  // whether it begins or ends its sequence.
  Index& index() { return index_; }
  int row_length() const { return this->stride_; }
  int64_t first_transition() const { return this->transitions_; }
  void unary_scores(int64_t row, bool first, bool last, const Real* W, Real* u) const {
    this->row_scores(row, W, u, true, 1);
    const Real* A = W + this->transitions_;
    if (this->data_.start && first) add(A + this->edge(this->K_, 0), u);
    if (this->data_.end && last) add(A + this->edge(this->K_ + 1, 0), u);
  }
  // Returns the unary score of one label.
  double unary_score(int64_t row, bool first, bool last, const Real* W, int label) const {
    const Real* A = W + this->transitions_;
    double sum = this->data_.weight_of(row) * this->data_.cost.of(this->data_.truth[row], label) +
                 this->data_.nodes.score_of(row, W, this->stride_, label);
    if (this->data_.start && first) sum += A[this->edge(this->K_, label)];
    if (this->data_.end && last) sum += A[this->edge(this->K_ + 1, label)];
    return sum;
  }
  double node_norm(int64_t row, bool first, bool last, int label) const {
    return this->data_.nodes.norm(row, label) + (this->data_.start && first) + (this->data_.end && last);
  }
  template <class Target>
  void add_node(int64_t row, bool first, bool last, int label, double c, Target W) const {
    using To = number_at<Target>;
    this->data_.nodes.add_column(row, W, this->stride_, label, static_cast<To>(c));
    Target A = W + this->transitions_;
    if (this->data_.start && first) A[this->edge(this->K_, label)] += static_cast<To>(c);
    if (this->data_.end && last) A[this->edge(this->K_ + 1, label)] += static_cast<To>(c);
  }
  // The index in W of the weight of a transition.
  size_t edge_place(int previous, int next) const {
    return static_cast<size_t>(this->transitions_ + this->edge(previous, next));
  }
  template <class To>
  void add_edge(int previous, int next, double c, To* W) const {
    To& weight = W[this->transitions_ + this->edge(previous, next)];
    weight += static_cast<To>(c);
    if (static_cast<const void*>(W) == static_cast<const void*>(watched_))
      reindex(previous, next, static_cast<Real>(weight));
  }
  double edge_weight(const Real* W, int previous, int next) const {
    return W[this->transitions_ + this->edge(previous, next)];
  }

  Scratch scratch() const {
    Scratch s;
    s.local.resize(static_cast<size_t>(this->longest_) * this->stride_);
    s.forward.resize(s.local.size());
    s.unsure.resize(s.local.size());
    s.leaders.resize(this->longest_);
    s.reach.resize(this->stride_);
    s.found.resize(this->stride_);
    return s;
  }

  void open(int64_t block, const Real* W, Scratch& s, bool augmented, Real loss_scale) const {
    Base::open(block, W, s, augmented, loss_scale);
    const Real never = -std::numeric_limits<Real>::infinity();
    for (int t = 0; t < this->length(block); ++t) {  // the padding has no labels
      Real* u = s.local.data() + static_cast<size_t>(t) * this->stride_;
      std::fill(u + this->K_, u + this->stride_, never);
    }
  }

  // As in Chain, but only for the labels of the outputs.
  void open_where_different(int64_t block, const Real* W, Scratch& s, const Label* outputs, int n) const {
    const int T = this->length(block);
    this->open_positions(block, W, s, outputs, n, [&](int t) {
      for (int j = 0; j < n; ++j) local_score(s, W, t, outputs[static_cast<size_t>(j) * T + t]);
    });
  }

  double best(Scratch& s, const Real* W, Label* y) const {
    const int T = this->length(s.block);
    const Real* A = W + this->transitions_;
    std::fill(s.unsure.begin(), s.unsure.begin() + this->stride_, 0);
    std::fill(s.reach.begin(), s.reach.end(), Real(0));
    if (this->has_start()) add_ends(A, this->K_, s.reach.data());
    s.ends.assign(this->has_end() ? this->stride_ : 0, Real(0));
    if (this->has_end()) add_ends(A, this->K_ + 1, s.ends.data());
    complete(s, 0);
    for (int t = 1; t < T; ++t) {
      rank(s, A, t - 1);
      advance(s, t);
      if (t % settled == 0 && t + 1 < T) settle(s, A, t);
    }
    rank(s, A, T - 1);
    int top = s.leaders[T - 1].best[0].label;
    for (int t = T - 1; t >= 0; --t) {
      y[t] = static_cast<Label>(top);
      if (t > 0) top = predecessor(s, A, t, top);
    }
    return this->score(s, y);
  }

  // For long moves: only nodes with the same label, and edges with the same key, have inner products.
  double squared_norm(Scratch& s) const {
    if (s.nodes.size() <= Base::many_nodes) return Base::squared_norm(s);
    double sum = 0;
    over_equal(
        s, s.nodes.size(), [&](int a) { return static_cast<int64_t>(s.nodes[a].label); },
        [&](int a, int b) {
          const auto &p = s.nodes[a], &q = s.nodes[b];
          if (a == b) return sum += p.c * p.c * this->data_.nodes.norm(this->row(s.block, p.t), p.label);
          if (p.t == q.t) return sum;
          return sum += 2 * p.c * q.c * this->dot(s.block, std::min(p.t, q.t), std::max(p.t, q.t), p.label);
        });
    over_equal(
        s, s.edges.size(), [&](int a) { return s.edges[a].key; },
        [&](int a, int b) { return sum += (a == b ? 1 : 2) * s.edges[a].c * s.edges[b].c; });
    return sum;
  }

  void apply(const Scratch& s, Gather W, double c) const { Base::apply(s, W, c); }
  // Updates the index after a weight of the watched W was changed by other code than `apply`.
  void changed(const Real* W, size_t at) const {
    const int64_t key = static_cast<int64_t>(at) - this->transitions_;
    const int64_t j = key / this->stride_, k = key % this->stride_;
    if (key >= 0 && j < this->K_ && k < this->K_) reindex(static_cast<int>(j), static_cast<int>(k), W[at]);
  }
  template <class To>
  void apply(const Scratch& s, To* W, double c) const {
    Base::apply(s, W, c);
    if (static_cast<const void*>(W) != static_cast<const void*>(watched_)) return;
    const To* A = W + this->transitions_;
    for (size_t a = 0; a < s.edges.size(); ++a) {
      const int64_t key = s.edges[a].key, j = key / this->stride_;
      if (j < this->K_)
        reindex(static_cast<int>(j), static_cast<int>(key - j * this->stride_), static_cast<Real>(A[key]));
    }
  }

 private:
  const Real* watched_ = nullptr;
  mutable Index index_;
  const Index& known(const Scratch& s) const { return s.given ? *s.given : index_; }
  static constexpr int lanes = Vector<Real>::lanes;

  // In the index, the weight of an illegal transition is minus infinity.
  void read(const Real* W, Index& index) const {
    const Real* penalty = this->penalty_ ? this->penalty_->data() : nullptr;
    index.read(W + this->transitions_, this->K_, this->stride_, penalty);
  }
  void reindex(int previous, int next, Real weight) const {
    index_.set(previous, next, weight + this->penalty(this->edge(previous, next)));
  }
  Real transition(const Real* A, int previous, int next) const {
    const int64_t at = this->edge(previous, next);
    return A[at] + this->penalty(at);
  }

  void add(const Real* x, Real* to) const {
    for (int k = 0; k < this->stride_; ++k) to[k] += x[k];
  }
  // Adds the row of the start or of the end.
  void add_ends(const Real* A, int row, Real* to) const {
    add(A + this->edge(row, 0), to);
    if (this->penalty_) add(this->penalty_->data() + this->edge(row, 0), to);
  }

  void local_score(Scratch& s, const Real* W, int t, int label) const {
    const int64_t r = this->row(s.block, t);
    const double cost = this->data_.weight_of(r) * this->data_.cost.of(this->data_.truth[r], label);
    s.local[static_cast<size_t>(t) * this->stride_ + label] =
        static_cast<Real>(cost) + this->data_.nodes.score_of(r, W, this->stride_, label);
  }

  // After every run of this many positions all unsure labels are evaluated, which bounds the recursion of
  // `evaluate`. A larger number recurses deeper; a smaller one evaluates more labels.
  static constexpr int settled = 128;

  Real* forward(Scratch& s, int t) const { return s.forward.data() + static_cast<size_t>(t) * this->stride_; }
  char* unsure(Scratch& s, int t) const { return s.unsure.data() + static_cast<size_t>(t) * this->stride_; }
  // Returns the scores of the end at the last position, else null.
  const Real* end_scores(const Scratch& s, int t) const {
    return !s.ends.empty() && t + 1 == this->length(s.block) ? s.ends.data() : nullptr;
  }

  // Computes F of position t from U and `reach`, and the maxima of the groups.
  void complete(Scratch& s, int t) const {
    const Real *U = this->local(s, t), *reach = s.reach.data(), *end = end_scores(s, t);
    Real* F = forward(s, t);
    const auto sum = [=](int k) { return load(U + k) + load(reach + k); };
    if (!end) return s.peaks.fill(F, this->stride_, sum);
    s.peaks.fill(F, this->stride_, [=](int k) { return sum(k) + load(end + k); });
  }

  // Finds the leaders of position t: the labels above a bar, or else one that reaches it.
  void rank(Scratch& s, const Real* A, int t) const {
    Leaders& L = s.leaders[t];
    for (L.count = 0; L.count == 0;) {
      const Real bar = L.rest = s.peaks.of_best(Leaders::most);
      lead(s, A, t, bar, true);
      if (L.count == 0) lead(s, A, t, bar, false);
      if (L.count > 0) return;
      Real* F = forward(s, t);
      s.peaks.fill(F, this->stride_, [=](int k) { return load(F + k); });
    }
  }
  void lead(Scratch& s, const Real* A, int t, Real bar, bool above) const {
    const Real* F = forward(s, t);
    const char* doubt = unsure(s, t);
    Leaders& L = s.leaders[t];
    const vec<Real> y = broadcast(bar);
    const int n =
        list(s, [=](int k) { return above ? lanes_above(load(F + k), y) : lanes_at_least(load(F + k), y); });
    for (int a = 0; a < n; ++a)
      if (doubt[s.found[a]]) fetch_column(s, A, t, s.found[a]);
    for (int a = 0; a < n; ++a) {
      const int j = s.found[a];
      if (doubt[j]) evaluate(s, A, t, j);
      if (above ? F[j] > bar : F[j] >= bar) L.place({F[j], j});
      if (!above && L.count) return;
    }
  }
  template <class Bits>
  int list(Scratch& s, const Bits& bits) const {
    return list_labels<Real>(this->stride_, s.found.data(), bits);
  }
  // Prefetches what an evaluation of k will read.
  void fetch_column(Scratch& s, const Real* A, int t, int k) const {
    const Leaders& L = s.leaders[t - 1];
    fetch_ahead(known(s).gains_into(k).data());
    for (int n = 0; n < L.count; ++n) fetch_ahead(A + this->edge(L.best[n].label, k));
  }
  // Computes the ceilings of position t. They are all sure, except for the labels that steps 1 and 2 mark.
  void advance(Scratch& s, int t) const {
    std::fill(s.reach.begin(), s.reach.end(), s.leaders[t - 1].best[0].value);
    std::fill(unsure(s, t), unsure(s, t) + this->stride_, 0);
    lower(s, t);
    raise(s, t);
    complete(s, t);
  }
  // Step 1: labels into which the best label has a negative transition.
  void lower(Scratch& s, int t) const {
    const Leaders& L = s.leaders[t - 1];
    const Real f = L.best[0].value, second = L.count > 1 ? L.best[1].value : L.rest;
    Real* reach = s.reach.data();
    char* doubt = unsure(s, t);
    for (const auto& e : known(s).losses(L.best[0].label)) {
      const Real kept = f + e.value, other = std::min(f, second + known(s).most_into()[e.other]);
      reach[e.other] = std::max(kept, other);
      doubt[e.other] = other > kept;
    }
  }
  // Step 2: labels with a positive transition from labels that can do better than the best one.
  void raise(Scratch& s, int t) const {
    const Real *F = forward(s, t - 1), *most = known(s).most(), f = s.leaders[t - 1].best[0].value;
    const vec<Real> bar = broadcast(f);
    const int n = list(s, [=](int k) { return lanes_above(load(F + k) + load(most + k), bar); });
    constexpr int ahead = 8;
    Real* reach = s.reach.data();
    char* doubt = unsure(s, t);
    for (int a = 0; a < n; ++a) {
      if (a + ahead < n) fetch_ahead(known(s).gains(s.found[a + ahead]).data());
      const int j = s.found[a];
      const Real own = F[j];
      const char source = unsure(s, t - 1)[j];
      const auto* e = known(s).gains(j).data();
      do {  // no branches, which would be mispredicted: values up to f change nothing
        for (size_t n = 0; n < Index::block; ++n, ++e) {
          const Real value = own + e->value, old = reach[e->other];
          const int before = doubt[e->other], raised = -static_cast<int>(value > old);
          reach[e->other] = std::max(old, value);
          doubt[e->other] = static_cast<char>(before ^ ((before ^ source) & raised));
        }
      } while (own + e[-1].value > f);
    }
  }
  // Step 3: computes F[k] of position t, which is then sure; returns the predecessor.
  int evaluate(Scratch& s, const Real* A, int t, int k) const {
    const Leaders& L = s.leaders[t - 1];
    const Real most = known(s).most_into()[k];
    Real reach = -std::numeric_limits<Real>::infinity();
    int from = 0;
    for (int n = 0; n < L.count && L.best[n].value + most > reach; ++n) {
      const Real value = L.best[n].value + transition(A, L.best[n].label, k);
      if (value > reach) reach = value, from = L.best[n].label;
    }
    if (L.rest + most > reach) among_rest(s, A, t, k, reach, from);
    const Real* end = end_scores(s, t);
    forward(s, t)[k] = this->local(s, t)[k] + reach + (end ? end[k] : Real(0));
    unsure(s, t)[k] = 0;
    return from;
  }
  // The label before k on the best path to k at position t.
  int predecessor(Scratch& s, const Real* A, int t, int k) const {
    const auto& first = s.leaders[t - 1].best[0];
    const Real* end = end_scores(s, t);
    const Real reach = first.value + transition(A, first.label, k);
    const Real value = this->local(s, t)[k] + reach + (end ? end[k] : Real(0));
    return value == forward(s, t)[k] ? first.label : evaluate(s, A, t, k);
  }
  // Tries the labels that are not leaders: by their gains into k, and all of them if the leaders score too
  // little.
  void among_rest(Scratch& s, const Real* A, int t, int k, Real& reach, int& from) const {
    const Real *F = forward(s, t - 1), rest = s.leaders[t - 1].rest;
    const auto offer = [&](int j, Real weight) {
      if (F[j] + weight <= reach) return;
      if (unsure(s, t - 1)[j]) evaluate(s, A, t - 1, j);
      if (F[j] + weight > reach) reach = F[j] + weight, from = j;
    };
    for (const auto& e : known(s).gains_into(k)) {
      if (rest + e.value <= reach) break;
      offer(e.other, e.value);
    }
    if (rest <= reach) return;
    for (int j = 0; j < this->stride_; j += lanes)
      for (int found = lanes_above(load(F + j), broadcast(reach)); found; found &= found - 1) {
        const int l = j + std::countr_zero(static_cast<unsigned>(found));
        offer(l, transition(A, l, k));
      }
  }
  // Evaluates all unsure labels.
  void settle(Scratch& s, const Real* A, int t) const {
    for (int k = 0; k < this->K_; ++k)
      if (unsure(s, t)[k]) evaluate(s, A, t, k);
  }
  // Calls f(a, b), b <= a, for all pairs with the same key.
  template <class Key, class F>
  static void over_equal(Scratch& s, size_t n, Key&& key, F&& f) {
    s.order.resize(n);
    for (size_t a = 0; a < n; ++a) s.order[a] = static_cast<int32_t>(a);
    std::sort(s.order.begin(), s.order.end(), [&](int a, int b) { return key(a) < key(b); });
    for (size_t first = 0, a = 0; a < n; ++a) {
      if (key(s.order[a]) != key(s.order[first])) first = a;
      for (size_t b = first; b <= a; ++b) f(s.order[a], s.order[b]);
    }
  }
};

}  // namespace mm
