#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <algorithm>
#include <optional>

#include "bindings/powers.hpp"
#include "models/label_sets.hpp"

namespace mm {

using Codes = Array1<int32_t>;

static void add_bank(GraphData& g, std::optional<nb::handle> rows, int columns) {
  Bank bank;
  if (rows) bank.features = &nb::cast<const Features&>(*rows);
  check(columns > 0, "a bank needs columns");
  check(!bank.features || !bank.features->gram, "a bank takes no kernel");
  bank.columns = columns;
  bank.stride = padded<double>(columns);
  bank.inside = g.stored, bank.outside = g.size;
  g.stored += bank.width() * bank.stride;
  g.size += bank.width() * columns;
  g.banks.push_back(bank);
}

static void add_node_type(GraphData& g, int bank, Codes columns, Array1<double> cost) {
  check(bank >= 0 && bank < static_cast<int>(g.banks.size()), "no such bank");
  check(columns.size() >= 1 && within(columns, -1, g.banks[bank].columns), "columns outside the bank");
  Costs costs{static_cast<int>(columns.size()), to_vector(cost)};
  check(costs.fits(), "costs do not fit the labels");
  g.node_types.push_back({bank, to_vector(columns), std::move(costs)});
}

// For each label of the first end, the labels that it allows. Empty if the type of edges has weights, too, or is not
// simple enough.
static std::vector<int32_t> sieve_of(const EdgeType& type, int rows, int columns) {
  std::vector<int32_t> sieve;
  for (int s = 0; s < rows && type.strict; ++s) {
    const int32_t* row = type.column.data() + static_cast<int64_t>(s) * columns;
    if (std::any_of(row, row + columns, [](int32_t c) { return c >= 0; })) return {};
    const int64_t out = std::count(row, row + columns, EdgeType::never);
    const auto place = [&](int32_t c) { return static_cast<int>(std::find(row, row + columns, c) - row); };
    if (out == columns - 1)
      sieve.push_back(Sieve::only(place(-1)));
    else if (out == 1)
      sieve.push_back(Sieve::all_but(place(EdgeType::never)));
    else if (out == 0)
      sieve.push_back(Sieve::everything);
    else
      return {};
  }
  return sieve;
}

static void add_edge_type(GraphData& g, int a, int b, int bank, Codes columns) {
  const int types = static_cast<int>(g.node_types.size());
  check(bank >= 0 && bank < static_cast<int>(g.banks.size()), "no such bank");
  check(a >= 0 && a < types && b >= 0 && b < types, "no such type of nodes");
  check(static_cast<int>(columns.size()) == g.node_types[a].labels() * g.node_types[b].labels() &&
            within(columns, EdgeType::never, g.banks[bank].columns),
        "columns do not fit the pairs of labels");
  EdgeType type{a, b, bank, to_vector(columns)};
  type.strict = std::count(type.column.begin(), type.column.end(), EdgeType::never) > 0;
  type.sieve = sieve_of(type, g.node_types[a].labels(), g.node_types[b].labels());
  g.edge_types.push_back(std::move(type));
}

static void add_shape(GraphData& g, Codes types, Array2<int32_t> edges, Codes edge_types) {
  Shape shape;
  const size_t n = types.size(), m = edge_types.size();
  check(n > 0 && within(types, 0, static_cast<int64_t>(g.node_types.size())), "types of nodes");
  check(edges.shape(0) == m && edges.shape(1) == 2 && within(edges, 0, static_cast<int64_t>(n)),
        "ends of edges");
  check(within(edge_types, 0, static_cast<int64_t>(g.edge_types.size())), "types of edges");
  shape.type = to_vector(types);
  for (const int32_t type : shape.type) shape.count.push_back(g.node_types[type].labels());
  for (size_t e = 0; e < m; ++e) {
    const int32_t *ends = edges.data() + 2 * e, type = edge_types.data()[e];
    check(ends[0] != ends[1], "an edge from a node to itself");
    check(shape.type[ends[0]] == g.edge_types[type].a && shape.type[ends[1]] == g.edge_types[type].b,
          "an edge does not fit its type");
  }
  shape.join(edges.data(), edge_types.data(), static_cast<int64_t>(m));
  for (size_t e = 0; e < m; ++e)  // the first end of a strict edge
    if (g.edge_types[edge_types.data()[e]].strict) shape.derived.push_back(edges.data()[2 * e]);
  std::sort(shape.derived.begin(), shape.derived.end());
  shape.derived.erase(std::unique(shape.derived.begin(), shape.derived.end()), shape.derived.end());
  if (!shape.derived.empty()) {
    for (int l = 0; l < shape.links(); ++l) {
      const Shape::Edge& edge = shape.edges[shape.link_first[l]];
      const std::vector<int32_t>& sieve = g.edge_types[edge.type].sieve;
      const bool alone = shape.link_first[l + 1] - shape.link_first[l] == 1 && !edge.reversed;
      shape.sieves.push_back(alone && !sieve.empty() ? sieve.data() : nullptr);
    }
  }
  shape.place_tables([&](int32_t type) { return g.banks[g.edge_types[type].bank].features != nullptr; });
  shape.finish();
  g.shapes.push_back(std::move(shape));
}

static void check_rows(const GraphData& g) {
  for (int64_t i = 0; i < g.blocks(); ++i) {
    const Shape& shape = g.shape_of(i);
    for (int v = 0; v < shape.nodes(); ++v) {
      const int64_t at = g.node_first[i] + v;
      const Features* rows = g.banks[g.node_types[shape.type[v]].bank].features;
      check(!rows || (g.node_row[at] >= 0 && g.node_row[at] < rows->size()), "rows of nodes");
      check(g.truth[at] >= 0 && g.truth[at] < shape.count[v], "labels of nodes");
    }
    for (const Shape::Edge& edge : shape.edges) {
      const Features* rows = g.banks[g.edge_types[edge.type].bank].features;
      if (!rows) continue;
      check(!g.edge_row.empty(), "rows of edges are missing");
      const int64_t row = g.edge_row[g.edge_first[i] + edge.number];
      check(row >= 0 && row < rows->size(), "rows of edges");
    }
  }
}

static void set_examples(GraphData& g, Codes shape, Array1<int64_t> node_row, Codes truth,
                         Array1<double> weight, Array1<int64_t> edge_row) {
  check(within(shape, 0, static_cast<int64_t>(g.shapes.size())), "no such shape");
  g.shape = to_vector(shape);
  g.node_first.assign(1, 0);
  g.edge_first.assign(1, 0);
  for (const int32_t s : g.shape) {
    g.node_first.push_back(g.node_first.back() + g.shapes[s].nodes());
    g.edge_first.push_back(g.edge_first.back() + static_cast<int64_t>(g.shapes[s].edges.size()));
  }
  const size_t n = static_cast<size_t>(g.node_first.back());
  check(node_row.size() == n && truth.size() == n && weight.size() == n, "nodes do not fit the shapes");
  check(edge_row.size() == 0 || static_cast<int64_t>(edge_row.size()) == g.edge_first.back(),
        "edges do not fit the shapes");
  g.node_row = to_vector(node_row);
  g.truth = to_vector(truth);
  g.weight = to_vector(weight);
  g.edge_row = to_vector(edge_row);
  check_rows(g);
}

// Returns a pairwise problem as arrays: labels of each node, scores, ends of the links, tables one after the other.
static nb::tuple as_arrays(const PairwiseView& p) {
  const Topology& g = *p.graph;
  std::vector<int32_t> ends;
  std::vector<double> tables;
  for (int l = 0; l < g.links(); ++l) {
    ends.push_back(g.a[l]);
    ends.push_back(g.b[l]);
    const int64_t size = static_cast<int64_t>(g.count[g.a[l]]) * g.count[g.b[l]];
    tables.insert(tables.end(), p.tables[l], p.tables[l] + size);
  }
  return nb::make_tuple(to_numpy(std::vector<int32_t>(g.count)),
                        to_numpy(std::vector<double>(p.unary, p.unary + g.place.back())),
                        to_numpy(std::move(ends)), to_numpy(std::move(tables)));
}

static void set_argmax(GraphData& g, int method, int iterations, std::optional<nb::callable> solver) {
  check(method >= 0 && method <= static_cast<int>(Inference::roof), "no such method");
  check(iterations >= 1, "iterations must be 1 or more");
  g.argmax.method = static_cast<Inference>(method);
  g.argmax.iterations = iterations;
  check(g.argmax.method != Inference::outside || solver, "a solver is needed");
  for (const Shape& shape : g.shapes) {
    check(g.argmax.method != Inference::tree || shape.forest, "a graph has cycles");
    const bool binary = g.argmax.method == Inference::cut || g.argmax.method == Inference::roof;
    check(!binary || shape.binary, "a graph has nodes of more than two labels");
  }
  if (!solver) return;
  g.argmax.solver = [ask = *solver](const PairwiseView& p, int32_t* y) {
    nb::gil_scoped_acquire acquire;
    const nb::object answer = ask(*as_arrays(p));
    const auto [labels, bound] = nb::cast<std::pair<Array1<int32_t>, double>>(answer);
    check(static_cast<int>(labels.size()) == p.graph->nodes(),
          "the solver answered another number of labels");
    for (int v = 0; v < p.graph->nodes(); ++v)
      check(labels.data()[v] >= 0 && labels.data()[v] < p.graph->count[v], "the solver answered no label");
    std::copy(labels.data(), labels.data() + labels.size(), y);
    return bound;
  };
}

// Solves one problem that is given by arrays. Returns labels, value and ceiling.
static nb::tuple pairwise_argmax(Codes count, Array1<double> unary, Array2<int32_t> links,
                                 Array1<double> tables, int method, int iterations) {
  Topology g;
  g.count = to_vector(count);
  check(count.size() > 0 && within(count, 1, std::numeric_limits<int32_t>::max()), "counts");
  check(links.shape(1) == 2 && within(links, 0, g.nodes()), "ends of links");
  std::vector<const double*> table;
  size_t size = 0;
  for (size_t l = 0; l < links.shape(0); ++l) {
    g.a.push_back(links.data()[2 * l]);
    g.b.push_back(links.data()[2 * l + 1]);
    table.push_back(tables.data() + size);
    size += static_cast<size_t>(g.count[g.a.back()]) * g.count[g.b.back()];
  }
  g.finish();
  check(static_cast<int64_t>(unary.size()) == g.place.back() && tables.size() == size, "scores");
  check(method >= 0 && method < static_cast<int>(Inference::outside) && iterations >= 1, "method");
  check(static_cast<Inference>(method) != Inference::tree || g.forest, "a graph has cycles");
  check(static_cast<Inference>(method) != Inference::cut || g.binary, "more than two labels");
  ArgmaxOptions options{static_cast<Inference>(method), iterations, {}};
  std::vector<int32_t> y(g.nodes());
  double ceiling = 0;
  const double value = unlocked(
      [&] { return Argmax().solve({&g, unary.data(), table.data()}, options, true, y.data(), ceiling); });
  return nb::make_tuple(to_numpy(std::move(y)), value, ceiling);
}

static auto any_structure(const GraphData& data, Rescaling rescaling) {
  return LabelSets::fits(data) ? erased<LabelSets>(data, rescaling) : erased<FactorGraph>(data, rescaling);
}

// Returns the pairwise problem of an example, with the loss or without.
static nb::tuple problem(const GraphData& data, Array1<double> w, int64_t block, bool augmented) {
  check_weights(w, data.dimension());
  check_block(data, block);
  const GraphFactors structure(data);
  aligned<double> W(structure.weights());
  structure.pack(w.data(), W.data());
  auto s = structure.scratch();
  structure.open(block, W.data(), s, augmented, 1);
  return as_arrays(structure.view(s));
}

static void bind_factor_graph(nb::module_& m) {
  nb::class_<GraphData> kind(m, "FactorGraphData");
  kind.def(nb::init<>())
      .def("add_bank", &add_bank, nb::arg("rows").none(), nb::arg("columns"), nb::keep_alive<1, 2>())
      .def("add_node_type", &add_node_type)
      .def("add_edge_type", &add_edge_type)
      .def("add_shape", &add_shape)
      .def("set_examples", &set_examples)
      .def("set_argmax", &set_argmax, nb::arg("method"), nb::arg("iterations"), nb::arg("solver").none())
      .def("problem", &problem)
      .def("forests", [](const GraphData& g) {
        std::vector<uint8_t> forest;
        for (const Shape& shape : g.shapes) forest.push_back(shape.forest);
        return to_numpy(std::move(forest));
      });
  bind_powers(kind);
  bind_box_of<FactorGraph>(kind);
  m.def("pairwise_argmax", &pairwise_argmax);
}

static const Bindings factor_graph_bindings(&bind_factor_graph);

}  // namespace mm
