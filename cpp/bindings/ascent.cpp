// The dual state and its passes, as Python sees them: bound once for every structure.
#include "solvers/ascent.hpp"

#include "bindings/common.hpp"

namespace mm {

static nb::tuple visit(Ascent& a, Array1<int64_t> order, int rule, bool oracle, bool update, bool slacks,
                       bool line_search, double tolerance, int keep, int threads, int64_t room) {
  const VisitOptions options{
      static_cast<Rule>(rule), oracle, update, slacks, line_search, tolerance, keep, room};
  const int64_t n = static_cast<int64_t>(order.size());
  std::vector<double> violations(n), xi(slacks ? n : 0);
  VisitReport r;
  {
    nb::gil_scoped_release release;
    r = a.visit(order.data(), n, options, threads, violations.data(), xi.data());
  }
  return nb::make_tuple(to_numpy(std::move(violations)), to_numpy(std::move(xi)), r.oracle_calls, r.updates,
                        r.violation, r.gain, r.refused);
}

// An array may be empty: it is not given.
static const double* given(const Array1<double>& values, int64_t size) {
  if (values.size() == 0) return nullptr;
  check_weights(values, size);
  return values.data();
}

static nb::tuple usage(const Ascent& a) {
  Usage found = a.usage();
  return nb::make_tuple(to_numpy(std::move(found.bytes)), to_numpy(std::move(found.spread)),
                        to_numpy(std::move(found.moved)));
}

void bind_ascent(nb::module_& m) {
  const nb::call_guard<nb::gil_scoped_release> unlocked;
  nb::class_<Ascent>(m, "Ascent")
      .def("visit", &visit)
      .def_rw("ahead", &Ascent::ahead)
      .def("subgradient",
           [](Ascent& a, Array1<int64_t> order, double active) {
             VisitReport r;
             {
               nb::gil_scoped_release release;
               r = a.subgradient(order.data(), static_cast<int64_t>(order.size()), active);
             }
             return nb::make_tuple(r.oracle_calls, r.violation);
           })
      .def("probe",
           [](Ascent& a, Array1<int64_t> blocks) {
             const auto [square, loss] = a.probe(blocks.data(), static_cast<int64_t>(blocks.size()));
             return nb::make_tuple(square, loss);
           })
      .def("weights",
           [](const Ascent& a, bool exact) {
             return filled(a.dimension(), [&](double* flat) { a.weights(exact, flat); });
           })
      .def("weighted",
           [](const Ascent& a) { return filled(a.dimension(), [&](double* flat) { a.weighted(flat); }); })
      .def("start_average", &Ascent::start_average)
      .def("set_origin",
           [](Ascent& a, Array1<double> m) {
             check_weights(m, a.dimension());
             a.set_origin(m.data());
           })
      .def("set_metric",
           [](Ascent& a, Array1<double> diagonal, Array1<double> lower, Array1<double> matrix) {
             const int64_t d = a.dimension();
             a.set_metric(given(diagonal, d), given(lower, d), given(matrix, d * d));
           })
      .def("support", [](const Ascent& a) { return to_numpy(a.support()); })
      .def("support_of",
           [](const Ascent& a, Array1<int64_t> blocks) {
             return to_numpy(a.support_of(blocks.data(), static_cast<int64_t>(blocks.size())));
           })
      .def("usage", &usage)
      .def("restore",
           [](Ascent& a, Array1<int64_t> blocks, Array1<double> multipliers, LabelArray outputs) {
             if (multipliers.size() != blocks.size()) throw nb::value_error("a multiplier for each output");
             a.restore(blocks.data(), multipliers.data(), static_cast<int64_t>(blocks.size()), view(outputs));
           })
      .def("clear", &Ascent::clear)
      .def("freeze",
           [](Ascent& a, Array1<double> w) {
             check_weights(w, a.dimension());
             a.freeze(w.data());
           })
      .def("prune", &Ascent::prune, unlocked)
      .def("refresh", &Ascent::refresh, unlocked)
      .def("dual", &Ascent::dual, unlocked)
      .def("offset", &Ascent::offset, unlocked)
      .def("recenter", &Ascent::recenter, unlocked)
      .def("lag", &Ascent::lag)
      .def("squared_distance", &Ascent::squared_distance)
      .def_prop_ro("held", &Ascent::held)
      .def_prop_ro("bytes", &Ascent::bytes)
      .def_prop_ro("n_planes", &Ascent::planes)
      .def_prop_ro("proximity", &Ascent::proximity)
      .def_prop_ro("steps", &Ascent::steps);
}

}  // namespace mm
