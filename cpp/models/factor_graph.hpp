// Factor graphs: a label for each node of a graph, scored by nodes and by edges, with weights shared by type.
//
//   <w, Psi(x, y)> = sum_v <w_bank[column of y_v], x_v> + sum_e <w_bank[column of (y_a, y_b)], x_e>
//   Delta_i(y)     = sum_v weight_v cost_type[y_v true, y_v]
//
// A visit computes the scores of nodes and the tables of links once; then a labelling is scored by look-ups, and a
// move between labellings is a short list of (bank, column, row, coefficient).
// Weights inside: banks one after the other, feature-major. Weights outside: each bank column-major.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "gather.hpp"
#include "models/argmax.hpp"
#include "models/graph_data.hpp"

namespace mm {

template <class Label_>
class FactorGraph {
 public:
  using Real = double;
  using Label = Label_;
  using Data = GraphData;
  static constexpr bool given_planes = false;

  struct Item {
    int32_t bank, column;
    int64_t row;
    double c;
  };
  struct Scratch {
    std::vector<double> unary, own, shared;
    std::vector<const double*> tables;  // of each link
    std::vector<int64_t> shared_place;  // where the table of a type of edges begins
    std::vector<int64_t> stamp;         // the opening that computed it
    aligned<double> row_scores;         // of all columns of a bank
    std::vector<int32_t> nodes, links;  // after a partial opening: where outputs differ
    std::vector<char> differs, changes;
    std::vector<int32_t> labels, changed;
    std::vector<Item> move;
    std::vector<double> dense;  // a long move as a vector; zero between uses
    Argmax argmax;
    int64_t opened = 0, block = 0;
    uint64_t chance = 1;
    bool partial = false, augmented = false;
    bool prove = false;  // whether `best` shall do what it can for a low ceiling
    double ceiling = 0;  // no output scores more, after `best`; infinity where it is not known
  };

  explicit FactorGraph(const Data& data) : data_(data) {}

  int64_t blocks() const { return data_.blocks(); }
  int64_t dimension() const { return data_.size; }
  size_t weights() const { return static_cast<size_t>(data_.stored); }
  int output_size(int64_t block) const { return data_.shape_of(block).nodes(); }
  bool valid(int64_t block, const Label* y) const {
    const Shape& g = data_.shape_of(block);
    for (int v = 0; v < g.nodes(); ++v)
      if (y[v] < 0 || y[v] >= g.count[v]) return false;
    return true;
  }
  // Whether the argmax is always the best labelling; else there is a `ceiling`.
  bool exact() const {
    if (data_.argmax.method != Inference::automatic) return data_.argmax.method == Inference::tree;
    return std::all_of(data_.shapes.begin(), data_.shapes.end(), [](const Shape& g) { return g.forest; });
  }
  bool slack_argmax() const { return false; }
  void prepare() {}

  Scratch scratch() const {
    Scratch s;
    for (const EdgeType& type : data_.edge_types) {
      s.shared_place.push_back(static_cast<int64_t>(s.shared.size()));
      s.shared.resize(s.shared.size() + type.column.size());
    }
    s.stamp.assign(data_.edge_types.size(), 0);
    int widest = 0;
    for (const Bank& bank : data_.banks) widest = std::max(widest, bank.stride);
    s.row_scores.resize(widest);
    return s;
  }

  template <class To>
  void pack(const double* flat, To* W) const {
    each_weight([&](int64_t inside, int64_t outside) { W[inside] = static_cast<To>(flat[outside]); });
  }
  template <class From>
  void unpack(const From* W, double* flat) const {
    each_weight([&](int64_t inside, int64_t outside) { flat[outside] = W[inside]; });
  }

  void truth(int64_t block, Label* y) const {
    const int32_t* known = data_.truth.data() + data_.node_first[block];
    for (int v = 0; v < output_size(block); ++v) y[v] = static_cast<Label>(known[v]);
  }
  bool same(int64_t block, const Label* a, const Label* b) const {
    return std::memcmp(a, b, sizeof(Label) * output_size(block)) == 0;
  }
  double loss(int64_t block, const Label* y) const {
    const Shape& g = data_.shape_of(block);
    double sum = 0;
    for (int v = 0; v < g.nodes(); ++v) sum += node_loss(block, v, y[v]);
    return sum;
  }

