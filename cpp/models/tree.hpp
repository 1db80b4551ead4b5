// Tree: a place on a grid for each part of a tree of parts.
//
//   <w, Psi(x, y)> = sum_p <w_p, x[y_p]> + sum_e <v_e, (r, r^2, c, c^2)>
//   (r, c) = ((row, column) of the child - those of its parent - anchor_e) / spread_e
//   Delta(y, y')   = mean_p |y_p - y'_p|
//
// x is a map of features, one vector for each place. The argmax passes messages from the leaves to the root; a
// message is a maximum over all places of a part, and takes two distance transforms (rows, then columns).
// An output is the number of a place, row * columns + column, for each part.
//
// Inside, the weights of the parts lie side by side (feature-major), so that one read of x scores all parts.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
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
};

struct TreeData {
  std::vector<PlaceMap> maps;
  int32_t parts = 0, width = 0;
  std::vector<Spring> edges;   // a part is a child before it is a parent, but for the root
  std::vector<int32_t> truth;  // places of the parts of all examples; empty where not given
  int64_t blocks() const { return static_cast<int64_t>(maps.size()); }
  int64_t dimension() const {
    return static_cast<int64_t>(parts) * width + 4 * static_cast<int64_t>(edges.size());
  }
};

class Tree {
 public:
  using Real = double;
  using Label = int32_t;
  using Data = TreeData;
  static constexpr bool given_planes = false;

  struct Scratch {
    std::vector<double> table;   // (part, place): score, and loss where augmented; for `full`
    std::vector<double> belief;  // with the messages from the children
    std::vector<double> lines, message;
    std::vector<int32_t> row_of, column_of;  // (edge, place): the best places of children
    std::vector<double> at_place;            // scores of all parts at a place
    std::vector<double> moved, springs;      // the move: (part, feature), (edge, 4)
    DistanceTransform transform;
    const double* weights = nullptr;
    int64_t block = 0;
    bool full = false, augmented = false;
    double loss_scale = 1;
  };

  explicit Tree(const Data& data) : data_(data), stride_(padded<double>(data.parts)) {}

  int64_t blocks() const { return data_.blocks(); }
  int64_t dimension() const { return data_.dimension(); }
  size_t weights() const { return spring_place() + 4 * data_.edges.size(); }
  int output_size(int64_t) const { return data_.parts; }
  Scratch scratch() const { return {}; }
  void prepare() {}

  template <class To>
  void pack(const double* flat, To* W) const {
    for (int p = 0; p < data_.parts; ++p)
      for (int j = 0; j < data_.width; ++j) W[place_of(p, j)] = *flat++;
    std::copy(flat, flat + 4 * data_.edges.size(), W + spring_place());
  }
  template <class From>
  void unpack(const From* W, double* flat) const {
    for (int p = 0; p < data_.parts; ++p)
      for (int j = 0; j < data_.width; ++j) *flat++ = W[place_of(p, j)];
    std::copy(W + spring_place(), W + weights(), flat);
  }

  void truth(int64_t block, Label* y) const {
    const Label* known = data_.truth.data() + block * data_.parts;
    std::copy(known, known + data_.parts, y);
  }
  bool same(int64_t, const Label* a, const Label* b) const { return std::equal(a, a + data_.parts, b); }
  bool valid(int64_t block, const Label* y) const {
    const int32_t places = data_.maps[block].places();
    return std::all_of(y, y + data_.parts, [&](Label place) { return place >= 0 && place < places; });
  }
  double loss(int64_t block, const Label* y) const {
    const Label* known = data_.truth.data() + block * data_.parts;
    double sum = 0;
    for (int p = 0; p < data_.parts; ++p) sum += deviation(block, known[p], y[p]);
    return sum / data_.parts;
  }

