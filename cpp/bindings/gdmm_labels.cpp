#include "solvers/gdmm_labels.hpp"

#include "bindings/common.hpp"
#include "bindings/marginals.hpp"

namespace mm {

using Numbers = Array1<int64_t>;
using Values = Array1<double>;

void bind_gdmm_labels(nb::module_& m) {
  m.def("are_label_sets", &are_label_sets);
  m.def("joint_move", [](double alpha, double beta, double target, double rho, double mass) {
    const JointMove found = JointStep(alpha, beta, rho, mass).solve(target);
    return nb::make_tuple(found.alpha, found.beta, found.c);
  });
  nb::class_<LabelGdmm>(m, "LabelGdmm")
      .def(
          "__init__",
          [](LabelGdmm* self, const GraphData& data, Values mass, Values penalty, double eta, int inner,
             int grow) {
            if (!are_label_sets(data)) throw nb::value_error("these graphs are no sets of labels");
            if (static_cast<int64_t>(mass.size()) != data.blocks() || penalty.size() != mass.size())
              throw nb::value_error("a mass and a penalty for each example");
            new (self) LabelGdmm(data, to_vector(mass), to_vector(penalty), LabelOptions{eta, inner, grow});
          },
          nb::keep_alive<1, 2>())
      .def("visit",
           [](LabelGdmm& g, Numbers order, double tolerance, int64_t period) {
             if (period < 1) throw nb::value_error("period must be 1 or more");
             GdmmReport r;
             {
               nb::gil_scoped_release release;
               r = g.pass(order.data(), static_cast<int64_t>(order.size()), tolerance, period);
             }
             return nb::make_tuple(r.calls, r.updates, r.violation, r.inconsistent);
           })
      .def("dual", &LabelGdmm::dual, nb::call_guard<nb::gil_scoped_release>())
      .def("joint_gains",
           [](LabelGdmm& g, int64_t block, int wanted, bool exhaustive) {
             const auto [found, looks] = g.joint_gains(block, wanted, exhaustive);
             nb::list pairs;
             for (const JointGain& x : found) pairs.append(nb::make_tuple(x.gain, x.a, x.b));
             return nb::make_tuple(pairs, looks);
           })
      .def("repaired", [](const LabelGdmm& g) { return written(g.repaired()); })
      .def("restore",
           [](LabelGdmm& g, Numbers node_block, Array1<int32_t> node, Values node_value, Numbers link_block,
              Array1<int32_t> link, Values link_value) {
             g.restore(read(node_block, node, node_value, link_block, link, link_value));
           })
      .def("refresh", &LabelGdmm::refresh, nb::call_guard<nb::gil_scoped_release>())
      .def("weights", [](const LabelGdmm& g) { return to_numpy(g.weights()); })
      .def_prop_ro("active_nodes", &LabelGdmm::active_nodes)
      .def_prop_ro("active_links", &LabelGdmm::active_links);
}

}  // namespace mm