  void open(int64_t block, const double* W, Scratch& s, bool augmented, double loss_scale) const {
    const Shape& g = begin(block, s, augmented, false);
    NodeScores scores{*this, s, W};
    for (int v = 0; v < g.nodes(); ++v) scores.write(g, v, augmented ? loss_scale : 0);
    for (int l = 0; l < g.links(); ++l) open_link(g, l, W, s);
  }

  // Scores where the n outputs do not agree: enough to compare them.
  void open_where_different(int64_t block, const double* W, Scratch& s, const Label* outputs, int n) const {
    const Shape& g = begin(block, s, true, true);
    NodeScores scores{*this, s, W};
    s.nodes.clear();
    s.links.clear();
    s.differs.assign(g.nodes(), 0);
    for (int v = 0; v < g.nodes(); ++v) {
      for (int j = 1; j < n && !s.differs[v]; ++j)
        s.differs[v] = outputs[static_cast<size_t>(j) * g.nodes() + v] != outputs[v];
      if (!s.differs[v]) continue;
      s.nodes.push_back(v);
      scores.write(g, v, 1);
    }
    for (const int v : s.nodes)
      each_link_once(g, s.differs, v, [&](int l) {
        s.links.push_back(l);
        open_link(g, l, W, s);
      });
  }

  // Parts of a visit, for methods that move one factor at a time.
  void open_nodes(int64_t block, const double* W, Scratch& s) const {
    const Shape& g = begin(block, s, true, false);
    NodeScores scores{*this, s, W};
    for (int v = 0; v < g.nodes(); ++v) scores.write(g, v, 1);
    s.move.clear();
  }
  // Loss and score of each label of one node.
  void node_scores(int64_t block, int v, const double* W, double* out) const {
    const Shape& g = data_.shape_of(block);
    const NodeType& type = data_.node_types[g.type[v]];
    const int64_t row = data_.node_row[data_.node_first[block] + v];
    for (int k = 0; k < type.labels(); ++k) out[k] = column_score(type.bank, row, type.column[k], W);
    type.cost.add(truth_of(block, v), node_weight(block, v), out, type.labels());
  }
  // Scores of all pairs of labels of one link, row-major by its end a.
  void link_scores(int64_t block, int l, const double* W, double* out) const {
    const Shape& g = data_.shape_of(block);
    const int rows = g.count[g.a[l]], columns = g.count[g.b[l]];
    for (int p = 0; p < rows; ++p)
      for (int q = 0; q < columns; ++q) out[p * columns + q] = pair_score(block, l, p, q, W);
  }
  double pair_score(int64_t block, int l, int p, int q, const double* W) const {
    double sum = 0;
    each_column(data_.shape_of(block), block, l, p, q,
                [&](int bank, int32_t column, int64_t row) { sum += column_score(bank, row, column, W); });
    return sum;
  }
  void push_node(Scratch& s, const Shape& g, int v, int label, double c) const {
    const NodeType& type = data_.node_types[g.type[v]];
    const int32_t column = type.column[label];
    if (column >= 0) s.move.push_back({type.bank, column, data_.node_row[data_.node_first[s.block] + v], c});
  }
  void push_pair(Scratch& s, const Shape& g, int l, int p, int q, double c) const {
    each_column(g, s.block, l, p, q,
                [&](int bank, int32_t column, int64_t row) { s.move.push_back({bank, column, row, c}); });
  }
  double node_loss(int64_t block, int v, int label) const {
    const NodeType& type = data_.node_types[data_.shape_of(block).type[v]];
    return type.cost.of(truth_of(block, v), label) * node_weight(block, v);
  }

