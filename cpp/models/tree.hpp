// Tree: a place on a grid for each part of a tree of parts, and a type for each part that has several.
//
//     <w, Psi(x, y)> = sum_p <w_{p, t_p}, x[y_p]> + sum_e <v_{e, t_child}, (r, r^2, c, c^2)> + b_e[t_parent, t_child]
//     (r, c) = ((row, column) of the child - (row, column) of its parent - anchor_e) / spread_e
//     Delta(y, y')   = sum_{p known} |y_p - y'_p| / P, which ignores types
//
// x is a map of features, one vector for each place. The argmax passes messages from the leaves to the root.
// A message is a maximum over all places of a part, and takes two distance transforms (rows, then columns)
// for each type of the child. An output is a number for each part, type * places + row * columns + column.
//
// A state is a part with one of its types. In W, the weights of the states lie side by side (feature-major),
// so that one pass over x scores all states. The flat weights are states (S, d), springs (edges by types of
// the child, 4), then b_e, row by row, for the edges with several types.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gather.hpp"
#include "models/distance.hpp"
#include "simd.hpp"

namespace mm {

struct PlaceMap {
  const void* values = nullptr;  // rows x columns x features
  bool single = false;           // float, not double
  int32_t rows = 0, columns = 0;
  int32_t places() const { return rows * columns; }
};

struct Spring {
  int32_t parent, child;
  double anchor[2], spread[2];  // of rows, of columns
  int32_t first = 0;            // index of its first spring; it has one for each type of the child
  int32_t pairs = -1;           // offset of b_e; -1: both ends have a single type
  int32_t sent = 0;             // index of its first message; it has one for each type of the parent
};

struct TreeData {
  std::vector<PlaceMap> maps;
  int32_t parts = 0, width = 0;
  std::vector<int32_t> types;  // of each part
  std::vector<int32_t> first;  // the first state of each part, and the number of states
  std::vector<Spring> edges;   // except for the root, a part is a child before it is a parent
  std::vector<int32_t> truth;  // outputs of all examples; empty if not given
  std::vector<char> known;     // whether the place of a part counts in the loss; empty: all do
  bool strict = false;         // whether the loss counts the misplaced parts
  int32_t springs = 0, pairs = 0, messages = 0, most_types = 1;
  int64_t blocks() const { return static_cast<int64_t>(maps.size()); }
  int32_t states() const { return first.back(); }
  int64_t dimension() const { return static_cast<int64_t>(states()) * width + bonds(); }
  int64_t bonds() const { return 4 * static_cast<int64_t>(springs) + pairs; }

  // Numbers states and weights, after parts, types and edges are set.
  void number() {
    first.assign(1, 0);
    for (int32_t count : types) {
      first.push_back(first.back() + count);
      most_types = std::max(most_types, count);
    }
    for (Spring& edge : edges) {
      const int32_t above = types[edge.parent], below = types[edge.child];
      edge.first = springs, edge.sent = messages;
      springs += below, messages += above;
      if (above * below == 1) continue;
      edge.pairs = pairs;
      pairs += above * below;
    }
  }
};

class Tree {
 public:
  using Real = double;
  using Label = int32_t;
  using Data = TreeData;

  struct Scratch {
    std::vector<double> table;               // (state, place): score, plus loss if augmented; only if `full`
    std::vector<double> belief;              // `table` plus the messages from the children
    std::vector<double> lines, message;      // of an edge: (type of the child, place)
    std::vector<double> sent;                // maximum over types of the child: (type of the parent, place)
    std::vector<int32_t> row_of, column_of;  // (spring, place): the best places of children
    std::vector<int32_t> type_of;            // (message, place): the best types of children
    std::vector<double> at_place;            // scores of all states at a place
    std::vector<double> moved, bonds;        // the move: (state, feature); springs and pairs
    DistanceTransform transform;
    const double* weights = nullptr;
    int64_t block = 0;
    bool full = false, augmented = false;
    double loss_scale = 1;
  };

  explicit Tree(const Data& data) : data_(data), stride_(padded<double>(data.states())) {}

  int64_t blocks() const { return data_.blocks(); }
  int64_t dimension() const { return data_.dimension(); }
  size_t weights() const { return spring_place() + data_.bonds(); }
  int output_size(int64_t) const { return data_.parts; }
  Scratch scratch() const { return {}; }
  template <class To>
  void pack(const double* flat, To* W) const {
    for (int s = 0; s < data_.states(); ++s)
      for (int j = 0; j < data_.width; ++j) W[place_of(s, j)] = *flat++;
    std::copy(flat, flat + data_.bonds(), W + spring_place());
  }
  template <class From>
  void unpack(const From* W, double* flat) const {
    for (int s = 0; s < data_.states(); ++s)
      for (int j = 0; j < data_.width; ++j) *flat++ = W[place_of(s, j)];
    std::copy(W + spring_place(), W + weights(), flat);
  }

