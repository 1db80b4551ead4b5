// The data of factor graphs: tables of weights, types of nodes and edges, shapes, examples.
//
// A bank is a table of weights. It has columns, and a row for each feature; without features it has one row,
// for the constant 1. A type of nodes maps each label to a column of its bank, and a type of edges maps each
// pair of labels; -1 means no column. Edges that join the same two nodes form one link.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "features.hpp"
#include "models/argmax.hpp"
#include "models/costs.hpp"
#include "models/pairwise.hpp"

namespace mm {

struct Bank {
  const Features* features = nullptr;  // null: the constant 1
  int columns = 0, stride = 0;
  int64_t inside = 0, outside = 0;  // offsets of its weights
  int64_t width() const { return features ? features->width() : 1; }
};
struct NodeType {
  int bank = 0;
  std::vector<int32_t> column;  // of each label
  Costs cost;
  int labels() const { return static_cast<int>(column.size()); }
};
struct EdgeType {
  // Column of a pair of labels that no output has; column -1 scores nothing.
  static constexpr int32_t never = -2;
  int a = 0, b = 0, bank = 0;   // types of the two nodes, and its bank
  std::vector<int32_t> column;  // of each pair of labels, row-major by the label of a
  bool strict = false;          // whether some pairs of labels are forbidden
  std::vector<int32_t> sieve;   // the sieve of a table that only forbids pairs (pairwise.hpp), or empty
  double score(size_t pair, const double* values) const {
    const int32_t k = column[pair];
    return k >= 0 ? values[k] : k == never ? -std::numeric_limits<double>::infinity() : 0;
  }
};

// A graph without its features; many examples may share one.
struct Shape : Topology {
  struct Edge {
    int32_t type, number;  // number: index among the given edges
    bool reversed;         // whether its first end is the end b of the link
  };
  std::vector<int32_t> type;        // of each node
  std::vector<int32_t> link_first;  // edges of link l: edges[link_first[l]] .. edges[link_first[l + 1]]
  std::vector<Edge> edges;
  // Nodes whose label follows from the labels of their neighbours. They stand for factors over several nodes;
  // each state of the factor is a label.
  std::vector<int32_t> derived;
  std::vector<int64_t> own;  // offset of the own table of a link; -1: the link uses the table of its type
  int64_t own_size = 0;

  // Joins edges, given by their ends and types, into links.
  void join(const int32_t* ends, const int32_t* types, int64_t n) {
    std::map<std::pair<int32_t, int32_t>, int32_t> known;
    std::vector<int32_t> link(n);
    for (int64_t e = 0; e < n; ++e) {
      const auto pair = std::minmax(ends[2 * e], ends[2 * e + 1]);
      const auto [at, fresh] = known.try_emplace(pair, links());
      if (fresh) a.push_back(ends[2 * e]), b.push_back(ends[2 * e + 1]);
      link[e] = at->second;
    }
    link_first.assign(links() + 1, 0);
    for (int64_t e = 0; e < n; ++e) ++link_first[link[e] + 1];
    for (int l = 0; l < links(); ++l) link_first[l + 1] += link_first[l];
    std::vector<int32_t> next(link_first.begin(), link_first.end() - 1);
    edges.resize(n);
    for (int64_t e = 0; e < n; ++e)
      edges[next[link[e]]++] = {types[e], static_cast<int32_t>(e), ends[2 * e] != a[link[e]]};
  }
  // Reserves tables for links that cannot use the table of their type: links with several edges, or with
  // features.
  template <class HasFeatures>
  void place_tables(HasFeatures&& has_features) {
    own.assign(links(), -1);
    for (int l = 0; l < links(); ++l) {
      const Edge& edge = edges[link_first[l]];
      if (link_first[l + 1] - link_first[l] == 1 && !has_features(edge.type)) continue;
      own[l] = own_size;
      own_size += static_cast<int64_t>(count[a[l]]) * count[b[l]];
    }
  }
};

struct GraphData {
  GraphData() = default;
  GraphData(const GraphData&) = delete;

  std::vector<Bank> banks;
  std::vector<NodeType> node_types;
  std::vector<EdgeType> edge_types;
  std::vector<Shape> shapes;
  std::vector<int32_t> shape;          // of each example
  std::vector<int64_t> node_first{0};  // nodes of example i: node_first[i] .. node_first[i + 1]
  std::vector<int64_t> node_row;       // in the features of the node's bank
  std::vector<int32_t> truth;
  std::vector<double> weight;
  std::vector<int64_t> edge_first, edge_row;  // as for nodes; edge_row is empty if no edge has features
  ArgmaxOptions argmax;
  int64_t stored = 0, size = 0;  // number of weights inside (padded), outside

  int64_t blocks() const { return static_cast<int64_t>(shape.size()); }
  int64_t dimension() const { return size; }
  const Shape& shape_of(int64_t block) const { return shapes[shape[block]]; }
};

// For each type of nodes and each label: whether some edge has a weight there. Tables of links are zero at
// the other labels.
inline std::vector<std::vector<char>> loud_labels(const GraphData& data) {
  std::vector<std::vector<char>> loud;
  for (const NodeType& type : data.node_types) loud.emplace_back(type.labels(), 0);
  for (const EdgeType& type : data.edge_types) {
    const int rows = data.node_types[type.a].labels(), columns = data.node_types[type.b].labels();
    for (int y = 0; y < rows; ++y)
      for (int z = 0; z < columns; ++z)
        if (type.column[static_cast<size_t>(y) * columns + z] != -1) loud[type.a][y] = loud[type.b][z] = 1;
  }
  return loud;
}

// Whether every example is one row with the same labels, off or on; label v uses column v of the first bank.
inline bool are_rows_of_labels(const GraphData& data) {
  if (data.shapes.size() != 1 || data.banks.empty() || !data.banks[0].features) return false;
  const Shape& g = data.shapes[0];
  for (int v = 0; v < g.nodes(); ++v) {
    const NodeType& type = data.node_types[g.type[v]];
    if (type.bank != 0 || type.column != std::vector<int32_t>{-1, v}) return false;
  }
  for (size_t at = 0; at < data.node_row.size(); ++at)
    if (data.node_row[at] != data.node_row[at - at % g.nodes()]) return false;
  return true;
}

}  // namespace mm