  void open(int64_t block, const Real* W, Scratch& s, bool augmented, Real loss_scale) const {
    remember(block, W, s, augmented, loss_scale);
    s.full = true;
    const PlaceMap& map = data_.maps[block];
    const size_t places = static_cast<size_t>(map.places());
    s.table.resize(places * data_.parts);
    s.at_place.resize(stride_);
    map.single ? score_places<float>(map, s) : score_places<double>(map, s);
    if (!augmented) return;
    const Label* known = data_.truth.data() + block * data_.parts;
    const double unit = loss_scale / data_.parts;
    for (int p = 0; p < data_.parts; ++p)
      for (size_t l = 0; l < places; ++l)
        s.table[p * places + l] += unit * deviation(block, known[p], static_cast<Label>(l));
  }
  // Few outputs: their places are scored when they are asked for.
  void open_where_different(int64_t block, const Real* W, Scratch& s, const Label*, int) const {
    remember(block, W, s, true, 1);
    s.full = false;
  }
  double score(const Scratch& s, const Label* y) const {
    double sum = 0;
    if (s.full) {
      const size_t places = static_cast<size_t>(data_.maps[s.block].places());
      for (int p = 0; p < data_.parts; ++p) sum += s.table[p * places + y[p]];
    } else {
      for (int p = 0; p < data_.parts; ++p)
        each_feature(s.block, y[p], [&](int j, double x) { sum += x * s.weights[place_of(p, j)]; });
      if (s.augmented) sum += s.loss_scale * loss(s.block, y);
    }
    double z[4];
    const double* v = s.weights + spring_place();
    for (const Spring& edge : data_.edges) {
      stretch(s.block, edge, y, z);
      for (int k = 0; k < 4; ++k) sum += *v++ * z[k];
    }
    return sum;
  }

  double best(Scratch& s, const Real*, Label* y) const {
    const PlaceMap& map = data_.maps[s.block];
    const size_t places = static_cast<size_t>(map.places());
    s.belief = s.table;
    s.lines.resize(places), s.message.resize(places);
    s.row_of.resize(places * data_.edges.size()), s.column_of.resize(s.row_of.size());
    for (int e = static_cast<int>(data_.edges.size()) - 1; e >= 0; --e) {
      send(map, e, s);
      double* parent = s.belief.data() + data_.edges[e].parent * places;
      for (size_t l = 0; l < places; ++l) parent[l] += s.message[l];
    }
    const int root = data_.edges.empty() ? 0 : data_.edges[0].parent;
    const double* top = s.belief.data() + root * places;
    y[root] = static_cast<Label>(std::max_element(top, top + places) - top);
    for (size_t e = 0; e < data_.edges.size(); ++e) {
      const size_t at = e * places + y[data_.edges[e].parent];
      const int column = y[data_.edges[e].parent] % map.columns, row = s.row_of[at];
      y[data_.edges[e].child] =
          row * map.columns + s.column_of[e * places + static_cast<size_t>(row) * map.columns + column];
    }
    return score(s, y);
  }
  int node_labels(int64_t block, int) const { return data_.maps[block].places(); }
  // At temperature 0 alone: beliefs(child) = belief(child) + max_parent [beliefs(parent) - message + springs].
  void beliefs(Scratch& s, const Real* W, double, double* out) const {
    const PlaceMap& map = data_.maps[s.block];
    const size_t places = static_cast<size_t>(map.places());
    std::vector<Label> y(data_.parts);
    best(s, W, y.data());
    std::copy(s.belief.begin(), s.belief.end(), out);
    std::vector<double> others(places);
    for (size_t e = 0; e < data_.edges.size(); ++e) {
      const Spring& edge = data_.edges[e];
      const double* parent = out + edge.parent * places;
      send(map, static_cast<int>(e), s);
      for (size_t l = 0; l < places; ++l) others[l] = parent[l] - s.message[l];
      send_down(map, static_cast<int>(e), others.data(), s);
      for (size_t l = 0; l < places; ++l) out[edge.child * places + l] += s.message[l];
    }
  }
  // The worst output under slack rescaling is searched over the loss multiplier.
  bool slack_argmax() const { return false; }

  // move = sum_j c_j Psi(x, y_j)
  void build_pair(Scratch& s, int64_t block, const Label* plus, const Label* minus) const {
    clear(s, block);
    for (int p = 0; p < data_.parts; ++p) {
      if (plus[p] == minus[p]) continue;
      gather_part(s, p, plus[p], 1);
      gather_part(s, p, minus[p], -1);
    }
    gather_springs(s, plus, 1);
    gather_springs(s, minus, -1);
  }
  void build_mixture(Scratch& s, int64_t block, const Label* outputs, const double* c, int n) const {
    clear(s, block);
    for (int k = 0; k < n; ++k, outputs += data_.parts) {
      if (c[k] == 0) continue;
      for (int p = 0; p < data_.parts; ++p) gather_part(s, p, outputs[p], c[k]);
      gather_springs(s, outputs, c[k]);
    }
  }
  double squared_norm(const Scratch& s) const {
    double sum = 0;
    for (double v : s.moved) sum += v * v;
    for (double v : s.springs) sum += v * v;
    return sum;
  }
  template <class Target>
  void apply(const Scratch& s, Target W, double c) const {
    const double* move = s.moved.data();
    for (int p = 0; p < data_.parts; ++p)
      for (int j = 0; j < data_.width; ++j) W[place_of(p, j)] += c * *move++;
    for (size_t k = 0; k < s.springs.size(); ++k) W[spring_place() + k] += c * s.springs[k];
  }

