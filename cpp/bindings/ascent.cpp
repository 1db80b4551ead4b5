// Python bindings of the dual state and its passes; one set of bindings serves every structure.
#include "solvers/ascent.hpp"

#include "bindings/common.hpp"
#include "models/any_structure.hpp"

namespace mm {

template class AscentOf<AnyStructure<uint16_t>>;
template class AscentOf<AnyStructure<int32_t>>;

static nb::tuple visit_ascent(Ascent& a, Array1<int64_t> order, int rule, bool oracle, bool update,
                              bool slacks, bool line_search, double tolerance, int keep, int threads,
                              int64_t byte_budget) {
  const VisitOptions options{
      static_cast<Rule>(rule), oracle, update, slacks, line_search, tolerance, keep, byte_budget};
  std::vector<double> violations(order.size()), xi(slacks ? order.size() : 0);
  const VisitReport r = unlocked(
      [&] { return a.visit(order.data(), size(order), options, threads, violations.data(), xi.data()); });
  return nb::make_tuple(to_numpy(std::move(violations)), to_numpy(std::move(xi)), r.oracle_calls, r.updates,
                        r.violation, r.gain, r.refused);
}

static nb::tuple usage(const Ascent& a) {
  Usage found = a.usage();
  return nb::make_tuple(to_numpy(std::move(found.bytes)), to_numpy(std::move(found.spread)),
                        to_numpy(std::move(found.moved)));
}

static void bind_ascent(nb::module_& m) {
  const nb::call_guard<nb::gil_scoped_release> without_lock;
  nb::class_<KeptState> kept(m, "KeptState");  // before Box, which also derives from it
  bind_prior(kept);
  kept.def("support", [](const KeptState& a) { return to_numpy(a.support()); })
      .def("restore",
           [](KeptState& a, Array1<int64_t> blocks, Array1<double> multipliers, LabelArray outputs) {
             check(multipliers.size() == blocks.size(), "a multiplier for each output");
             a.restore(blocks.data(), multipliers.data(), size(blocks), view(outputs));
           })
      .def("refresh", &KeptState::refresh, without_lock)
      .def("dual", &KeptState::dual, without_lock)
      .def("prune", &KeptState::prune, without_lock)
      .def_prop_ro("bytes_kept", &KeptState::bytes_kept)
      .def_prop_ro("n_planes", &KeptState::planes);
  nb::class_<Ascent, KeptState>(m, "Ascent")
      .def("visit", &visit_ascent)
      .def_rw("ahead", &Ascent::ahead)
      .def("subgradient",
           [](Ascent& a, Array1<int64_t> order, double active) {
             const VisitReport r = unlocked([&] { return a.subgradient(order.data(), size(order), active); });
             return nb::make_tuple(r.oracle_calls, r.violation);
           })
      .def("probe",
           [](Ascent& a, Array1<int64_t> blocks) {
             const auto [square, loss] = a.probe(blocks.data(), size(blocks));
             return nb::make_tuple(square, loss);
           })
      .def("weights",
           [](Ascent& a, bool exact) {
             return filled(a.dimension(), [&](double* flat) { a.weights(exact, flat); });
           })
      .def("weighted",
           [](const Ascent& a) { return filled(a.dimension(), [&](double* flat) { a.weighted(flat); }); })
      .def("start_average", &Ascent::start_average)
      .def("go_on",
           [](Ascent& a, double steps, double scale, Array1<double> sums, Array1<double> weighted) {
             a.go_on(steps, scale, given(sums, a.blocks()), given(weighted, a.dimension()));
           })
      .def("support_of",
           [](const Ascent& a, Array1<int64_t> blocks) {
             return to_numpy(a.support_of(blocks.data(), size(blocks)));
           })
      .def("usage", &usage)
      .def("clear", &Ascent::clear)
      .def("freeze",
           [](Ascent& a, Array1<double> w) {
             check_weights(w, a.dimension());
             a.freeze(w.data());
           })
      .def("recenter", &Ascent::recenter, without_lock)
      .def("lag", &Ascent::lag)
      .def("squared_distance", &Ascent::squared_distance)
      .def_prop_ro("proximity", &Ascent::proximity)
      .def_prop_ro("steps", &Ascent::steps);
}

static const Bindings ascent_bindings(&bind_ascent, true);

}  // namespace mm
