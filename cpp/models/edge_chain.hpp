// EdgeChain: a chain that also scores neighbouring labels by features of their edge, and three labels in a
// row.
//
//     <w, Psi(x, y)> = (that of Chain) + sum_{t>0} <B[y_{t-1}, y_t], e_t> + sum_{t>1} D[y_{t-2}, y_{t-1}, y_t]
//
// e_t are the features of the edge into position t. B is absent if edges have no features, and D unless the
// chain is of second order. An open block has, besides its local scores, a table for each edge,
//     P_t[j, k] = A[j, k] + <B[j, k], e_t>.
// The argmax is Viterbi's over labels, or over pairs of neighbouring labels:
//     F_t[k]    = u_t[k] + max_j F_{t-1}[j] + P_t[j, k]
//     F_t[j, k] = u_t[k] + P_t[j, k] + max_i F_{t-1}[i, j] + D[i, j, k]
// W has the weights of Chain, a table like A for each edge feature, then a row D[i, j, :] for each pair. The
// flat weights are the flat weights of Chain, B (K, K, m), D (K, K, K).
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "models/chain.hpp"

namespace mm {

struct EdgeChainData {
  const ChainData* chain = nullptr;
  const Features* edges = nullptr;  // a row for each position except the first of a sequence; or null
  bool triples = false;
  int64_t blocks() const { return chain->blocks(); }
  int64_t dimension() const {
    const int64_t K = chain->labels;
    return chain->dimension() + K * K * ((edges ? edges->width() : 0) + (triples ? K : 0));
  }
};

class EdgeChain : public Chain<double, uint16_t> {
 public:
  using Base = Chain<double, uint16_t>;
  using Data = EdgeChainData;
  using typename Base::Edge;
  struct Pair {
    int t;
    int key;  // previous * stride + next
    double c;
  };
  struct Scratch : Base::Scratch {
    aligned<double> tables;  // P_t, T x K x stride, if edges have features; illegal pairs are -infinity
    aligned<double> states;  // F_t over pairs, T x K x stride
    aligned<double> from;    // F_{t-1}[:, j]
    std::vector<char> open;  // flags for position t: 1 local scores, 2 table
    aligned<double> pair_scores, pair_moves;       // second order: see `list_pairs`
    aligned<double> pair_expected, move_expected;  // second order: their expectations
    Stack<Pair> pairs;
    Stack<Edge> triples;
  };

  explicit EdgeChain(const Data& data);

  int64_t dimension() const { return all_.dimension(); }
  size_t weights() const { return triples_at_ + (all_.triples ? static_cast<size_t>(K_) * pair_size_ : 0); }
  Scratch scratch() const;
  void pack(const double* flat, double* W) const;
  void unpack(const double* W, double* flat) const;

  void open(int64_t block, const double* W, Scratch& s, bool augmented, double loss_scale) const;
  void open_where_different(int64_t block, const double* W, Scratch& s, const Label* outputs, int n) const;
  double score(const Scratch& s, const Label* y) const;
  double best(Scratch& s, const double* W, Label* y) const;
  bool slack_argmax() const { return !all_.triples && Base::slack_argmax(); }
  void best_slack(Scratch& s, const double* W, double shift, const Label* truth, Label* y) const;
  // For second order: uses a table of all pairs of pairs of labels.
  void best_k(Scratch& s, const double* W, int k, std::vector<int32_t>& y, std::vector<double>& values) const;

  // For second order: pools the beliefs of pairs of labels.
  void beliefs(Scratch& s, const double* W, double temperature, double* out) const;

  void build_pair(Scratch& s, int64_t block, const Label* plus, const Label* minus) const;
  void build_mixture(Scratch& s, int64_t block, const Label* outputs, const double* c, int n) const;
  // The list has no room for features of edges.
  void list_move(const Scratch&, std::vector<int32_t>&) const = delete;
  double squared_norm(Scratch& s) const;
  template <class Target>
  void apply(const Scratch& s, Target W, double c) const;
  // Deleted: the versions of Chain ignore the tables of the edges and the triples.
  void shift(Scratch& s, double c) const = delete;
  void unpack_spent(double* W, double* flat, int threads) const = delete;
  std::unique_ptr<Violators> lister() const = delete;

  // Sums over all labellings (edge_chain_sums_all.cpp).
  int64_t potentials(int64_t block) const;
  void list_potentials(Scratch& s, const double* W, double* theta) const;
  double distribute(Scratch& s, int64_t block, const double* theta, double* m) const;
  void subtract_truth(int64_t block, double* m) const;
  double add_expected(Scratch& s, int64_t block, const double* m, double* W, double c) const;
  void draw(Scratch& s, int64_t block, const double* m, const double* chance, int32_t* y) const;

 private:
  using Base::data_;
  using Base::K_;
  using Base::length;
  using Base::stride_;
  using Base::transitions_;
  const Data& all_;
  size_t pair_size_;  // size of a table over pairs of labels
  size_t edges_at_, triples_at_;

  int64_t edge_row(int64_t block, int t) const { return data_.offsets[block] - block + t - 1; }
  int pair(int previous, int next) const { return previous * stride_ + next; }
  int64_t triple(int first, int second, int third) const {
    return static_cast<int64_t>(first) * static_cast<int64_t>(pair_size_) + pair(second, third);
  }
  double* table(Scratch& s, int t) const { return s.tables.data() + static_cast<size_t>(t) * pair_size_; }
  // P_t
  const double* table(const Scratch& s, int t) const {
    return all_.edges ? s.tables.data() + static_cast<size_t>(t) * pair_size_ : s.weights + transitions_;
  }
  const double* triples(const double* W) const { return W + triples_at_; }
  double edge_dot(int64_t block, int t, int q) const {
    return all_.edges->dot(edge_row(block, t), edge_row(block, q));
  }
  SequenceScores sequence(Scratch& s, const double* W) const;
  // Writes a chain of second order as one of first order, whose labels are pairs of neighbouring labels:
  //   state (j, k) of position t:  local(t, j, k),    from (i, j) to (j, k):  D[i, j, k]
  template <class Local>
  SequenceScores list_pairs(Scratch& s, int T, const double* D, Local&& local) const {
    const int states = K_ * K_, wide = padded<double>(states);
    s.pair_scores.assign(static_cast<size_t>(T - 1) * wide, 0);
    s.pair_moves.assign(static_cast<size_t>(states) * wide, -std::numeric_limits<double>::infinity());
    for (int j = 0; j < K_; ++j)
      for (int k = 0; k < K_; ++k) {
        const size_t state = j * K_ + k;
        for (int t = 1; t < T; ++t) s.pair_scores[static_cast<size_t>(t - 1) * wide + state] = local(t, j, k);
        for (int i = 0; i < K_; ++i)
          s.pair_moves[static_cast<size_t>(i * K_ + j) * wide + state] = D[triple(i, j, k)];
      }
    return {T - 1, states, wide, s.pair_scores.data(), s.pair_moves.data(), nullptr, nullptr, 0};
  }
  SequenceScores pair_states(Scratch& s, const double* W) const;
  void add_tables(int T, double* E) const;
  double distribute_pairs(Scratch& s, int T, const double* u, const double* P, double* m) const;
  void spread_pairs(const Scratch& s, int T, double* m) const;
  void open_table(Scratch& s, int t) const;
  void best_pairs(Scratch& s, const double* D, const SequenceScores& all) const;
  void first_states(const SequenceScores& all, double* F) const;
  template <class Output>
  void build_edges(Scratch& s, const double* c, int n, Output&& output) const;
  template <class F>
  void each_weight(F&& f) const;
};

}  // namespace mm
