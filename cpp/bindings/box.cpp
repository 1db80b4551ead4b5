// The box of multipliers of the summed error, as Python sees it: bound once for every structure.
#include "solvers/box.hpp"

#include <nanobind/stl/optional.h>

#include <optional>

#include "bindings/common.hpp"

namespace mm {

static nb::tuple visit(Box& b, Array1<int64_t> order, bool oracle, bool update, int keep, int threads) {
  BoxReport r;
  {
    nb::gil_scoped_release release;
    r = b.visit(order.data(), static_cast<int64_t>(order.size()), {oracle, update, keep}, threads);
  }
  return nb::make_tuple(r.oracle_calls, r.found, r.gap, r.change);
}

static nb::tuple visit_sets(Box& b, Array1<int64_t> order, bool oracle, double tolerance) {
  SetReport r;
  {
    nb::gil_scoped_release release;
    r = b.visit_sets(order.data(), static_cast<int64_t>(order.size()), oracle, tolerance);
  }
  return nb::make_tuple(r.oracle_calls, r.found, r.violation, r.gain);
}

// Slacks, offset, vector, which kept outputs violate, calls, new outputs
static nb::tuple cut(Box& b, Array1<double> w, bool oracle, int threads) {
  check_weights(w, b.dimension());
  BoxCut r;
  {
    nb::gil_scoped_release release;
    r = b.cut(w.data(), oracle, threads);
  }
  return nb::make_tuple(to_numpy(std::move(r.slacks)), r.offset, to_numpy(std::move(r.vector)),
                        to_numpy(std::move(r.violators)), r.oracle_calls, r.found);
}

static int64_t add_violators(Box& b, std::optional<Array1<double>> w, int64_t most, int threads) {
  if (w) check_weights(*w, b.dimension());
  nb::gil_scoped_release release;
  return b.widen(w ? w->data() : nullptr, most, threads);
}

void bind_box(nb::module_& m) {
  const nb::call_guard<nb::gil_scoped_release> unlocked;
  nb::class_<Box>(m, "Box")
      .def("visit", &visit)
      .def("visit_sets", &visit_sets)
      .def("cut", &cut)
      .def("shares", [](Box& b) { return to_numpy(b.shares()); })
      .def("set_shares",
           [](Box& b, Array1<double> shares) {
             b.set_shares(shares.data(), static_cast<int64_t>(shares.size()));
           })
      .def("widen", &add_violators, nb::arg("w").none(), nb::arg("most"), nb::arg("threads"))
      .def("weights",
           [](const Box& b) { return filled(b.dimension(), [&](double* flat) { b.weights(flat); }); })
      .def("support", [](const Box& b) { return to_numpy(b.support()); })
      .def("restore",
           [](Box& b, Array1<int64_t> blocks, Array1<double> multipliers, LabelArray outputs) {
             if (multipliers.size() != blocks.size()) throw nb::value_error("a multiplier for each output");
             b.restore(blocks.data(), multipliers.data(), static_cast<int64_t>(blocks.size()), view(outputs));
           })
      .def("adopt_sets", &Box::adopt_sets)
      .def("tell_sets", &Box::tell_sets)
      .def("refresh", &Box::refresh, unlocked)
      .def("dual", &Box::dual, unlocked)
      .def_prop_ro("kept", &Box::kept)
      .def_prop_ro("sets", &Box::sets);
}

}  // namespace mm