  // s_i(y) up to a constant of the block (and, after a partial opening, of the compared outputs).
  double score(const Scratch& s, const Label* y) const {
    const Shape& g = data_.shape_of(s.block);
    const auto of_link = [&](int l) {
      return s.tables[l][static_cast<int64_t>(y[g.a[l]]) * g.count[g.b[l]] + y[g.b[l]]];
    };
    double sum = 0;
    if (s.partial) {
      for (const int v : s.nodes) sum += s.unary[g.place[v] + y[v]];
      for (const int l : s.links) sum += of_link(l);
      return sum;
    }
    for (int v = 0; v < g.nodes(); ++v) sum += s.unary[g.place[v] + y[v]];
    for (int l = 0; l < g.links(); ++l) sum += of_link(l);
    return sum;
  }

  PairwiseView view(const Scratch& s) const {
    return {&data_.shape_of(s.block), s.unary.data(), s.tables.data()};
  }

  double best(Scratch& s, const double*, Label* y) const {
    const int n = output_size(s.block);
    s.labels.resize(n);
    const PairwiseView p = view(s);
    double value = solve(p, s);
    if (s.augmented) {  // a search never does worse than what is known
      const int32_t* known = data_.truth.data() + data_.node_first[s.block];
      const double own = p.value(known);
      if (own > value) value = own, std::copy(known, known + n, s.labels.begin());
    }
    s.ceiling = std::max(s.ceiling, value);
    for (int v = 0; v < n; ++v) y[v] = static_cast<Label>(s.labels[v]);
    return value;
  }

  // move = Psi(x, plus) - Psi(x, minus)
  void build_pair(Scratch& s, int64_t block, const Label* plus, const Label* minus) const {
    const Shape& g = data_.shape_of(block);
    s.block = block;
    s.move.clear();
    s.changed.clear();
    s.changes.assign(g.nodes(), 0);
    for (int v = 0; v < g.nodes(); ++v)
      if (plus[v] != minus[v]) s.changes[v] = 1, s.changed.push_back(v);
    for (const int v : s.changed) {
      push_node(s, g, v, plus[v], 1);
      push_node(s, g, v, minus[v], -1);
    }
    for (const int v : s.changed)
      each_link_once(g, s.changes, v, [&](int l) {
        push_link(s, g, l, plus, 1);
        push_link(s, g, l, minus, -1);
      });
  }

  // move = sum_j c_j Psi(x, y_j), where the c_j sum to zero: where all agree, nothing is left.
  void build_mixture(Scratch& s, int64_t block, const Label* outputs, const double* c, int n) const {
    const Shape& g = data_.shape_of(block);
    s.block = block;
    s.move.clear();
    s.changed.clear();
    s.changes.assign(g.nodes(), 0);
    const auto output = [&](int j) { return outputs + static_cast<size_t>(j) * g.nodes(); };
    for (int v = 0; v < g.nodes(); ++v) {
      for (int j = 1; j < n && !s.changes[v]; ++j) s.changes[v] = output(j)[v] != outputs[v];
      if (s.changes[v]) s.changed.push_back(v);
    }
    for (const int v : s.changed)
      for (int j = 0; j < n; ++j)
        if (c[j] != 0) push_node(s, g, v, output(j)[v], c[j]);
    for (const int v : s.changed)
      each_link_once(g, s.changes, v, [&](int l) {
        for (int j = 0; j < n; ++j)
          if (c[j] != 0) push_link(s, g, l, output(j), c[j]);
      });
  }

  double squared_norm(Scratch& s) const {
    if (s.move.size() > many) return squared_norm_by_table(s);
    double sum = 0;
    for (size_t p = 0; p < s.move.size(); ++p) {
      const Item& x = s.move[p];
      const Features* features = data_.banks[x.bank].features;
      double inner = 0;
      for (size_t q = 0; q < p; ++q) {
        const Item& z = s.move[q];
        if (x.bank != z.bank || x.column != z.column) continue;
        inner += z.c * (!features        ? 1
                        : x.row == z.row ? features->norms[x.row]
                                         : features->dot(z.row, x.row));
      }
      sum += x.c * (x.c * (features ? features->norms[x.row] : 1) + 2 * inner);
    }
    return sum;
  }

