// Factor graphs: a label for each node of a graph, scored by nodes and by edges, with weights shared by type.
//
//     <w, Psi(x, y)> = sum_v <w_bank[column of y_v], x_v> + sum_e <w_bank[column of (y_a, y_b)], x_e>
//     Delta_i(y)     = sum_v weight_v cost_type[y_v true, y_v]
//
// A visit computes the scores of nodes and the tables of links once. Then look-ups score a labelling, and a
// move between labellings is a short list of (bank, column, row, coefficient). W has the banks one after the
// other, feature-major. The flat weights have each bank column-major.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>

#include "models/beliefs.hpp"
#include "models/graph_factors.hpp"
#include "models/graph_sums.hpp"

namespace mm {

class FactorGraph : public GraphFactors {
 public:
  using Label = uint16_t;
  using GraphFactors::GraphFactors;

  bool valid(int64_t block, const Label* y) const {
    const Shape& g = data_.shape_of(block);
    for (int v = 0; v < g.nodes(); ++v)
      if (y[v] >= g.count[v]) return false;
    return true;
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

  // Computes only scores on which the n outputs disagree, which is enough to compare them.
  void open_where_different(int64_t block, const double* W, Scratch& s, const Label* outputs, int n) const {
    const int nodes = output_size(block);
    s.differs.assign(nodes, 0);
    for (int v = 0; v < nodes; ++v)
      for (int j = 1; j < n && !s.differs[v]; ++j)
        s.differs[v] = outputs[static_cast<size_t>(j) * nodes + v] != outputs[v];
    open_marked(block, W, s);
  }

  // Returns s_i(y) up to a constant of the block; after a partial opening, up to a constant of the compared
  // outputs.
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

  double best(Scratch& s, const double*, Label* y) const {
    const double value = find_best(s);
    std::copy(s.labels.begin(), s.labels.end(), y);
    return value;
  }

  std::unique_ptr<Violators> lister() const { return std::make_unique<GraphSums>(); }
  void list_scores(Scratch& s, Violators& sums) const {
    static_cast<GraphSums&>(sums).read(view(s), data_.truth.data() + data_.node_first[s.block]);
  }
  void list_losses(int64_t block, Violators& sums) const {
    const Shape& g = data_.shape_of(block);
    sums.loss.resize(g.place.back());
    for (int v = 0; v < g.nodes(); ++v)
      for (int k = 0; k < g.count[v]; ++k) sums.loss[g.place[v] + k] = node_loss(block, v, k);
  }

  int node_labels(int64_t block, int node) const { return data_.shape_of(block).count[node]; }
  // Beliefs; only for forests.
  void beliefs(Scratch& s, const double*, double temperature, double* out) const {
    Beliefs(temperature).of_forest(view(s), out);
  }

  void build_pair(Scratch& s, int64_t block, const Label* plus, const Label* minus) const {
    const double c[2] = {1, -1};
    build(s, block, c, 2, [&](int j) { return j == 0 ? plus : minus; });
  }
  void build_mixture(Scratch& s, int64_t block, const Label* outputs, const double* c, int n) const {
    const size_t size = output_size(block);
    build(s, block, c, n, [&](int j) { return outputs + j * size; });
  }

 private:
  // move = sum_j c_j Psi(x, y_j). The c_j sum to zero, so that nodes and links on which all outputs agree
  // drop out.
  template <class Output>
  void build(Scratch& s, int64_t block, const double* c, int n, Output&& output) const {
    const Shape& g = data_.shape_of(block);
    s.block = block;
    s.move.clear();
    s.changed.clear();
    s.changes.assign(g.nodes(), 0);
    for (int v = 0; v < g.nodes(); ++v) {
      for (int j = 1; j < n && !s.changes[v]; ++j) s.changes[v] = output(j)[v] != output(0)[v];
      if (s.changes[v]) s.changed.push_back(v);
    }
    for (const int v : s.changed)
      for (int j = 0; j < n; ++j)
        if (c[j] != 0) push_node(s, g, v, output(j)[v], c[j]);
    for (const int v : s.changed)
      each_link_once(g, s.changes, v, [&](int l) {
        for (int j = 0; j < n; ++j)
          if (c[j] != 0) push_pair(s, g, l, output(j)[g.a[l]], output(j)[g.b[l]], c[j]);
      });
  }
};

}  // namespace mm
