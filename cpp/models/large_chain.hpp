// A chain with many labels: the same model and the same weights as `Chain`, an argmax that is exact for less.
//
// Viterbi asks for F'[k] = U[k] + max_j (F[j] + A[j, k]), K^2 work a position. Most A[j, k] are exactly zero:
// no update ever touched them. With f = F[i] the largest of F, all K labels k begin at U[k] + f, and differ from
// that only by what is stored:
//   1. losses(i): k with A[i, k] < 0 fall to U[k] + f + A[i, k]
//   2. gains(j) of those j with F[j] + most(j) > f, the largest first, until F[j] + A[j, k] <= f: k may rise.
//      Now every F'[k] is exact that is >= U[k] + f; only labels of step 1 can be too low, and are at most that.
//      They begin at the second best label, and the gains of a few leaders are followed that far, for their sake.
//   3. A label k that cannot beat some label e on the way to any next label,
//        U[k] + f + most(k) <= max_e (F'[e] + least(e)),
//      need not be exact: any path through k is no better than one through e. The other labels of step 1 are
//      mended: over the best j, and over the gains of their column.
// Step 3 keeps max_k (F'[k] + A[k, l]) for every l, hence the best score of all. The passes over K labels are
// additions and maxima of vectors; the rest follows the entries that matter. Predecessors: i, but for the labels
// that steps 2 and 3 name.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "models/chain.hpp"
#include "models/sparse_transitions.hpp"

namespace mm {

template <class Real_, class Label_>
class LargeChain : public Chain<Real_, Label_> {
 public:
  using Base = Chain<Real_, Label_>;
  using Real = Real_;
  using Label = Label_;
  using Index = SparseTransitions<Real>;
  static constexpr bool one_thread = true;  // updates keep the order of the entries: one at a time

  struct Other {
    int32_t label, previous;
  };
  struct Scratch : Base::Scratch {
    aligned<Real> now, next;       // F of a position and of the next
    std::vector<int32_t> usual;    // the predecessor of the labels of position t...
    std::vector<size_t> first;     // ...that `others` does not name from first[t] to first[t + 1]
    std::vector<Other> others;     // a later entry replaces an earlier one
    std::vector<int32_t> leaders;  // the best labels of F, the best first
    std::vector<int64_t> fallen;   // labels of step 1 have the number of this step, or minus it
    std::vector<Real> drop;        // F + A of the best label on the way to them
    int64_t stamp = 0;
    std::vector<int32_t> order;
  };

  using Base::Base;

  // The structure with an index of its own for the weights W.
  LargeChain indexed(const Real* W) const {
    LargeChain copy(*this);
    copy.watch(W);
    return copy;
  }
  // Reads the transitions of W; `apply` to this W keeps the index up to date, any other change asks for `watch`.
  void watch(const Real* W) {
    watched_ = W;
    index_.read(W + this->transitions_, this->K_, this->stride_);
  }
  int64_t stored() const { return index_.entries(); }

  // What a factorwise solver asks: a position is a row of the features, `first` and `last` in its sequence or not.
  Index& index() { return index_; }
  int row_length() const { return this->stride_; }
  int64_t first_transition() const { return this->transitions_; }
  void unary_scores(int64_t row, bool first, bool last, const Real* W, Real* u) const {
    this->row_scores(row, W, u, true, 1);
    const Real* A = W + this->transitions_;
    if (this->data_.start && first) add(A + this->edge(this->K_, 0), u);
    if (this->data_.end && last) add(A + this->edge(this->K_ + 1, 0), u);
  }
  double node_norm(int64_t row, bool first, bool last) const {
    return this->data_.features->norms[row] + (this->data_.start && first) + (this->data_.end && last);
  }
  template <class To>
  void add_node(int64_t row, bool first, bool last, int label, double c, To* W) const {
    this->data_.features->add_column(row, W, this->stride_, label, static_cast<To>(c));
    To* A = W + this->transitions_;
    if (this->data_.start && first) A[this->edge(this->K_, label)] += static_cast<To>(c);
    if (this->data_.end && last) A[this->edge(this->K_ + 1, label)] += static_cast<To>(c);
  }
  template <class To>
  void add_edge(int previous, int next, double c, To* W) const {
    To& weight = W[this->transitions_ + this->edge(previous, next)];
    weight += static_cast<To>(c);
    if (static_cast<const void*>(W) == static_cast<const void*>(watched_))
      index_.set(previous, next, static_cast<Real>(weight));
  }
  double edge_weight(const Real* W, int previous, int next) const {
    return W[this->transitions_ + this->edge(previous, next)];
  }

