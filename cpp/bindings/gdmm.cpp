#include "solvers/gdmm.hpp"

#include "bindings/common.hpp"
#include "solvers/chain_frank_wolfe.hpp"

namespace mm {

static Messages messages_of(const Array1<int32_t>& labels, const Array1<double>& values) {
  Messages messages;
  for (size_t n = 0; n < labels.size(); ++n) messages.push_back({labels.data()[n], values.data()[n]});
  return messages;
}

static void bind_gdmm(nb::module_& m) {
  const nb::call_guard<nb::gil_scoped_release> without_lock;
  nb::class_<ChainGdmm> kind(m, "ChainGdmm");
  bind_prior(kind);
  kind.def(
          "__init__",
          [](ChainGdmm* self, const ChainData& data, Array1<double> mass) {
            new (self) ChainGdmm(data, to_vector(mass));
          },
          nb::keep_alive<1, 2>())
      .def(
          "greedy_pass",
          [](ChainGdmm& g, Array1<int64_t> order, double rho, int inner, int partitions, bool exhaustive,
             int direction, uint64_t seed, int sweeps, double eta) {
            const ChainGdmmOptions options{
                rho, inner, partitions, exhaustive, static_cast<Direction>(direction), sweeps, eta};
            const ChainGdmmReport report =
                unlocked([&] { return g.pass(order.data(), size(order), options, seed); });
            return nb::make_tuple(report.searches, report.updates, report.violation);
          },
          nb::arg("order"), nb::arg("rho"), nb::arg("inner"), nb::arg("partitions"), nb::arg("exhaustive"),
          nb::arg("direction"), nb::arg("seed"), nb::arg("sweeps") = 0, nb::arg("eta") = 1.0)
      .def("update_multipliers", &ChainGdmm::update_multipliers, without_lock)
      .def("seek",
           [](ChainGdmm& g, Array1<int64_t> order, double rho, bool exhaustive) {
             return unlocked([&] { return g.seek(order.data(), size(order), rho, exhaustive); });
           })
      .def("stiffness", &ChainGdmm::stiffness)
      .def("recenter", &ChainGdmm::recenter)
      .def("lag", [](ChainGdmm& g) { return g.prior.lag(); })
      .def("support", [](const ChainGdmm& g) { return to_numpy(g.support()); })
      .def("restore",
           [](ChainGdmm& g, Array1<int64_t> blocks, Array1<double> multipliers, Array1<int32_t> outputs) {
             g.restore(blocks.data(), multipliers.data(), size(blocks), outputs.data());
           })
      .def("rebuild", &ChainGdmm::rebuild)
      .def("weights",
           [](ChainGdmm& g) {
             g.rebuild();
             return filled(g.dimension(), [&](double* flat) { g.structure.unpack(g.W.data(), flat); });
           })
      .def("order_pairs", &ChainGdmm::order_pairs)
      // The best pair of labels at given weights and messages, for tests: (score, first, second).
      .def("best_pair",
           [](ChainGdmm& g, Array1<double> w, Array1<int32_t> left, Array1<double> m, Array1<int32_t> right,
              Array1<double> n, double rho, bool exhaustive) {
             check_weights(w, g.structure.dimension());
             g.structure.pack(w.data(), g.W.data());
             g.watch();
             const Scored best = g.best_pair(messages_of(left, m), messages_of(right, n), rho, exhaustive);
             return nb::make_tuple(best.score, best.first, best.second);
           })
      .def_prop_ro("active", [](const ChainGdmm& g) { return g.factors.active(); });
  nb::class_<ChainFrankWolfe>(m, "ChainFrankWolfe")
      .def(nb::init<ChainGdmm&>(), nb::keep_alive<1, 2>())
      .def("greedy_pass",
           [](ChainFrankWolfe& g, double rho, int partitions, bool exhaustive) {
             const ChainGdmmOptions options{rho, 1, partitions, exhaustive, Direction::away};
             const ChainGdmmReport report = unlocked([&] { return g.pass(options); });
             return nb::make_tuple(report.searches, report.updates, report.violation);
           })
      .def_prop_ro("bases", &ChainFrankWolfe::bases);
}

static const Bindings gdmm_bindings(&bind_gdmm);

}  // namespace mm
