// Dual coordinate ascent over written constraints, bound once for every structure that has it.
#pragma once

#include <stdexcept>

#include "bindings/common.hpp"
#include "solvers/dual_coordinate.hpp"

namespace mm {

template <class Structure>
void restore(DualCoordinate<Structure>& state, const Array1<int64_t>& blocks, const Array1<double>& c,
             const Array1<int32_t>& outputs) {
  if (c.size() != blocks.size() || outputs.size() != blocks.size())
    throw std::invalid_argument("as many multipliers and outputs as blocks are needed");
  std::fill(state.multipliers.begin(), state.multipliers.end(), 0.0);
  for (size_t p = 0; p < blocks.size(); ++p) {
    const int64_t i = blocks.data()[p];
    const int32_t y = outputs.data()[p];
    if (i < 0 || i >= static_cast<int64_t>(state.mass.size()) || y < 0 || y >= state.outputs(i))
      throw std::invalid_argument("the kept outputs do not fit the examples");
    state.multipliers[state.first(i) + y] += c.data()[p];
  }
  state.refresh();
  state.reopen();
}

template <class Structure>
void bind_coordinate(nb::module_& m, const char* name) {
  using C = DualCoordinate<Structure>;
  nb::class_<C>(m, name)
      .def(
          "__init__",
          [](C* self, const typename Structure::Data& data, Array1<double> mass) {
            if (static_cast<int64_t>(mass.size()) != data.blocks())
              throw nb::value_error("masses do not fit the examples");
            new (self) C(data, to_vector(mass));
          },
          nb::keep_alive<1, 2>())
      .def("epoch",
           [](C& c, uint64_t seed, bool shrinking, double tolerance) {
             EpochReport r;
             {
               nb::gil_scoped_release release;
               r = c.epoch(seed, shrinking, tolerance);
             }
             return nb::make_tuple(r.visits, r.updates, r.active, r.violation);
           })
      .def("weights",
           [](const C& c, bool exact) {
             std::vector<double> flat(c.structure.dimension());
             {
               nb::gil_scoped_release release;
               if (exact) {
                 std::vector<double> w;
                 c.law(w);
                 c.structure.unpack(w.data(), flat.data());
               } else {
                 c.structure.unpack(c.W.data(), flat.data());
               }
             }
             return to_numpy(std::move(flat));
           })
      .def("support",
           [](const C& c) {
             std::vector<int64_t> blocks;
             std::vector<double> multipliers;
             std::vector<int32_t> outputs;
             c.each_support([&](int64_t i, int32_t y, double a) {
               blocks.push_back(i), multipliers.push_back(a), outputs.push_back(y);
             });
             return nb::make_tuple(to_numpy(std::move(blocks)), to_numpy(std::move(multipliers)),
                                   to_numpy(std::move(outputs)));
           })
      .def("restore", &restore<Structure>)
      .def("reopen", &C::reopen)
      .def("refresh", &C::refresh, nb::call_guard<nb::gil_scoped_release>())
      .def("dual", &C::dual, nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("n_planes", [](const C& c) { return c.multipliers.size(); });
}

}  // namespace mm