  void truth(int64_t block, Label* y) const {
    const Label* known = data_.truth.data() + block * data_.parts;
    std::copy(known, known + data_.parts, y);
  }
  bool same(int64_t, const Label* a, const Label* b) const { return std::equal(a, a + data_.parts, b); }
  bool valid(int64_t block, const Label* y) const {
    const int32_t places = data_.maps[block].places();
    for (int p = 0; p < data_.parts; ++p)
      if (y[p] < 0 || y[p] / places >= data_.types[p]) return false;
    return true;
  }
  double loss(int64_t block, const Label* y) const {
    double sum = 0;
    for (int p = 0; p < data_.parts; ++p) sum += deviation(block, p, y[p] % data_.maps[block].places());
    return sum * unit();
  }

  void open(int64_t block, const Real* W, Scratch& s, bool augmented, Real loss_scale) const {
    remember(block, W, s, augmented, loss_scale);
    s.full = true;
    const PlaceMap& map = data_.maps[block];
    const size_t places = static_cast<size_t>(map.places());
    s.table.resize(places * data_.states());
    s.at_place.resize(stride_);
    map.single ? score_places<float>(map, s) : score_places<double>(map, s);
    if (!augmented) return;
    const double scale = loss_scale * unit();
    for (int p = 0; p < data_.parts; ++p)
      for (size_t l = 0; l < places; ++l) {
        const double added = scale * deviation(block, p, static_cast<Label>(l));
        for (int state = data_.first[p]; state < data_.first[p + 1]; ++state)
          s.table[state * places + l] += added;
      }
  }
  // For few outputs: their places are scored on demand.
  void open_where_different(int64_t block, const Real* W, Scratch& s, const Label*, int) const {
    remember(block, W, s, true, 1);
    s.full = false;
  }
  double score(const Scratch& s, const Label* y) const {
    double sum = 0;
    if (s.full) {
      const size_t places = static_cast<size_t>(data_.maps[s.block].places());
      for (int p = 0; p < data_.parts; ++p) sum += s.table[data_.first[p] * places + y[p]];
    } else {
      for (int p = 0; p < data_.parts; ++p)
        each_feature(s.block, y[p],
                     [&](int j, double x) { sum += x * s.weights[place_of(state(s.block, p, y[p]), j)]; });
      if (s.augmented) sum += s.loss_scale * loss(s.block, y);
    }
    const double* v = s.weights + spring_place();
    each_bond(s.block, y, [&](size_t k, double z) { sum += v[k] * z; });
    return sum;
  }

  double best(Scratch& s, const Real*, Label* y) const {
    const PlaceMap& map = data_.maps[s.block];
    const size_t places = static_cast<size_t>(map.places());
    s.belief = s.table;
    s.lines.resize(places);
    s.message.resize(places * data_.most_types), s.sent.resize(places * data_.most_types);
    s.row_of.resize(places * data_.springs), s.column_of.resize(s.row_of.size());
    s.type_of.resize(places * data_.messages);
    for (int e = static_cast<int>(data_.edges.size()) - 1; e >= 0; --e) {
      send(map, e, s);
      const Spring& edge = data_.edges[e];
      double* parent = s.belief.data() + data_.first[edge.parent] * places;
      for (size_t l = 0; l < places * data_.types[edge.parent]; ++l) parent[l] += s.sent[l];
    }
    const int root = data_.edges.empty() ? 0 : data_.edges[0].parent;
    const double* top = s.belief.data() + data_.first[root] * places;
    y[root] = static_cast<Label>(std::max_element(top, top + places * data_.types[root]) - top);
    for (const Spring& edge : data_.edges) {
      const size_t type = y[edge.parent] / places, place = y[edge.parent] % places;
      const int32_t below = s.type_of[(edge.sent + type) * places + place];
      const size_t at = static_cast<size_t>(edge.first + below) * places;
      const int row = s.row_of[at + place], column = static_cast<int>(place % map.columns);
      y[edge.child] = static_cast<Label>(below * places) + row * map.columns +
                      s.column_of[at + static_cast<size_t>(row) * map.columns + column];
    }
    return score(s, y);
  }
  int node_labels(int64_t block, int p) const { return data_.maps[block].places() * data_.types[p]; }
  // Only at temperature 0: beliefs(child) = belief(child) + max_parent [beliefs(parent) - message + bonds].
  void beliefs(Scratch& s, const Real* W, double, double* out) const {
    const PlaceMap& map = data_.maps[s.block];
    const size_t places = static_cast<size_t>(map.places());
    std::vector<Label> y(data_.parts);
    best(s, W, y.data());
    std::copy(s.belief.begin(), s.belief.end(), out);
    std::vector<double> others(places);
    for (size_t e = 0; e < data_.edges.size(); ++e) {
      const Spring& edge = data_.edges[e];
      const double* parent = out + data_.first[edge.parent] * places;
      send(map, static_cast<int>(e), s);
      for (int below = 0; below < data_.types[edge.child]; ++below) {
        others.assign(places, -std::numeric_limits<double>::infinity());
        for (int above = 0; above < data_.types[edge.parent]; ++above) {
          const double together = pair(s, edge, above, below);
          for (size_t l = 0, at = above * places; l < places; ++l, ++at)
            others[l] = std::max(others[l], parent[at] - s.sent[at] + together);
        }
        transform(map, static_cast<int>(e), below, -1, others.data(), s);
        double* child = out + (data_.first[edge.child] + below) * places;
        for (size_t l = 0; l < places; ++l) child[l] += s.message[below * places + l];
      }
    }
  }
  // The argmax of slack rescaling is a search over the loss multiplier.
  bool slack_argmax() const { return false; }