  Scratch scratch() const {
    Scratch s;
    s.local.resize(static_cast<size_t>(this->longest_) * this->stride_);
    s.now.resize(this->stride_);
    s.next.resize(this->stride_);
    s.fallen.resize(this->K_);
    s.drop.resize(this->K_);
    return s;
  }

  void open(int64_t block, const Real* W, Scratch& s, bool augmented, Real loss_scale) const {
    Base::open(block, W, s, augmented, loss_scale);
    const Real never = -std::numeric_limits<Real>::infinity();
    for (int t = 0; t < this->length(block); ++t) {  // no label stands in the padding
      Real* u = s.local.data() + static_cast<size_t>(t) * this->stride_;
      std::fill(u + this->K_, u + this->stride_, never);
    }
  }

  // As in Chain, but for the labels of the outputs only.
  void open_where_different(int64_t block, const Real* W, Scratch& s, const Label* outputs, int n) const {
    const int T = this->length(block);
    s.block = block;
    s.partial = true;
    s.weights = W;
    s.positions.clear();
    for (int t = 0; t < T; ++t) {
      bool different = false;
      for (int j = 1; j < n; ++j) different |= outputs[static_cast<size_t>(j) * T + t] != outputs[t];
      if (!different) continue;
      s.positions.push_back(t);
      for (int j = 0; j < n; ++j) local_score(s, W, t, outputs[static_cast<size_t>(j) * T + t]);
    }
  }

  double best(Scratch& s, const Real* W, Label* y) const {
    const int T = this->length(s.block);
    const Real* A = W + this->transitions_;
    std::copy(s.local.begin(), s.local.begin() + this->stride_, s.now.begin());
    if (this->data_.start) add(A + this->edge(this->K_, 0), s.now.data());
    s.usual.assign(T + 1, 0);
    s.first.assign(T + 2, 0);
    s.others.clear();
    int top = largest(s.now.data());
    for (int t = 1; t < T; ++t) {
      top = advance(s, A, t, top);
      std::swap(s.now, s.next);
    }
    if (this->data_.end) {
      add(A + this->edge(this->K_ + 1, 0), s.now.data());
      top = largest(s.now.data());
    }
    for (int t = T - 1; t >= 0; --t) {
      y[t] = static_cast<Label>(top);
      if (t > 0) top = predecessor_of(s, t, top);
    }
    return this->score(s, y);
  }

  // Long moves: only nodes of one label, and edges of one key, have inner products.
  double squared_norm(Scratch& s) const {
    if (s.nodes.size() <= Base::many_nodes) return Base::squared_norm(s);
    double sum = 0;
    over_equal(
        s, s.nodes.size(), [&](int a) { return static_cast<int64_t>(s.nodes[a].label); },
        [&](int a, int b) {
          const auto &p = s.nodes[a], &q = s.nodes[b];
          if (a == b) return sum += p.c * p.c * this->data_.features->norms[this->row(s.block, p.t)];
          if (p.t == q.t) return sum;
          return sum += 2 * p.c * q.c * this->dot(s.block, std::min(p.t, q.t), std::max(p.t, q.t));
        });
    over_equal(
        s, s.edges.size(), [&](int a) { return s.edges[a].key; },
        [&](int a, int b) { return sum += (a == b ? 1 : 2) * s.edges[a].c * s.edges[b].c; });
    return sum;
  }

