// Python bindings of dual coordinate ascent over explicit constraints; one set serves all structures that have it.
#include "solvers/coordinate.hpp"

#include "bindings/common.hpp"

namespace mm {

static void bind_coordinate(nb::module_& m) {
  const nb::call_guard<nb::gil_scoped_release> without_lock;
  nb::class_<Coordinate>(m, "Coordinate")
      .def("epoch",
           [](Coordinate& c, uint64_t seed, bool shrinking, double tolerance) {
             const EpochReport r = unlocked([&] { return c.epoch(seed, shrinking, tolerance); });
             return nb::make_tuple(r.visits, r.updates, r.active, r.violation);
           })
      .def("rounds",
           [](Coordinate& c, uint64_t seed, double tolerance, int sweeps, int skip, double inner,
              double momentum, double decay, int64_t rounds, int64_t visits, double enough, double far,
              double climb_below, double few) {
             const RoundOptions o{seed,   tolerance, sweeps, skip, inner,       momentum, decay,
                                  rounds, visits,    enough, far,  climb_below, few};
             const RoundReport r = unlocked([&] { return c.rounds(o); });
             return nb::make_tuple(r.visits, r.rounds, r.ascent + r.lag);
           })
      .def("probe",
           [](Coordinate& c, Array1<int64_t> blocks) {
             const auto [square, loss] = c.probe(blocks.data(), size(blocks));
             return nb::make_tuple(square, loss);
           })
      .def("set_proximity", &Coordinate::set_proximity)
      .def_prop_ro("proximity", &Coordinate::proximity)
      .def("weights", &weights_of<Coordinate>)
      .def("support", [](const Coordinate& c) { return to_numpy(c.support()); })
      .def("restore",
           [](Coordinate& c, Array1<int64_t> blocks, Array1<double> multipliers, Array1<int32_t> outputs) {
             check(multipliers.size() == blocks.size() && outputs.size() == blocks.size(),
                   "as many multipliers and outputs as blocks are needed");
             c.restore(blocks.data(), multipliers.data(), outputs.data(), size(blocks));
           })
      .def("reopen", &Coordinate::reopen)
      .def("refresh", &Coordinate::refresh, without_lock)
      .def("dual", &Coordinate::dual, without_lock)
      .def_prop_ro("n_planes", &Coordinate::planes);
}

static const Bindings coordinate_bindings(&bind_coordinate, true);

}  // namespace mm