  // move = sum_j c_j Psi(x, y_j)
  void build_pair(Scratch& s, int64_t block, const Label* plus, const Label* minus) const {
    clear(s, block);
    for (int p = 0; p < data_.parts; ++p) {
      if (plus[p] == minus[p]) continue;
      gather_part(s, p, plus[p], 1);
      gather_part(s, p, minus[p], -1);
    }
    gather_bonds(s, plus, 1);
    gather_bonds(s, minus, -1);
  }
  void build_mixture(Scratch& s, int64_t block, const Label* outputs, const double* c, int n) const {
    clear(s, block);
    for (int k = 0; k < n; ++k, outputs += data_.parts) {
      if (c[k] == 0) continue;
      for (int p = 0; p < data_.parts; ++p) gather_part(s, p, outputs[p], c[k]);
      gather_bonds(s, outputs, c[k]);
    }
  }
  double squared_norm(const Scratch& s) const {
    double sum = 0;
    for (double v : s.moved) sum += v * v;
    for (double v : s.bonds) sum += v * v;
    return sum;
  }
  template <class Target>
  void apply(const Scratch& s, Target W, double c) const {
    const double* move = s.moved.data();
    for (int state = 0; state < data_.states(); ++state)
      for (int j = 0; j < data_.width; ++j) W[place_of(state, j)] += c * *move++;
    for (size_t k = 0; k < s.bonds.size(); ++k) W[spring_place() + k] += c * s.bonds[k];
  }

 private:
  const Data& data_;
  size_t stride_;  // length of a feature's row of weights

  size_t place_of(int state, int feature) const { return static_cast<size_t>(feature) * stride_ + state; }
  int state(int64_t block, int part, Label y) const {
    return data_.first[part] + y / data_.maps[block].places();
  }
  size_t spring_place() const { return static_cast<size_t>(data_.width) * stride_; }

  static void remember(int64_t block, const Real* W, Scratch& s, bool augmented, Real loss_scale) {
    s.block = block, s.weights = W, s.augmented = augmented, s.loss_scale = loss_scale;
  }

  template <class Value>
  void score_places(const PlaceMap& map, Scratch& s) const {
    const Value* x = static_cast<const Value*>(map.values);
    const size_t places = static_cast<size_t>(map.places());
    double* sums = s.at_place.data();
    for (size_t l = 0; l < places; ++l, x += data_.width) {
      std::fill(s.at_place.begin(), s.at_place.end(), 0.0);
      for (int j = 0; j < data_.width; ++j) {
        const double value = x[j];
        if (value == 0) continue;
        const double* w = s.weights + place_of(0, j);
        for (size_t p = 0; p < stride_; ++p) sums[p] += value * w[p];
      }
      for (int state = 0; state < data_.states(); ++state) s.table[state * places + l] = sums[state];
    }
  }

  template <class F>
  void each_feature(int64_t block, Label y, F&& f) const {
    const PlaceMap& map = data_.maps[block];
    const int64_t first = static_cast<int64_t>(y % map.places()) * data_.width;
    const auto walk = [&](const auto* values) {
      for (int j = 0; j < data_.width; ++j) f(j, static_cast<double>(values[first + j]));
    };
    map.single ? walk(static_cast<const float*>(map.values)) : walk(static_cast<const double*>(map.values));
  }

