// The part of factor graphs that does not depend on the label type: weights, scores, argmax, moves
// (factor_graph.hpp).
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "gather.hpp"
#include "models/argmax.hpp"
#include "models/graph_data.hpp"

namespace mm {

class GraphFactors {
 public:
  using Real = double;
  using Data = GraphData;

  struct Item {
    int32_t bank, column;
    int64_t row;
    double c;
  };
  struct Scratch {
    std::vector<double> unary, own, shared;
    std::vector<const double*> tables;  // of each link
    std::vector<int64_t> shared_place;  // offset of the table of each type of edges
    std::vector<int64_t> stamp;         // the opening that computed this table
    aligned<double> row_scores;         // scores of all columns of a bank
    std::vector<int32_t> nodes, links;  // after a partial opening: where outputs differ
    std::vector<char> differs, changes;
    std::vector<int32_t> labels, changed;
    std::vector<Item> move;
    std::vector<double> dense;            // buffer for a long move as a vector; zero between uses
    std::vector<double> up, row, column;  // buffers of sum-product
    std::vector<std::vector<double>> messages;
    std::vector<int64_t> link_place;
    Argmax argmax;
    int64_t opened = 0, block = 0;
    uint64_t chance = 1;
    bool partial = false, augmented = false;
    bool prove = false;  // whether `best` should work for a low ceiling
    double leeway = 0;   // how far a proven ceiling may stay above the value
    double ceiling = 0;  // after `best`: an upper bound on all scores, maybe infinite

    // Whether any ceiling will do, so that it should be cheap.
    bool hurried() const { return prove && leeway == std::numeric_limits<double>::infinity(); }
  };

  explicit GraphFactors(const Data& data) : data_(data) {}

  int64_t blocks() const { return data_.blocks(); }
  int64_t dimension() const { return data_.size; }
  size_t weights() const { return static_cast<size_t>(data_.stored); }
  int output_size(int64_t block) const { return data_.shape_of(block).nodes(); }
  bool exact() const;  // whether the argmax is always the best labelling; if not, use `ceiling`
  bool slack_argmax() const { return false; }
  Scratch scratch() const;
  void pack(const double* flat, double* W) const;
  void unpack(const double* W, double* flat) const;

  void open(int64_t block, const double* W, Scratch& s, bool augmented, double loss_scale) const;
  double squared_norm(Scratch& s) const;
  // W += c * move
  template <class Target>
  void apply(const Scratch& s, Target W, double c) const;
  PairwiseView view(const Scratch& s) const {
    return {&data_.shape_of(s.block), s.unary.data(), s.tables.data()};
  }

  // Sums over all labellings; only for forests (SumsAll, graph_sums_all.cpp).
  bool can_sum() const;
  int row_labels() const { return 1; }
  int row_stride() const { return 1; }
  int64_t potentials(int64_t block) const;
  void list_potentials(const Scratch& s, const double* W, double* theta) const;
  double distribute(Scratch& s, int64_t block, const double* theta, double* m) const;
  void subtract_truth(int64_t block, double* m) const;
  double expected_loss(int64_t block, const double* m) const;
  void add_expected(Scratch& s, int64_t block, const double* m, double* W, double c) const;
  void draw(const Scratch& s, int64_t block, const double* m, const double* chance, int32_t* y) const;

  // Parts of a visit, for solvers that move one factor at a time.
  void open_nodes(int64_t block, const double* W, Scratch& s) const;
  // Computes loss and score of each label of one node.
  void node_scores(int64_t block, int v, const double* W, double* out) const;
  // Computes the scores of all pairs of labels of one link, row-major by its end a.
  void link_scores(int64_t block, int l, const double* W, double* out) const;
  double pair_score(int64_t block, int l, int p, int q, const double* W) const;
  // Whether no output has these labels at the ends of a link.
  bool never(const Shape& g, int l, int p, int q) const;
  void push_node(Scratch& s, const Shape& g, int v, int label, double c) const;
  void push_pair(Scratch& s, const Shape& g, int l, int p, int q, double c) const;
  double node_loss(int64_t block, int v, int label) const;
  // An upper bound on the largest eigenvalue of the Gram matrix of a factor's labels.
  double node_curvature(int64_t block, int v) const;
  double link_curvature(int64_t block, int l) const;

 protected:
  const Data& data_;

  double find_best(Scratch& s) const;  // the labels go into s.labels
  // Returns true for one random visit in sixteen, which then searches as thoroughly as a certificate does.
  // Otherwise training might never find the outputs that keep the certified gap open.
  static bool thorough(Scratch& s) {
    s.chance = s.chance * 6364136223846793005u + 1442695040888963407u;
    return s.chance >> 60 == 0;
  }
  // A partial opening; s.differs marks the nodes that differ.
  void open_marked(int64_t block, const double* W, Scratch& s) const;
  // Calls f(link) for the links of the marked node v. If both ends of a link are marked, only the call for its end a
  // visits it.
  template <class F>
  static void each_link_once(const Shape& g, const std::vector<char>& marked, int v, F&& f) {
    for (int32_t e = g.first[v]; e < g.first[v + 1]; ++e) {
      const int l = g.around[e];
      if (g.a[l] == v || !marked[g.a[l]]) f(l);
    }
  }

 private:
  struct NodeScores;
  static void place_links(const Shape& g, std::vector<int64_t>& place);
  void distribute_down(const Shape& g, Scratch& s, const double* theta, double* m) const;
  // If a move has more items than this, a table is cheaper than comparing all pairs of items.
  static constexpr size_t many = 24;

  int truth_of(int64_t block, int v) const { return data_.truth[data_.node_first[block] + v]; }
  double node_weight(int64_t block, int v) const { return data_.weight[data_.node_first[block] + v]; }
  int64_t edge_row(int64_t block, int32_t number) const {
    return data_.edge_row[data_.edge_first[block] + number];
  }
  const Shape& begin(int64_t block, Scratch& s, bool augmented, bool partial) const;
  void bank_scores(int number, int64_t row, const double* W, Scratch& s) const;
  void open_link(const Shape& g, int l, const double* W, Scratch& s) const;
  const double* shared_table(int number, const double* W, Scratch& s) const;
  template <class F>
  void each_column(const Shape& g, int64_t block, int l, int p, int q, F&& f) const;
  double column_score(int number, int64_t row, int32_t column, const double* W) const;
  double squared_norm_by_table(Scratch& s) const;
  template <class F>
  void each_weight(F&& f) const;
};

}  // namespace mm
