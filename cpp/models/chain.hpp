// Chain: a label for each position of a sequence, scored by position and by neighbouring labels.
//
//     <w, Psi(x, y)> = sum_t <w_{y_t}, x_t> + sum_{t>0} A[y_{t-1}, y_t] (+ start[y_0] + end[y_{T-1}])
//     Delta_i(y)     = sum_t node_weight_t * cost[y_it, y_t]
//
// Some transitions, starts and ends may be illegal. Every argmax is then one over legal labellings. It reads
// a copy of A with -infinity for illegal pairs. So the same loops serve both cases, and the weights
// themselves stay finite.
//
// A visit computes the local scores U = X_i W once. Then T look-ups score a labelling. A move between
// labellings is a short list of (position, label, coefficient) and a list of transitions. Its squared norm
// and the update of W follow from these lists. W has a row of `stride` reals for each feature, then a row for
// each previous label, then the rows `start` and `end`. The flat weights are unary (K, d), transitions
// (K, K), then start (K) and end (K) if the model has them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "models/beliefs.hpp"
#include "models/chain_base.hpp"

namespace mm {

template <class Real_, class Label_>
class Chain : public ChainBase<Real_> {
 public:
  using Base = ChainBase<Real_>;
  using Real = Real_;
  using Label = Label_;
  using Base::Base;
  using typename Base::Edge;
  using typename Base::Scratch;

  bool valid(int64_t block, const Label* y) const {
    const int T = length(block);
    if (!std::all_of(y, y + T, [&](Label k) { return k >= 0 && k < K_; })) return false;
    bool legal = this->penalty(edge(K_, y[0])) == 0 && this->penalty(edge(K_ + 1, y[T - 1])) == 0;
    for (int t = 1; t < T; ++t) legal &= this->penalty(edge(y[t - 1], y[t])) == 0;
    return legal;
  }

  void truth(int64_t block, Label* y) const {
    for (int t = 0; t < length(block); ++t) y[t] = static_cast<Label>(data_.truth[row(block, t)]);
  }
  double loss(int64_t block, const Label* y) const {
    double sum = 0;
    for (int t = 0; t < length(block); ++t) {
      const int64_t r = row(block, t);
      sum += data_.weight_of(r) * data_.cost.of(data_.truth[r], y[t]);
    }
    return sum;
  }

  // Computes local scores only for positions on which the n outputs disagree, which is enough to compare
  // them.
  void open_where_different(int64_t block, const Real* W, Scratch& s, const Label* outputs, int n) const {
    const int T = length(block);
    open_positions(block, W, s, outputs, n, [&](int t) {
      uint64_t wanted = 0;
      for (int j = 0; j < n; ++j)
        wanted |= uint64_t(1) << std::min(outputs[static_cast<size_t>(j) * T + t] / Vector<Real>::lanes, 63);
      this->row_scores(row(block, t), W, this->local(s, t), true, 1, wanted);
    });
  }

  // Returns s_i(y) up to a constant of the block; after a partial opening, up to a constant of the compared
  // outputs.
  double score(const Scratch& s, const Label* y) const {
    const int T = length(s.block);
    const Real* A = s.weights + transitions_;
    double sum = 0;
    if (!s.partial) {
      sum = s.local[y[0]];
      for (int t = 1; t < T; ++t)
        sum +=
            static_cast<double>(s.local[static_cast<size_t>(t) * stride_ + y[t]]) + A[edge(y[t - 1], y[t])];
      return sum + ends(A, y, T);
    }
    for (int t : s.positions) sum += s.local[static_cast<size_t>(t) * stride_ + y[t]];
    for (int t : s.moved) sum += A[edge(y[t - 1], y[t])];
    return sum + ends(A, y, T);
  }

  double best(Scratch& s, const Real* W, Label* y) const {
    const Real* A = this->legal_pairs(s, W);
    const std::vector<int>& path = this->best_path(s, A, A, 0);
    std::copy(path.begin(), path.end(), y);
    return score(s, y);
  }