 private:
  const Data& data_;
  size_t stride_;  // of a feature's weights

  size_t place_of(int part, int feature) const { return static_cast<size_t>(feature) * stride_ + part; }
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
      for (int p = 0; p < data_.parts; ++p) s.table[p * places + l] = sums[p];
    }
  }

  template <class F>
  void each_feature(int64_t block, Label place, F&& f) const {
    const PlaceMap& map = data_.maps[block];
    const int64_t first = static_cast<int64_t>(place) * data_.width;
    if (map.single) {
      const float* x = static_cast<const float*>(map.values) + first;
      for (int j = 0; j < data_.width; ++j) f(j, static_cast<double>(x[j]));
    } else {
      const double* x = static_cast<const double*>(map.values) + first;
      for (int j = 0; j < data_.width; ++j) f(j, x[j]);
    }
  }

  double deviation(int64_t block, Label a, Label b) const {
    const int columns = data_.maps[block].columns;
    const double r = a / columns - b / columns, c = a % columns - b % columns;
    return std::sqrt(r * r + c * c);
  }
  void stretch(int64_t block, const Spring& edge, const Label* y, double* z) const {
    const int columns = data_.maps[block].columns;
    const Label child = y[edge.child], parent = y[edge.parent];
    const double r = (child / columns - parent / columns - edge.anchor[0]) / edge.spread[0];
    const double c = (child % columns - parent % columns - edge.anchor[1]) / edge.spread[1];
    z[0] = r, z[1] = r * r, z[2] = c, z[3] = c * c;
  }

  // message(parent) = max_child belief(child) + springs, and the places that attain it
  void send(const PlaceMap& map, int e, Scratch& s) const {
    const size_t places = static_cast<size_t>(map.places());
    transform(map, e, 1, s.belief.data() + data_.edges[e].child * places, s);
  }
  // message(child) = max_parent values(parent) + springs: the same, seen from the other end
  void send_down(const PlaceMap& map, int e, const double* values, Scratch& s) const {
    transform(map, e, -1, values, s);
  }
  // direction 1: r = q - u - anchor, for places q of the child and u of the parent; -1: q and u change sides, so that
  // r = -(q - u + anchor).
  void transform(const PlaceMap& map, int e, double direction, const double* values, Scratch& s) const {
    const Spring& edge = data_.edges[e];
    const double* v = s.weights + spring_place() + 4 * e;
    const size_t places = static_cast<size_t>(map.places());
    int32_t* rows = s.row_of.data() + e * places;
    int32_t* columns = s.column_of.data() + e * places;
    const double r = edge.spread[0], c = edge.spread[1];
    for (int i = 0; i < map.rows; ++i) {
      const size_t at = static_cast<size_t>(i) * map.columns;
      s.transform.run(values + at, map.columns, 1, v[3] / (c * c), direction * v[2] / c,
                      direction * edge.anchor[1], s.lines.data() + at, columns + at);
    }
    for (int j = 0; j < map.columns; ++j)
      s.transform.run(s.lines.data() + j, map.rows, map.columns, v[1] / (r * r), direction * v[0] / r,
                      direction * edge.anchor[0], s.message.data() + j, rows + j);
  }

  void clear(Scratch& s, int64_t block) const {
    s.block = block;
    s.moved.assign(static_cast<size_t>(data_.parts) * data_.width, 0);
    s.springs.assign(4 * data_.edges.size(), 0);
  }
  void gather_part(Scratch& s, int part, Label place, double c) const {
    double* move = s.moved.data() + static_cast<size_t>(part) * data_.width;
    each_feature(s.block, place, [&](int j, double x) { move[j] += c * x; });
  }
  void gather_springs(Scratch& s, const Label* y, double c) const {
    double z[4];
    double* spring = s.springs.data();
    for (const Spring& edge : data_.edges) {
      stretch(s.block, edge, y, z);
      for (int k = 0; k < 4; ++k) *spring++ += c * z[k];
    }
  }
};

}  // namespace mm