  // W += c * move
  template <class Target>
  void apply(const Scratch& s, Target W, double c) const {
    for (size_t p = 0; p < s.move.size(); ++p) {
      const Item& x = s.move[p];
      const Bank& bank = data_.banks[x.bank];
      Target own = W + bank.inside;
      if (!bank.features) {
        own[x.column] += c * x.c;
        continue;
      }
      const Item* z = p + 1 < s.move.size() ? &s.move[p + 1] : nullptr;
      if (z && z->bank == x.bank && z->row == x.row && z->c == -x.c) {
        bank.features->add_pair(x.row, own, bank.stride, x.column, z->column, c * x.c);
        ++p;
      } else {
        bank.features->add_column(x.row, own, bank.stride, x.column, c * x.c);
      }
    }
  }

 private:
  const Data& data_;
  static constexpr size_t many = 24;  // items of a move, from which a table is cheaper than all pairs

  int truth_of(int64_t block, int v) const { return data_.truth[data_.node_first[block] + v]; }
  double node_weight(int64_t block, int v) const { return data_.weight[data_.node_first[block] + v]; }

  // One visit in sixteen, by chance, takes its time: what certificates find must be found in training, too.
  static bool thorough(Scratch& s) {
    s.chance = s.chance * 6364136223846793005u + 1442695040888963407u;
    return s.chance >> 60 == 0;
  }
  double solve(const PairwiseView& p, Scratch& s) const {
    try {
      return s.argmax.solve(p, data_.argmax, s.prove || thorough(s), s.labels.data(), s.ceiling);
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument("example " + std::to_string(s.block) + ": " + error.what());
    }
  }

  const Shape& begin(int64_t block, Scratch& s, bool augmented, bool partial) const {
    const Shape& g = data_.shape_of(block);
    s.block = block, s.augmented = augmented, s.partial = partial;
    ++s.opened;
    s.unary.resize(g.place.back());
    s.own.resize(g.own_size);
    s.tables.resize(g.links());
    return g;
  }

  // Local scores of nodes; neighbours in the order often share a row, whose scores are then at hand.
  struct NodeScores {
    const FactorGraph& graph;
    Scratch& s;
    const double* W;
    int bank = -1;
    int64_t row = -1;

    void write(const Shape& g, int v, double loss_scale) {
      const NodeType& type = graph.data_.node_types[g.type[v]];
      const int64_t own = graph.data_.node_row[graph.data_.node_first[s.block] + v];
      if (type.bank != bank || own != row) {
        bank = type.bank, row = own;
        graph.bank_scores(bank, row, W, s);
      }
      double* out = s.unary.data() + g.place[v];
      const double scale = loss_scale == 0 ? 0 : loss_scale * graph.node_weight(s.block, v);
      for (int k = 0; k < type.labels(); ++k) {
        const int32_t column = type.column[k];
        out[k] = column < 0 ? 0 : s.row_scores[column];
      }
      if (scale != 0) type.cost.add(graph.truth_of(s.block, v), scale, out, type.labels());
    }
  };
  void bank_scores(int number, int64_t row, const double* W, Scratch& s) const {
    const Bank& bank = data_.banks[number];
    const double* own = W + bank.inside;
    if (!bank.features) return void(std::copy(own, own + bank.stride, s.row_scores.begin()));
    std::fill(s.row_scores.begin(), s.row_scores.begin() + bank.stride, 0);
    bank.features->add_scores(row, own, bank.stride, s.row_scores.data());
  }

