// Python bindings of the box of multipliers of the summed error; one set of bindings serves every structure.
#include "solvers/box.hpp"

#include <nanobind/stl/optional.h>

#include <optional>

#include "bindings/common.hpp"
#include "models/any_structure.hpp"

namespace mm {

template class BoxOf<AnyStructure<uint16_t>>;
template class BoxOf<AnyStructure<int32_t>>;

static nb::tuple visit_box(Box& b, Array1<int64_t> order, bool oracle, bool update, int keep) {
  BoxReport r = unlocked([&] { return b.visit(order.data(), size(order), {oracle, update, keep}); });
  return nb::make_tuple(r.oracle_calls, r.found, r.gap, r.change, to_numpy(std::move(r.shares)));
}

static nb::tuple visit_sets(Box& b, Array1<int64_t> order, bool oracle, double tolerance) {
  const SetReport r = unlocked([&] { return b.visit_sets(order.data(), size(order), oracle, tolerance); });
  return nb::make_tuple(r.oracle_calls, r.found, r.violation, r.gain);
}

// Returns slacks, offset, vector, marks of the violating kept outputs, number of oracle calls, number of new outputs.
static nb::tuple cut(Box& b, Array1<double> w, bool oracle, int threads) {
  check_weights(w, b.dimension());
  BoxCut r = unlocked([&] { return b.cut(w.data(), oracle, threads); });
  return nb::make_tuple(to_numpy(std::move(r.slacks)), r.offset, to_numpy(std::move(r.vector)),
                        to_numpy(std::move(r.violators)), r.oracle_calls, r.found);
}

static int64_t add_violators(Box& b, std::optional<Array1<double>> w, int64_t most, int threads) {
  if (w) check_weights(*w, b.dimension());
  return unlocked([&] { return b.widen(w ? w->data() : nullptr, most, threads); });
}

static void bind_box(nb::module_& m) {
  nb::class_<Box, KeptState>(m, "Box")
      .def("visit", &visit_box)
      .def("visit_sets", &visit_sets)
      .def("cut", &cut)
      .def("shares", [](Box& b) { return to_numpy(b.shares()); })
      .def("set_shares", [](Box& b, Array1<double> shares) { b.set_shares(shares.data(), size(shares)); })
      .def("widen", &add_violators, nb::arg("w").none(), nb::arg("most"), nb::arg("threads"))
      .def("weights", &weights_of<Box>)
      .def("multipliers_to_sets", &Box::multipliers_to_sets)
      .def("sets_to_multipliers", &Box::sets_to_multipliers)
      .def_prop_ro("sets", &Box::sets);
}

static const Bindings box_bindings(&bind_box, true);

}  // namespace mm
