#include "solvers/gdmm_graph.hpp"

#include "bindings/common.hpp"
#include "bindings/marginals.hpp"

namespace mm {

using Codes = Array1<int32_t>;
using Numbers = Array1<int64_t>;
using Values = Array1<double>;

// sum_i c_i Delta and sum_i c_i psi of marginals, checked; c of every example.
static nb::tuple marginal_sum(const GraphData& data, Values c, Numbers node_block, Codes node,
                              Values node_value, Numbers link_block, Codes link, Values link_value) {
  if (static_cast<int64_t>(c.size()) != data.blocks()) throw nb::value_error("a factor for each example");
  const Marginals m = read(node_block, node, node_value, link_block, link, link_value);
  std::vector<double> flat(data.dimension());
  double offset = 0;
  {
    nb::gil_scoped_release release;
    const FactorGraph<int32_t> structure(data);
    aligned<double> W(structure.weights());
    offset = MarginalSum(data).run(m, c.data(), W.data());
    structure.unpack(W.data(), flat.data());
  }
  return nb::make_tuple(offset, to_numpy(std::move(flat)));
}

void bind_gdmm_graph(nb::module_& m) {
  m.def("marginal_sum", &marginal_sum);
  nb::class_<GraphGdmm>(m, "FactorGraphGdmm")
      .def(
          "__init__",
          [](GraphGdmm* self, const GraphData& data, Values mass, Values penalty, double eta, int inner,
             int grow) {
            if (static_cast<int64_t>(mass.size()) != data.blocks() || penalty.size() != mass.size())
              throw nb::value_error("a mass and a penalty for each example");
            new (self) GraphGdmm(data, to_vector(mass), to_vector(penalty), eta, inner, grow);
          },
          nb::keep_alive<1, 2>())
      .def("visit",
           [](GraphGdmm& g, Numbers order, double tolerance) {
             GdmmReport r;
             {
               nb::gil_scoped_release release;
               r = g.pass(order.data(), static_cast<int64_t>(order.size()), tolerance);
             }
             return nb::make_tuple(r.calls, r.updates, r.violation, r.inconsistent);
           })
      .def("repaired", [](const GraphGdmm& g) { return written(g.repaired()); })
      .def("restore",
           [](GraphGdmm& g, Numbers node_block, Codes node, Values node_value, Numbers link_block, Codes link,
              Values link_value) {
             g.restore(read(node_block, node, node_value, link_block, link, link_value));
           })
      .def("refresh", &GraphGdmm::refresh, nb::call_guard<nb::gil_scoped_release>())
      .def("weights",
           [](const GraphGdmm& g) {
             std::vector<double> flat(g.structure().dimension());
             g.structure().unpack(g.weights().data(), flat.data());
             return to_numpy(std::move(flat));
           })
      .def_prop_ro("active_nodes", &GraphGdmm::active_nodes)
      .def_prop_ro("active_links", &GraphGdmm::active_links)
      .def_prop_ro("bytes", &GraphGdmm::bytes);
}

}  // namespace mm