  void open_link(const Shape& g, int l, const double* W, Scratch& s) const {
    const Shape::Edge& only = g.edges[g.link_first[l]];
    if (g.own[l] < 0) {
      s.tables[l] = shared_table(only.type, W, s);
      return;
    }
    double* table = s.own.data() + g.own[l];
    const int rows = g.count[g.a[l]], columns = g.count[g.b[l]];
    std::fill(table, table + static_cast<int64_t>(rows) * columns, 0);
    for (int32_t e = g.link_first[l]; e < g.link_first[l + 1]; ++e) {
      const Shape::Edge& edge = g.edges[e];
      const EdgeType& type = data_.edge_types[edge.type];
      const double* values = W + data_.banks[type.bank].inside;
      if (data_.banks[type.bank].features) {
        bank_scores(type.bank, edge_row(s.block, edge.number), W, s);
        values = s.row_scores.data();
      }
      for (int p = 0; p < rows; ++p)
        for (int q = 0; q < columns; ++q) {
          const int32_t column = type.column[edge.reversed ? q * rows + p : p * columns + q];
          if (column >= 0) table[p * columns + q] += values[column];
        }
    }
    s.tables[l] = table;
  }
  const double* shared_table(int number, const double* W, Scratch& s) const {
    const EdgeType& type = data_.edge_types[number];
    double* table = s.shared.data() + s.shared_place[number];
    if (s.stamp[number] != s.opened) {
      const double* values = W + data_.banks[type.bank].inside;
      for (size_t k = 0; k < type.column.size(); ++k)
        table[k] = type.column[k] < 0 ? 0 : values[type.column[k]];
      s.stamp[number] = s.opened;
    }
    return table;
  }
  int64_t edge_row(int64_t block, int32_t number) const {
    return data_.edge_row[data_.edge_first[block] + number];
  }

  // Links of a node that is marked; one between two marked nodes is met once.
  template <class F>
  static void each_link_once(const Shape& g, const std::vector<char>& marked, int v, F&& f) {
    for (int32_t e = g.first[v]; e < g.first[v + 1]; ++e) {
      const int l = g.around[e];
      if (g.a[l] == v || !marked[g.a[l]]) f(l);
    }
  }
  void push_link(Scratch& s, const Shape& g, int l, const Label* y, double c) const {
    push_pair(s, g, l, y[g.a[l]], y[g.b[l]], c);
  }
  // Calls f(bank, column, row) for the edges of a link whose ends have the labels p and q.
  template <class F>
  void each_column(const Shape& g, int64_t block, int l, int p, int q, F&& f) const {
    for (int32_t e = g.link_first[l]; e < g.link_first[l + 1]; ++e) {
      const Shape::Edge& edge = g.edges[e];
      const EdgeType& type = data_.edge_types[edge.type];
      const int first = edge.reversed ? q : p, second = edge.reversed ? p : q;
      const int width = g.count[edge.reversed ? g.a[l] : g.b[l]];
      const int32_t column = type.column[static_cast<size_t>(first) * width + second];
      if (column < 0) continue;
      f(type.bank, column, data_.banks[type.bank].features ? edge_row(block, edge.number) : 0);
    }
  }
  double column_score(int number, int64_t row, int32_t column, const double* W) const {
    if (column < 0) return 0;
    const Bank& bank = data_.banks[number];
    const double* own = W + bank.inside;
    return bank.features ? bank.features->score_of(row, own, bank.stride, column) : own[column];
  }

  double squared_norm_by_table(Scratch& s) const {
    if (s.dense.empty()) s.dense.assign(weights(), 0);
    apply(s, s.dense.data(), 1.0);
    double sum = 0;
    for (const Item& x : s.move) {  // each entry counts once
      const Bank& bank = data_.banks[x.bank];
      double* column = s.dense.data() + bank.inside + x.column;
      if (bank.features)
        bank.features->take_squares(x.row, column, bank.stride, sum);
      else
        sum += *column * *column, *column = 0;
    }
    return sum;
  }

  template <class F>
  void each_weight(F&& f) const {
    for (const Bank& bank : data_.banks)
      for (int64_t j = 0; j < bank.width(); ++j)
        for (int64_t k = 0; k < bank.columns; ++k)
          f(bank.inside + j * bank.stride + k, bank.outside + k * bank.width() + j);
  }
};

}  // namespace mm
