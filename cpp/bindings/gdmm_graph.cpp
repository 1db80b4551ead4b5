// Python bindings of GDMM over marginals of factor graphs, and of sets of labels.
#include "solvers/gdmm_graph.hpp"

#include "bindings/common.hpp"
#include "solvers/gdmm_bounded.hpp"
#include "solvers/gdmm_labels.hpp"

namespace mm {

using Codes = Array1<int32_t>;
using Numbers = Array1<int64_t>;
using Values = Array1<double>;

static Marginals read(const Numbers& node_block, const Codes& node, const Values& node_value,
                      const Numbers& link_block, const Codes& link, const Values& link_value) {
  check(node_block.size() == node.size() && link_block.size() == link.size(),
        "as many blocks as nodes and links are needed");
  return {to_vector(node_block), to_vector(link_block), to_vector(node),
          to_vector(link),       to_vector(node_value), to_vector(link_value)};
}
static nb::tuple written(Marginals&& m) {
  return nb::make_tuple(to_numpy(std::move(m.node_block)), to_numpy(std::move(m.node)),
                        to_numpy(std::move(m.node_value)), to_numpy(std::move(m.link_block)),
                        to_numpy(std::move(m.link)), to_numpy(std::move(m.link_value)));
}

// Returns sum_i c_i Delta and sum_i c_i psi of given marginals, which it checks. c has a factor for every example.
static nb::tuple marginal_sum(const GraphData& data, Values c, Numbers node_block, Codes node,
                              Values node_value, Numbers link_block, Codes link, Values link_value) {
  check(size(c) == data.blocks(), "a factor for each example");
  const Marginals m = read(node_block, node, node_value, link_block, link, link_value);
  return with_vector(data.dimension(), [&](double* sum) {
    const GraphFactors structure(data);
    aligned<double> W(structure.weights());
    const double offset = MarginalSum(data).run(m, c.data(), W.data());
    structure.unpack(W.data(), sum);
    return offset;
  });
}

// Binds a GDMM over marginals: a mass and a penalty for each example, marginals in and out. The options of a pass
// follow its order.
template <class Gdmm, class... Options>
static nb::class_<Gdmm> bind(nb::module_& m, const char* name) {
  nb::class_<Gdmm> kind(m, name);
  kind.def(
          "__init__",
          [](Gdmm* self, const GraphData& data, Values mass, Values penalty, double eta, int inner,
             int grow) {
            check(size(mass) == data.blocks() && penalty.size() == mass.size(),
                  "a mass and a penalty for each example");
            new (self) Gdmm(data, to_vector(mass), to_vector(penalty), eta, inner, grow);
          },
          nb::keep_alive<1, 2>())
      .def("visit",
           [](Gdmm& g, Numbers order, Options... options) {
             const GdmmReport r = unlocked([&] { return g.pass(order.data(), size(order), options...); });
             return nb::make_tuple(r.calls, r.updates, r.violation, r.inconsistent);
           })
      .def("repaired", [](const Gdmm& g) { return written(g.repaired()); })
      .def("restore",
           [](Gdmm& g, Numbers node_block, Codes node, Values node_value, Numbers link_block, Codes link,
              Values link_value) {
             g.restore(read(node_block, node, node_value, link_block, link, link_value));
           })
      .def("refresh", &Gdmm::refresh, nb::call_guard<nb::gil_scoped_release>())
      .def("weights", [](const Gdmm& g) { return to_numpy(g.weights()); })
      .def_prop_ro("active_nodes", &Gdmm::active_nodes)
      .def_prop_ro("active_links", &Gdmm::active_links);
  return kind;
}

// Upper bounds on the slack of every example in the linear relaxation at w, from prices of pairs. They hold for any
// prices.
static auto label_ceilings(const GraphData& data, Values w, Numbers block, Codes link, Values first,
                           Values second) {
  check_weights(w, data.dimension());
  check(block.size() == link.size() && first.size() == link.size() && second.size() == link.size(),
        "two prices for each pair");
  const std::vector<double> ones(data.blocks(), 1.0);
  return to_numpy(unlocked([&] {
    LabelGdmm proof(data, ones, ones, 0, 1, 1);
    return proof.ceilings(w.data(), {to_vector(block), to_vector(link), to_vector(first), to_vector(second)});
  }));
}

static void bind_gdmm_graph(nb::module_& m) {
  m.def("label_ceilings", &label_ceilings);
  m.def("marginal_sum", &marginal_sum);
  m.def("are_label_sets", &are_label_sets);
  m.def("joint_move", [](double alpha, double beta, double target, double rho, double mass) {
    const JointMove found = JointStep(alpha, beta, rho, mass).solve(target);
    return nb::make_tuple(found.alpha, found.beta, found.c);
  });
  auto graphs = bind<GraphGdmm, double>(m, "FactorGraphGdmm");
  bind_prior(graphs);
  auto bounded = bind<BoundedGdmm, double>(m, "BoundedGdmm");
  bind_prior(bounded);
  bounded.def_prop_ro("bound", &BoundedGdmm::bound);
  bind<LabelGdmm, double, int64_t, int, bool, uint64_t>(m, "LabelGdmm")
      .def("set_origin", &set_origin<LabelGdmm>)
      .def("ceilings", [](LabelGdmm& g) { return to_numpy(unlocked([&] { return g.ceilings(); })); })
      .def("prices",
           [](const LabelGdmm& g) {
             PairPrices p = g.prices();
             return nb::make_tuple(to_numpy(std::move(p.block)), to_numpy(std::move(p.link)),
                                   to_numpy(std::move(p.first)), to_numpy(std::move(p.second)));
           })
      .def("dual", &LabelGdmm::dual, nb::call_guard<nb::gil_scoped_release>())
      .def("joint_gains", [](LabelGdmm& g, int64_t block, int wanted, bool exhaustive) {
        const auto [found, looks] = g.joint_gains(block, wanted, exhaustive);
        nb::list pairs;
        for (const JointGain& x : found) pairs.append(nb::make_tuple(x.gain, x.a, x.b));
        return nb::make_tuple(pairs, looks);
      });
}

static const Bindings gdmm_graph_bindings(&bind_gdmm_graph);

}  // namespace mm