  // argmax_y Delta(y) (score(y) + shift) for a loss that counts mistakes, all at the same cost.
  void best_slack(Scratch& s, const Real* W, double shift, const Label* truth, Label* y) const {
    best_slack_of(scores(s, W), s, shift, truth, y);
  }

  bool same(int64_t block, const Label* a, const Label* b) const {
    return std::memcmp(a, b, sizeof(Label) * length(block)) == 0;
  }

  // move = Psi(x, plus) - Psi(x, minus)
  void build_pair(Scratch& s, int64_t block, const Label* plus, const Label* minus) const {
    const int T = length(block);
    s.block = block;
    s.nodes.clear(2 * static_cast<size_t>(T));
    s.edges.clear(2 * static_cast<size_t>(T) + 4);
    bool before = false;
    for (int t = 0; t < T; ++t) {
      const bool here = plus[t] != minus[t];
      if (here) {
        s.nodes.push({t, plus[t], 1.0});
        s.nodes.push({t, minus[t], -1.0});
      }
      if (t > 0 && (here || before)) {
        s.edges.push({edge(plus[t - 1], plus[t]), 1.0});
        s.edges.push({edge(minus[t - 1], minus[t]), -1.0});
      }
      before = here;
    }
    if (data_.start && plus[0] != minus[0]) {
      s.edges.push({edge(K_, plus[0]), 1.0});
      s.edges.push({edge(K_, minus[0]), -1.0});
    }
    if (data_.end && before) {
      s.edges.push({edge(K_ + 1, plus[T - 1]), 1.0});
      s.edges.push({edge(K_ + 1, minus[T - 1]), -1.0});
    }
  }

  // Writes such a move as a list that other threads can apply. First comes the number of changed positions
  // and the number of changed edges. Each position follows with the label that it gains and the one that it
  // loses, then each pair of labels that is gained and the one that is lost.
  void list_move(const Scratch& s, std::vector<int32_t>& list) const {
    list.assign({static_cast<int32_t>(s.nodes.size() / 2), static_cast<int32_t>(s.edges.size() / 2)});
    for (size_t a = 0; a < s.nodes.size(); a += 2)
      list.insert(list.end(), {s.nodes[a].t, s.nodes[a].label, s.nodes[a + 1].label});
    for (size_t a = 0; a < s.edges.size(); ++a) list.push_back(static_cast<int32_t>(s.edges[a].key));
  }
  void apply_list(int64_t block, const int32_t* list, Real* W, double c) const {
    const int32_t *node = list + 2, *edges = node + 3 * list[0], *end = edges + 2 * list[1];
    for (; node < edges; node += 3)
      data_.nodes.add_two(row(block, node[0]), W, stride_, node[1], node[2], static_cast<Real>(c));
    Real* A = W + transitions_;
    for (; edges < end; edges += 2) {
      A[edges[0]] += static_cast<Real>(c);
      A[edges[1]] += static_cast<Real>(-c);
    }
  }
  // Prefetches the memory that `apply_list` will read.
  void prefetch_list(int64_t block, const int32_t* list, const Real* W, Stage stage) const {
    if (stage == Stage::weights && !far_) return;
    for (int k = 0; k < list[0]; ++k) this->prefetch_row(row(block, list[2 + 3 * k]), W, stage);
  }

  // move = sum_j c_j Psi(x, y_j). The c_j sum to zero, so that positions on which all outputs agree drop out.
  void build_mixture(Scratch& s, int64_t block, const Label* outputs, const double* c, int n) const {
    const int T = length(block);
    s.block = block;
    s.nodes.clear(static_cast<size_t>(T) * n);
    s.edges.clear(static_cast<size_t>(T + 2) * n);
    for (int t = 0; t < T; ++t) {
      const size_t nodes = s.nodes.size(), edges = s.edges.size();
      for (int j = 0; j < n; ++j) {
        if (c[j] == 0) continue;
        const Label* y = outputs + static_cast<size_t>(j) * T;
        gather_node(s, nodes, t, y[t], c[j]);
        if (t > 0) gather(s.edges, edges, Edge{edge(y[t - 1], y[t]), c[j]});
        if (data_.start && t == 0) gather(s.edges, edges, Edge{edge(K_, y[t]), c[j]});
        if (data_.end && t == T - 1) gather(s.edges, edges, Edge{edge(K_ + 1, y[t]), c[j]});
      }
      if (s.nodes.size() == nodes + 1) s.nodes.drop_to(nodes);
      if (s.edges.size() == edges + 1) s.edges.drop_to(edges);
    }
  }

