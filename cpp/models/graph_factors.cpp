#include "models/graph_factors.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

namespace mm {

// Local scores of nodes. Consecutive nodes often share a row of features; then its scores are reused.
struct GraphFactors::NodeScores {
  const GraphFactors& graph;
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
bool GraphFactors::exact() const {
  if (data_.argmax.method != Inference::automatic) return data_.argmax.method == Inference::tree;
  return std::all_of(data_.shapes.begin(), data_.shapes.end(), [](const Shape& g) { return g.forest; });
}

GraphFactors::Scratch GraphFactors::scratch() const {
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

template <class F>
void GraphFactors::each_weight(F&& f) const {
  for (const Bank& bank : data_.banks)
    for (int64_t j = 0; j < bank.width(); ++j)
      for (int64_t k = 0; k < bank.columns; ++k)
        f(bank.inside + j * bank.stride + k, bank.outside + k * bank.width() + j);
}
void GraphFactors::pack(const double* flat, double* W) const {
  each_weight([&](int64_t inside, int64_t outside) { W[inside] = flat[outside]; });
}
void GraphFactors::unpack(const double* W, double* flat) const {
  each_weight([&](int64_t inside, int64_t outside) { flat[outside] = W[inside]; });
}

const Shape& GraphFactors::begin(int64_t block, Scratch& s, bool augmented, bool partial) const {
  const Shape& g = data_.shape_of(block);
  s.block = block, s.augmented = augmented, s.partial = partial;
  ++s.opened;
  s.unary.resize(g.place.back());
  s.own.resize(g.own_size);
  s.tables.resize(g.links());
  return g;
}

void GraphFactors::open(int64_t block, const double* W, Scratch& s, bool augmented, double loss_scale) const {
  const Shape& g = begin(block, s, augmented, false);
  NodeScores scores{*this, s, W};
  for (int v = 0; v < g.nodes(); ++v) scores.write(g, v, augmented ? loss_scale : 0);
  for (int l = 0; l < g.links(); ++l) open_link(g, l, W, s);
}

void GraphFactors::open_marked(int64_t block, const double* W, Scratch& s) const {
  const Shape& g = begin(block, s, true, true);
  NodeScores scores{*this, s, W};
  s.nodes.clear();
  s.links.clear();
  for (int v = 0; v < g.nodes(); ++v) {
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

// The index of the labels p and q of a link's ends in the table of an edge, which is row-major by the edge's
// own first end.
static size_t pair_of(const Shape& g, int l, const Shape::Edge& edge, int p, int q) {
  return edge.reversed ? static_cast<size_t>(q) * g.count[g.a[l]] + p
                       : static_cast<size_t>(p) * g.count[g.b[l]] + q;
}
// Calls f(bank, column, row) for the edges of a link whose ends have the labels p and q.
template <class F>
void GraphFactors::each_column(const Shape& g, int64_t block, int l, int p, int q, F&& f) const {
  for (int32_t e = g.link_first[l]; e < g.link_first[l + 1]; ++e) {
    const Shape::Edge& edge = g.edges[e];
    const EdgeType& type = data_.edge_types[edge.type];
    const int32_t column = type.column[pair_of(g, l, edge, p, q)];
    if (column < 0) continue;
    f(type.bank, column, data_.banks[type.bank].features ? edge_row(block, edge.number) : 0);
  }
}

double GraphFactors::column_score(int number, int64_t row, int32_t column, const double* W) const {
  if (column < 0) return 0;
  const Bank& bank = data_.banks[number];
  const double* own = W + bank.inside;
  return bank.features ? bank.features->score_of(row, own, bank.stride, column) : own[column];
}

void GraphFactors::open_nodes(int64_t block, const double* W, Scratch& s) const {
  const Shape& g = begin(block, s, true, false);
  NodeScores scores{*this, s, W};
  for (int v = 0; v < g.nodes(); ++v) scores.write(g, v, 1);
  s.move.clear();
}
void GraphFactors::node_scores(int64_t block, int v, const double* W, double* out) const {
  const Shape& g = data_.shape_of(block);
  const NodeType& type = data_.node_types[g.type[v]];
  const int64_t row = data_.node_row[data_.node_first[block] + v];
  for (int k = 0; k < type.labels(); ++k) out[k] = column_score(type.bank, row, type.column[k], W);
  type.cost.add(truth_of(block, v), node_weight(block, v), out, type.labels());
}
void GraphFactors::link_scores(int64_t block, int l, const double* W, double* out) const {
  const Shape& g = data_.shape_of(block);
  const int rows = g.count[g.a[l]], columns = g.count[g.b[l]];
  for (int p = 0; p < rows; ++p)
    for (int q = 0; q < columns; ++q) out[p * columns + q] = pair_score(block, l, p, q, W);
}
double GraphFactors::pair_score(int64_t block, int l, int p, int q, const double* W) const {
  if (never(data_.shape_of(block), l, p, q)) return -std::numeric_limits<double>::infinity();
  double sum = 0;
  each_column(data_.shape_of(block), block, l, p, q,
              [&](int bank, int32_t column, int64_t row) { sum += column_score(bank, row, column, W); });
  return sum;
}
bool GraphFactors::never(const Shape& g, int l, int p, int q) const {
  for (int32_t e = g.link_first[l]; e < g.link_first[l + 1]; ++e) {
    const EdgeType& type = data_.edge_types[g.edges[e].type];
    if (type.strict && type.column[pair_of(g, l, g.edges[e], p, q)] == EdgeType::never) return true;
  }
  return false;
}
void GraphFactors::push_node(Scratch& s, const Shape& g, int v, int label, double c) const {
  const NodeType& type = data_.node_types[g.type[v]];
  const int32_t column = type.column[label];
  if (column >= 0) s.move.push_back({type.bank, column, data_.node_row[data_.node_first[s.block] + v], c});
}
void GraphFactors::push_pair(Scratch& s, const Shape& g, int l, int p, int q, double c) const {
  each_column(g, s.block, l, p, q,
              [&](int bank, int32_t column, int64_t row) { s.move.push_back({bank, column, row, c}); });
}
double GraphFactors::node_loss(int64_t block, int v, int label) const {
  const NodeType& type = data_.node_types[data_.shape_of(block).type[v]];
  return type.cost.of(truth_of(block, v), label) * node_weight(block, v);
}

// The size n of the largest group of labels that share a column. Such a group has the eigenvalue n |x|^2;
// labels with different columns are orthogonal.
static double largest_group(const std::vector<int32_t>& columns) {
  std::vector<int32_t> sorted(columns);
  std::sort(sorted.begin(), sorted.end());
  int most = 0, run = 0;
  for (size_t k = 0; k < sorted.size(); ++k) {
    run = k > 0 && sorted[k] == sorted[k - 1] ? run + 1 : 1;
    if (sorted[k] >= 0) most = std::max(most, run);
  }
  return most;
}
double GraphFactors::node_curvature(int64_t block, int v) const {
  const int64_t at = data_.node_first[block] + v;
  const NodeType& type = data_.node_types[data_.shape_of(block).type[v]];
  const Features* features = data_.banks[type.bank].features;
  return largest_group(type.column) * (features ? features->norms[data_.node_row[at]] : 1);
}
double GraphFactors::link_curvature(int64_t block, int l) const {
  const Shape& g = data_.shape_of(block);
  double sum = 0;  // sum of |x| over the edges; the length of a sum is at most the sum of the lengths
  for (int32_t e = g.link_first[l]; e < g.link_first[l + 1]; ++e) {
    const EdgeType& type = data_.edge_types[g.edges[e].type];
    const Features* features = data_.banks[type.bank].features;
    const double square = features ? features->norms[edge_row(block, g.edges[e].number)] : 1;
    sum += std::sqrt(largest_group(type.column) * square);
  }
  return sum * sum;
}

void GraphFactors::bank_scores(int number, int64_t row, const double* W, Scratch& s) const {
  const Bank& bank = data_.banks[number];
  const double* own = W + bank.inside;
  if (!bank.features) return void(std::copy(own, own + bank.stride, s.row_scores.begin()));
  std::fill(s.row_scores.begin(), s.row_scores.begin() + bank.stride, 0);
  bank.features->add_scores(row, own, bank.stride, s.row_scores.data());
}

void GraphFactors::open_link(const Shape& g, int l, const double* W, Scratch& s) const {
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
        table[p * columns + q] += type.score(edge.reversed ? q * rows + p : p * columns + q, values);
      }
  }
  s.tables[l] = table;
}
const double* GraphFactors::shared_table(int number, const double* W, Scratch& s) const {
  const EdgeType& type = data_.edge_types[number];
  double* table = s.shared.data() + s.shared_place[number];
  if (s.stamp[number] != s.opened) {
    const double* values = W + data_.banks[type.bank].inside;
    for (size_t k = 0; k < type.column.size(); ++k) table[k] = type.score(k, values);
    s.stamp[number] = s.opened;
  }
  return table;
}

double GraphFactors::find_best(Scratch& s) const {
  const int n = output_size(s.block);
  s.labels.resize(n);
  const PairwiseView p = view(s);
  double value = 0;
  if (s.hurried() && !p.graph->forest) {
    for (int v = 0; v < n; ++v) {
      const double* own = p.scores(v);
      s.labels[v] = static_cast<int32_t>(std::max_element(own, own + p.graph->count[v]) - own);
    }
    value = p.value(s.labels.data()), s.ceiling = p.sum_of_maxima();
  } else
    try {
      value = s.argmax.solve(p, data_.argmax, s.prove || thorough(s), s.labels.data(), s.ceiling);
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument("example " + std::to_string(s.block) + ": " + error.what());
    }
  if (s.augmented) {  // a search must not do worse than the true output
    const int32_t* known = data_.truth.data() + data_.node_first[s.block];
    const double own = p.value(known);
    if (own > value) value = own, std::copy(known, known + n, s.labels.begin());
  }
  s.ceiling = std::max(s.ceiling, value);
  return value;
}

double GraphFactors::squared_norm(Scratch& s) const {
  if (s.move.size() > many) return squared_norm_by_table(s);
  double sum = 0;
  for (size_t p = 0; p < s.move.size(); ++p) {
    const Item& x = s.move[p];
    const Features* features = data_.banks[x.bank].features;
    double inner = 0;
    for (size_t q = 0; q < p; ++q) {
      const Item& z = s.move[q];
      if (x.bank != z.bank || x.column != z.column) continue;
      inner += z.c * (!features ? 1 : x.row == z.row ? features->norms[x.row] : features->dot(z.row, x.row));
    }
    sum += x.c * (x.c * (features ? features->norms[x.row] : 1) + 2 * inner);
  }
  return sum;
}

double GraphFactors::squared_norm_by_table(Scratch& s) const {
  if (s.dense.empty()) s.dense.assign(weights(), 0);
  apply(s, s.dense.data(), 1.0);
  double sum = 0;
  for (const Item& x : s.move) {  // zeroed once read, so that each entry counts once
    const Bank& bank = data_.banks[x.bank];
    double* column = s.dense.data() + bank.inside + x.column;
    if (bank.features)
      bank.features->take_squares(x.row, column, bank.stride, sum);
    else
      sum += *column * *column, *column = 0;
  }
  return sum;
}

template <class Target>
void GraphFactors::apply(const Scratch& s, Target W, double c) const {
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

template void GraphFactors::apply(const Scratch&, double*, double) const;
template void GraphFactors::apply(const Scratch&, Gather, double) const;

}  // namespace mm
