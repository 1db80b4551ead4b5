#include "solvers/gdmm.hpp"

#include <algorithm>

#include "bindings/common.hpp"
#include "solvers/path_decomposition.hpp"

namespace mm {

namespace {
using Solver = Gdmm<double>;

// Labellings with multipliers of all blocks: a feasible point near the marginals.
nb::tuple support(const Solver& solver, const ChainData& data, const std::vector<double>& mass) {
  std::vector<int64_t> blocks;
  std::vector<double> multipliers;
  std::vector<int32_t> outputs;
  PathDecomposition decomposition;
  const auto nodes = [&](int64_t r) {
    std::vector<NodeMass> found;
    for (const Share& s : solver.unigram(r)) found.push_back({s.first, s.mass});
    return found;
  };
  for (int64_t i = 0; i < data.blocks(); ++i) {
    if (mass[i] <= 0) continue;
    const int64_t first = data.offsets[i];
    decomposition.start(nodes(first), mass[i]);
    for (int64_t r = first + 1; r < data.offsets[i + 1]; ++r) {
      std::vector<PairMass> pairs;
      for (const Share& s : solver.bigram(solver.first_pair(i) + r - first - 1))
        pairs.push_back({s.first, s.second, s.mass});
      decomposition.extend(pairs, nodes(r));
    }
    decomposition.finish();
    for (const auto& path : decomposition.paths()) {
      blocks.push_back(i);
      multipliers.push_back(path.mass);
      outputs.insert(outputs.end(), path.labels.begin(), path.labels.end());
    }
  }
  return nb::make_tuple(to_numpy(std::move(blocks)), to_numpy(std::move(multipliers)),
                        to_numpy(std::move(outputs)));
}

Messages messages_of(const Array1<int32_t>& labels, const Array1<double>& values) {
  Messages messages;
  for (size_t n = 0; n < labels.size(); ++n) message(messages, labels.data()[n]).residual += values.data()[n];
  return messages;
}

struct Bound {
  const ChainData& data;
  std::vector<double> mass;
  Solver solver;
  Bound(const ChainData& d, Array1<double> m) : data(d), mass(to_vector(m)), solver(d, mass) {}
};
}  // namespace

void bind_gdmm(nb::module_& m) {
  nb::class_<Bound>(m, "ChainGdmm")
      .def(nb::init<const ChainData&, Array1<double>>(), nb::keep_alive<1, 2>())
      .def("greedy_pass",
           [](Bound& b, Array1<int64_t> order, double rho, int inner, int partitions, bool exhaustive,
              int direction, uint64_t seed) {
             GdmmReport report;
             {
               nb::gil_scoped_release release;
               report = b.solver.pass(order.data(), static_cast<int64_t>(order.size()),
                                      {rho, inner, partitions, exhaustive, static_cast<Direction>(direction)},
                                      seed);
             }
             return nb::make_tuple(report.searches, report.updates, report.violation);
           })
      .def(
          "update_multipliers", [](Bound& b, double eta) { return b.solver.update_multipliers(eta); },
          nb::call_guard<nb::gil_scoped_release>())
      .def(
          "seek",
          [](Bound& b, Array1<int64_t> order, double rho, bool exhaustive) {
            return b.solver.seek(order.data(), static_cast<int64_t>(order.size()), rho, exhaustive);
          },
          nb::call_guard<nb::gil_scoped_release>())
      .def("disagreement", [](const Bound& b) { return b.solver.disagreement(); })
      .def("support", [](const Bound& b) { return support(b.solver, b.data, b.mass); })
      .def("restore",
           [](Bound& b, Array1<int64_t> blocks, Array1<double> multipliers, Array1<int32_t> outputs) {
             b.solver.restore(blocks.data(), multipliers.data(), static_cast<int64_t>(blocks.size()),
                              outputs.data());
           })
      .def("rebuild", [](Bound& b) { b.solver.rebuild(); })
      .def("weights",
           [](const Bound& b) {
             std::vector<double> w, flat(b.solver.structure.dimension());
             b.solver.law(w);
             b.solver.structure.unpack(w.data(), flat.data());
             return to_numpy(std::move(flat));
           })
      // The best pair of labels at weights and messages of one's own, for tests: (score, first, second).
      .def("best_pair",
           [](Bound& b, Array1<double> w, Array1<int32_t> left, Array1<double> m, Array1<int32_t> right,
              Array1<double> n, double rho, bool exhaustive) {
             if (static_cast<int64_t>(w.size()) != b.solver.structure.dimension())
               throw nb::value_error("w does not fit the model");
             b.solver.structure.pack(w.data(), b.solver.W.data());
             b.solver.structure.watch(b.solver.W.data());
             const Scored best =
                 b.solver.best_pair(messages_of(left, m), messages_of(right, n), rho, exhaustive);
             return nb::make_tuple(best.score, best.first, best.second);
           })
      .def_prop_ro("active", [](const Bound& b) { return b.solver.active(); });
}

}  // namespace mm