  double unit() const { return data_.strict ? 1.0 : 1.0 / data_.parts; }
  double deviation(int64_t block, int part, Label b) const {
    const PlaceMap& map = data_.maps[block];
    const int64_t at = block * data_.parts + part;
    if (!data_.known.empty() && !data_.known[at]) return 0;
    const Label a = data_.truth[at] % map.places();
    if (data_.strict) return a != b;
    const double r = a / map.columns - b / map.columns, c = a % map.columns - b % map.columns;
    return std::sqrt(r * r + c * c);
  }
  // Calls f(k, z) for each feature of springs and pairs; z is the value of feature k.
  template <class F>
  void each_bond(int64_t block, const Label* y, F&& f) const {
    const PlaceMap& map = data_.maps[block];
    const int places = map.places(), columns = map.columns;
    for (const Spring& edge : data_.edges) {
      const Label child = y[edge.child] % places, parent = y[edge.parent] % places;
      const int below = y[edge.child] / places, above = y[edge.parent] / places;
      const double r = (child / columns - parent / columns - edge.anchor[0]) / edge.spread[0];
      const double c = (child % columns - parent % columns - edge.anchor[1]) / edge.spread[1];
      const size_t at = 4 * static_cast<size_t>(edge.first + below);
      f(at, r), f(at + 1, r * r), f(at + 2, c), f(at + 3, c * c);
      if (edge.pairs >= 0) f(pair_place(edge, above, below), 1.0);
    }
  }
  size_t pair_place(const Spring& edge, int above, int below) const {
    return 4 * static_cast<size_t>(data_.springs) + edge.pairs + above * data_.types[edge.child] + below;
  }
  double pair(const Scratch& s, const Spring& edge, int above, int below) const {
    return edge.pairs < 0 ? 0.0 : s.weights[spring_place() + pair_place(edge, above, below)];
  }

  // sent(parent) = max_child belief(child) + bonds. Stores the types and places that attain it, too.
  void send(const PlaceMap& map, int e, Scratch& s) const {
    const Spring& edge = data_.edges[e];
    const size_t places = static_cast<size_t>(map.places());
    for (int below = 0; below < data_.types[edge.child]; ++below)
      transform(map, e, below, 1, s.belief.data() + (data_.first[edge.child] + below) * places, s);
    for (int above = 0; above < data_.types[edge.parent]; ++above) {
      double* sent = s.sent.data() + above * places;
      int32_t* type = s.type_of.data() + (edge.sent + above) * places;
      for (int below = 0; below < data_.types[edge.child]; ++below) {
        const double together = pair(s, edge, above, below);
        const double* message = s.message.data() + below * places;
        for (size_t l = 0; l < places; ++l) {
          const double value = message[l] + together;
          if (below > 0 && value <= sent[l]) continue;
          sent[l] = value, type[l] = below;
        }
      }
    }
  }
  // With direction 1, r = q - u - anchor, for places q of the child and u of the parent. With direction -1, q
  // and u swap, so that r = -(q - u + anchor).
  void transform(const PlaceMap& map, int e, int below, double direction, const double* values,
                 Scratch& s) const {
    const Spring& edge = data_.edges[e];
    const size_t places = static_cast<size_t>(map.places()), spring = edge.first + below;
    const double* v = s.weights + spring_place() + 4 * spring;
    double* message = s.message.data() + below * places;
    int32_t* rows = s.row_of.data() + spring * places;
    int32_t* columns = s.column_of.data() + spring * places;
    const double r = edge.spread[0], c = edge.spread[1];
    for (int i = 0; i < map.rows; ++i) {
      const size_t at = static_cast<size_t>(i) * map.columns;
      s.transform.run(values + at, map.columns, 1, v[3] / (c * c), direction * v[2] / c,
                      direction * edge.anchor[1], s.lines.data() + at, columns + at);
    }
    for (int j = 0; j < map.columns; ++j)
      s.transform.run(s.lines.data() + j, map.rows, map.columns, v[1] / (r * r), direction * v[0] / r,
                      direction * edge.anchor[0], message + j, rows + j);
  }

  void clear(Scratch& s, int64_t block) const {
    s.block = block;
    s.moved.assign(static_cast<size_t>(data_.states()) * data_.width, 0);
    s.bonds.assign(data_.bonds(), 0);
  }
  void gather_part(Scratch& s, int part, Label y, double c) const {
    double* move = s.moved.data() + static_cast<size_t>(state(s.block, part, y)) * data_.width;
    each_feature(s.block, y, [&](int j, double x) { move[j] += c * x; });
  }
  void gather_bonds(Scratch& s, const Label* y, double c) const {
    each_bond(s.block, y, [&](size_t k, double z) { s.bonds[k] += c * z; });
  }
};

}  // namespace mm