  void apply(const Scratch& s, Gather W, double c) const { Base::apply(s, W, c); }
  // A weight of the watched W was changed by others than `apply`.
  void changed(const Real* W, size_t at) const {
    const int64_t key = static_cast<int64_t>(at) - this->transitions_;
    const int64_t j = key / this->stride_, k = key % this->stride_;
    if (key >= 0 && j < this->K_ && k < this->K_) index_.set(static_cast<int>(j), static_cast<int>(k), W[at]);
  }
  template <class To>
  void apply(const Scratch& s, To* W, double c) const {
    Base::apply(s, W, c);
    if (static_cast<const void*>(W) != static_cast<const void*>(watched_)) return;
    const To* A = W + this->transitions_;
    for (size_t a = 0; a < s.edges.size(); ++a) {
      const int64_t key = s.edges[a].key, j = key / this->stride_;
      if (j < this->K_)
        index_.set(static_cast<int>(j), static_cast<int>(key - j * this->stride_), static_cast<Real>(A[key]));
    }
  }

 private:
  const Real* watched_ = nullptr;
  mutable Index index_;
  static constexpr int lanes = Vector<Real>::lanes;

  void add(const Real* x, Real* to) const {
    for (int k = 0; k < this->stride_; ++k) to[k] += x[k];
  }

  // max_k (F[k] + x[k]); without x, max_k F[k]
  Real highest(const Real* F, const Real* x) const {
    vec<Real> top = x ? load(F) + load(x) : load(F);
    if (x)
      for (int k = lanes; k < this->stride_; k += lanes) top = maximum(top, load(F + k) + load(x + k));
    else
      for (int k = lanes; k < this->stride_; k += lanes) top = maximum(top, load(F + k));
    Real value = top[0];
    for (int n = 1; n < lanes; ++n) value = std::max(value, static_cast<Real>(top[n]));
    return value;
  }
  // The first index of the largest.
  int largest(const Real* F) const {
    const vec<Real> wanted = broadcast(highest(F, nullptr));
    for (int k = 0; k < this->stride_; k += lanes)
      if (const int found = lanes_at_least(load(F + k), wanted)) return k + __builtin_ctz(found);
    return 0;
  }

  void local_score(Scratch& s, const Real* W, int t, int label) const {
    const int64_t r = this->row(s.block, t);
    const double cost = this->data_.node_weight[r] * this->data_.cost_of(this->data_.truth[r], label);
    s.local[static_cast<size_t>(t) * this->stride_ + label] =
        static_cast<Real>(cost) + this->data_.features->score_of(r, W, this->stride_, label);
  }

  // F' from F, whose best label is `top`; returns the best label of F'.
  int advance(Scratch& s, const Real* A, int t, int top) const {
    const Real* F = s.now.data();
    Real* G = s.next.data();
    const Real* U = s.local.data() + static_cast<size_t>(t) * this->stride_;
    const Real f = F[top];
    s.usual[t] = top;
    s.first[t] = s.others.size();
    const vec<Real> base = broadcast(f);
    for (int k = 0; k < this->stride_; k += lanes) store(G + k, load(U + k) + base);
    rank(F, top, s.leaders);
    lower(s, U);  // 1
    for (int32_t j : s.leaders) follow(s, U, j, F[s.leaders[1]]);
    raise(s, U, f);  // 2
    const bool last = t + 1 == this->length(s.block);
    const Real* end = this->data_.end ? A + this->edge(this->K_ + 1, 0) : nullptr;
    const Real bar = last ? highest(G, end) : highest(G, index_.least());
    for (const auto& e : index_.losses(top)) {  // 3
      const int k = e.other;
      const Real ceiling = U[k] + f, after = !last ? index_.most()[k] : end ? end[k] : Real(0);
      if (G[k] < ceiling && ceiling + after > bar) mend(s, A, U, k);
    }
    s.first[t + 1] = s.others.size();
    return largest(G);
  }