  // Gives the lister all scores of the open block.
  void list_scores(Scratch& s, Violators& sums) const {
    static_cast<ChainSums&>(sums).read(scores(s, s.weights), data_.truth.data() + row(s.block, 0));
  }
  void best_k(Scratch& s, const Real* W, int k, std::vector<int32_t>& y, std::vector<double>& values) const {
    best_labellings(scores(s, W), k, y, values);
  }
  int node_labels(int64_t, int) const { return K_; }
  void beliefs(Scratch& s, const Real* W, double temperature, double* out) const {
    Beliefs(temperature).of_sequence(scores(s, W), out);
  }

 protected:
  using Base::data_;
  using Base::edge;
  using Base::far_;
  using Base::K_;
  using Base::length;
  using Base::row;
  using Base::stride_;
  using Base::transitions_;

  void best_slack_of(const SequenceScores& all, Scratch& s, double shift, const Label* truth,
                     Label* y) const {
    const std::vector<int32_t> known(truth, truth + all.T);
    std::vector<int32_t> found = known;
    best_by_mistakes(all, data_.weight_of(row(s.block, 0)), shift, known, s.counted, found);
    std::copy(found.begin(), found.end(), y);
  }
  SequenceScores scores(Scratch& s, const Real* W) const {
    const Real* A = this->legal_pairs(s, W);
    return {length(s.block),
            K_,
            stride_,
            s.local.data(),
            A,
            this->has_start() ? A + edge(K_, 0) : nullptr,
            this->has_end() ? A + edge(K_ + 1, 0) : nullptr,
            0};
  }
  double ends(const Real* A, const Label* y, int T) const {
    double sum = 0;
    if (data_.start) sum += A[edge(K_, y[0])];
    if (data_.end) sum += A[edge(K_ + 1, y[T - 1])];
    return sum;
  }

  // A partial opening: calls score(t) for the positions on which the n outputs disagree.
  template <class Score>
  void open_positions(int64_t block, const Real* W, Scratch& s, const Label* outputs, int n,
                      Score&& score) const {
    const int T = length(block);
    s.block = block;
    s.partial = true;
    s.weights = W;
    s.positions.clear();
    s.moved.clear();
    bool before = false;
    for (int t = 0; t < T; ++t) {
      bool different = false;
      for (int j = 1; j < n; ++j) different |= outputs[static_cast<size_t>(j) * T + t] != outputs[t];
      if (t > 0 && (different || before)) s.moved.push_back(t);
      before = different;
      if (!different) continue;
      s.positions.push_back(t);
      far_ ? this->prefetch_row(row(block, t), W, Stage::weights) : score(t);
    }
    if (far_)
      for (int t : s.positions) score(t);
  }
  static void gather_node(Scratch& s, size_t first, int t, int label, double c) {
    for (size_t a = first; a < s.nodes.size(); ++a)
      if (s.nodes[a].label == label) return void(s.nodes[a].c += c);
    s.nodes.push({t, label, c});
  }
  // Adds the coefficient to the item with the same key among the items from `first` on, or appends the item.
  template <class Item>
  static void gather(Stack<Item>& items, size_t first, const Item& item) {
    for (size_t a = first; a < items.size(); ++a)
      if (items[a].key == item.key) return void(items[a].c += item.c);
    items.push(item);
  }
};

}  // namespace mm