  // Labels that the best one does not like begin at the second, unless that does not like them either.
  void lower(Scratch& s, const Real* U) const {
    const int top = s.leaders[0], second = s.leaders[1];
    const Real f = s.now[top], g = s.now[second];
    Real* G = s.next.data();
    ++s.stamp;
    for (const auto& e : index_.losses(top)) {
      const Real kept = f + e.value;
      s.fallen[e.other] = s.stamp;
      s.drop[e.other] = kept;
      G[e.other] = U[e.other] + std::max(kept, g);
      if (g > kept) s.others.push_back({e.other, second});
    }
    for (const auto& e : index_.losses(second)) {
      if (s.fallen[e.other] != s.stamp) continue;
      const Real kept = s.drop[e.other], other = g + e.value;
      s.fallen[e.other] = -s.stamp;  // a third label may do
      G[e.other] = U[e.other] + std::max(kept, other);
      s.others.push_back({e.other, kept >= other ? top : second});
    }
  }

  // Follows the gains of every label that can beat f on the way to some label.
  void raise(Scratch& s, const Real* U, Real f) const {
    const Real *F = s.now.data(), *most = index_.most();
    const vec<Real> bar = broadcast(f);
    for (int k = 0; k < this->stride_; k += lanes)
      for (int found = lanes_above(load(F + k) + load(most + k), bar); found; found &= found - 1)
        follow(s, U, k + __builtin_ctz(found), f);
  }
  // The gains of label j, as long as they lead above `bar`.
  void follow(Scratch& s, const Real* U, int32_t j, Real bar) const {
    const Real from = s.now[j];
    Real* G = s.next.data();
    for (const auto& e : index_.gains(j)) {
      const Real value = from + e.value;
      if (value <= bar) return;
      if (U[e.other] + value <= G[e.other]) continue;
      G[e.other] = U[e.other] + value;
      s.others.push_back({e.other, j});
    }
  }

  // F'[k] exactly. A label that two leaders do not like asks the others, and all labels if none of them will do;
  // the gains of the leaders into any other are followed. Then the gains of the rest, until none can do.
  void mend(Scratch& s, const Real* A, const Real* U, int k) const {
    const Real* F = s.now.data();
    Real* G = s.next.data();
    const auto offer = [&](int j, Real value) {
      if (U[k] + value > G[k]) G[k] = U[k] + value, s.others.push_back({k, j});
    };
    const bool twice = s.fallen[k] < 0;
    for (size_t n = 2; twice && n < s.leaders.size(); ++n)
      offer(s.leaders[n], F[s.leaders[n]] + A[this->edge(s.leaders[n], k)]);
    if (twice && s.leaders.size() == most_leaders &&
        U[k] + F[s.leaders.back()] > G[k])  // none of them will do
      for (int j = 0; j < this->K_; ++j)
        if (U[k] + F[j] > G[k]) offer(j, F[j] + A[this->edge(j, k)]);
    const Real rest = F[s.leaders.back()];  // of all others
    for (const auto& e : index_.gains_into(k)) {
      if (U[k] + (rest + e.value) <= G[k]) break;
      offer(e.other, F[e.other] + e.value);
    }
  }

  static constexpr int most_leaders = 16;
  // The labels with the largest F, the best first: `top`, which is known, and some others.
  void rank(const Real* F, int top, std::vector<int32_t>& leaders) const {
    leaders.assign(1, top);
    const auto place = [&](int j) {
      if (j == top) return;
      size_t n = leaders.size();
      if (n < most_leaders)
        leaders.push_back(j);
      else
        --n;
      for (; n > 1 && F[leaders[n - 1]] < F[j]; --n) leaders[n] = leaders[n - 1];
      leaders[n] = j;
    };
    for (int k = 0; k < std::min(this->K_, 2 * most_leaders); ++k)
      if (leaders.size() < most_leaders || F[k] > F[leaders.back()]) place(k);
    for (int k = 2 * most_leaders; k < this->stride_; k += lanes)
      for (int found = lanes_above(load(F + k), broadcast(F[leaders.back()])); found; found &= found - 1) {
        const int j = k + __builtin_ctz(found);
        if (F[j] > F[leaders.back()]) place(j);
      }
  }

  int predecessor_of(const Scratch& s, int t, int label) const {
    for (size_t n = s.first[t + 1]; n-- > s.first[t];)
      if (s.others[n].label == label) return s.others[n].previous;
    return s.usual[t];
  }

  // Calls f(a, b), b <= a, for all pairs of one key.
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
